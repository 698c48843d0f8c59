/* testing.ts - for tests: a real weir server on a free port, with a clock that tests may set. */
import { WeirError } from './answer.js'
import type { Fetch } from './transport.js'
import { Weir, type WeirOptions } from './weir.js'

export interface StartOptions {
  /** The policy file. */
  config?: string
  /** Where counters live. Default: memory: */
  store?: string
  /** More options of `weir serve`. */
  args?: string[]
  /** For the client that comes with it. */
  client?: WeirOptions
}

export interface TestWeir {
  url: string
  /** A client whose checks are at the time of `clock`, if that is set. */
  weir: Weir<any>
  /** The time of the checks: set it, or add to it. 0: the time of the server. */
  clock: { now: number; tick(ms: number): void }
  stop(): Promise<unknown>
  [Symbol.asyncDispose](): Promise<unknown>
}

interface Server {
  url: string
  stop(): Promise<unknown>
}

/**
 * Starts the server of the package `weir-server`, which must be installed; or `start`, such as one
 * that runs another program.
 *
 *     await using own = await startWeir({ config: 'policies.yaml' })
 *     own.clock.now = Date.parse('2026-01-01')
 *     await own.weir.check('login', '203.0.113.7')
 *     own.clock.tick(15 * 60_000)
 */
export async function startWeir(
  { client, args = [], ...options }: StartOptions = {},
  start?: (options: { args: string[]; config?: string; store?: string }) => Promise<Server>,
): Promise<TestWeir> {
  if (!start) {
    const name = 'weir-server'
    const found = await import(name).catch((error) => {
      throw new WeirError(
        `install weir-server as a dev dependency: ${error.message}`,
        'unreachable',
      )
    })
    start = (found.start ?? found.default.start) as NonNullable<typeof start>
  }
  const server = await start({ ...options, args: ['--trust-client-clock', ...args] })
  const clock = {
    now: 0,
    tick(ms: number) {
      clock.now += ms
    },
  }
  // The time goes into each request on its way out; none is answered from what was denied at
  // another time.
  const own: Fetch = (url, init, underway) => {
    const body = JSON.parse(init.body as string)
    if (clock.now && !/reset|commit|release|extend/.test(url))
      for (const request of body.checks ?? [body]) request.now ??= clock.now
    return (client?.fetch ?? fetch)(url, { ...init, body: JSON.stringify(body) }, underway)
  }
  const weir = new Weir({
    timeout: 10_000,
    denyCache: false,
    ...client,
    url: server.url,
    fetch: own,
  })
  const stop = async () => {
    weir.close()
    return server.stop()
  }
  return {
    url: server.url,
    weir,
    clock,
    stop,
    [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]: stop,
  } as TestWeir
}
