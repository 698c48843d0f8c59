/** The program. It runs on Linux on x86-64. */
export const binary: string;

export interface StartOptions {
  /** 0, which is the default: a free one. */
  port?: number;
  /** Default: 127.0.0.1. Another one needs a token. */
  host?: string;
  /** Where counters live. Default: memory: */
  store?: string;
  /** The policy file. Default: none, only limits that come with requests. */
  config?: string;
  /** More options of `weir serve`. */
  args?: string[];
  /** More variables. Those of this process that begin with WEIR_ are not passed on. */
  env?: Record<string, string>;
  /** Milliseconds until the server must be ready. Default: 10000. */
  timeout?: number;
  /** Is called with each line of the log. */
  onLog?: (line: string) => void;
}

export interface WeirServer {
  url: string;
  host: string;
  port: number;
  pid: number;
  /** Stops it; requests in flight are answered. Resolves to the exit status, or to the signal that ended it. */
  stop(): Promise<number | string>;
}

/** Starts a server, and resolves when it is ready for requests. */
export function start(options?: StartOptions): Promise<WeirServer>;
