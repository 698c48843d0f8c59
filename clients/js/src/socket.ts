/* socket.ts - RESP over one kept socket: the fastest way from a process that lives long. Node.js,
 * Bun and Deno.
 *
 * RULES
 *   S1  Commands are pipelined: all of a batch in one write, answers in order.
 *   S2  A connection that fails ends all that waits for it. What was not written yet never left,
 *       and may be sent again.
 *   S3  The token is sent first on each connection. */
import type { ConnectionOptions as TlsOptions } from 'node:tls'
import { dial, hostOf } from './dial.js'
import { connection, type ConnectionOptions, type Wire } from './resp.js'
import type { Transport } from './transport.js'

export interface SocketOptions extends ConnectionOptions {
  /** `weir://127.0.0.1:7878`; `weirs://` is by TLS; `unix:/run/weir/weir.sock`. */
  url: string
  /** More for `tls.connect`: ca, cert, key, servername. */
  tls?: TlsOptions
}

/** For `new Weir({ transport: socket({ url, token }) })`. */
export function socket({ url, tls: more, ...options }: SocketOptions): Transport {
  const unix = /^unix:(.*)$/.exec(url)?.[1]
  const { protocol, hostname, port } = unix
    ? { protocol: '', hostname: '', port: '' }
    : new URL(url)
  const place = unix ? { path: unix } : { host: hostOf(hostname), port: Number(port || 7878) }
  const secure = /^(weirs|rediss|https):$/.test(protocol)

  return connection((heard, ended): Wire => {
    let open!: () => void
    const opened = new Promise<void>((resolve) => (open = resolve))
    const kept = dial(place, secure, open, more)
    kept.setEncoding('utf8')
    kept.on('data', heard as any)
    kept.on('error', ended)
    kept.on('close', () => ended(new Error('the connection was closed')))
    return {
      write: (text) => void kept.write(text),
      close: () => void kept.destroy(),
      // Only a connection that is waited for keeps the process alive.
      wait: (waiting) => void (waiting ? kept.ref() : kept.unref()),
      opened,
    }
  }, options)
}
