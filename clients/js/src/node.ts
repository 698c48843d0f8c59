/* node.ts - a fetch for Node.js that costs a fraction of the usual one.
 *
 * The fetch of Node.js spends most of its time on streams and signals that a small request has no
 * use for. It hands requests to a carrier, which other copies of undici find under a symbol, too.
 * This one hands them to it at once: with the same connections, proxies and settings.
 *
 * The first request goes by the usual fetch, which makes the carrier. So do all requests if that
 * fetch was replaced, and in other runtimes. */
import { root } from './duration.js'
import type { Fetch } from './transport.js'

const CARRIER = Symbol.for('undici.globalDispatcher.1')

function carried(carrier: any, url: string, { signal, ...init }: RequestInit): ReturnType<Fetch> {
  const { origin, pathname, search } = new URL(url)
  return new Promise((resolve, reject) => {
    const chunks: unknown[] = []
    let status: number
    let stop: (() => void) | undefined
    const drop = () => {
      reject(signal!.reason)
      stop?.()
    }
    signal?.addEventListener('abort', drop)
    carrier.dispatch(
      { ...init, origin, path: pathname + search },
      {
        onConnect(abort: () => void) {
          stop = abort
          if (signal?.aborted) abort()
        },
        onHeaders(code: number) {
          status = code
          return true
        },
        onData(chunk: unknown) {
          chunks.push(chunk)
          return true
        },
        onComplete() {
          signal?.removeEventListener('abort', drop)
          resolve({ status, text: async () => `${root.Buffer.concat(chunks)}` })
        },
        onError: reject,
      },
    )
  })
}

const send: Fetch = (url, init) => {
  const carrier = /undici/i.test(`${root.fetch}`) && root[CARRIER]
  return carrier ? carried(carrier, url, init) : root.fetch(url, init)
}

/** For `new Weir({ fetch })`. Half of what many callers ask leaves before they all have asked. */
export const fetch: Fetch = Object.assign(send, { enough: 64 })
