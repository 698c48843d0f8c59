/* node.ts - the same client for Node.js, where a request costs a fraction of the usual one.
 *
 * The fetch of Node.js spends most of its time on streams and signals that a small request has no
 * use for. It hands requests to a carrier, which other copies of undici find under a symbol, too.
 * This one hands them to it at once: with the same connections, proxies and settings.
 *
 * The first request goes by the usual fetch, which makes the carrier. So do all requests if that
 * fetch was replaced, and in other runtimes. */
import { root } from './duration.js'
import { parsePlain } from './plain.js'
import type { Fetch } from './transport.js'
import { type Anything, Weir as Core, type WeirOptions } from './weir.js'

export * from './index.js'

/** What it takes is as old as its number. */
const CARRIER = Symbol.for('undici.globalDispatcher.1')

/** Half of what many callers ask leaves before they all have asked. */
const ENOUGH = 64

/** Whether it is Node's own. */
const isOwn = (fetch: unknown) => /undici/i.test(`${fetch}`)
let seen = root.fetch
let isSeenOwn = isOwn(seen)

/** Where a carrier takes the requests of an address to. */
const places = new Map<string, { origin: string; path: string }>()
const MOST_PLACES = 100

function placeOf(url: string) {
  let place = places.get(url)
  if (!place) {
    const { origin, pathname, search } = new URL(url)
    place = { origin, path: pathname + search }
    if (places.size >= MOST_PLACES) places.clear()
    places.set(url, place)
  }
  return place
}

const send: Fetch = (url, init, underway) => {
  if (seen !== root.fetch) isSeenOwn = isOwn((seen = root.fetch))
  if (!isSeenOwn) return seen(url, init)
  const carrier = root[CARRIER]
  if (!carrier) return seen(url, { ...init, redirect: 'error' })
  const { origin, path } = placeOf(url)
  const { method, headers, body } = init
  return new Promise((resolve, reject) => {
    const chunks: unknown[] = []
    let status: number
    let stop: (() => void) | undefined
    let isDropped = false
    underway.drop = () => {
      isDropped = true
      reject(new Error('given up'))
      stop?.()
    }
    carrier.dispatch(
      { method, headers, body, origin, path },
      {
        onConnect(abort: () => void) {
          stop = abort
          if (isDropped) abort()
        },
        onHeaders(code: number) {
          status = code
          return true
        },
        onData(chunk: unknown) {
          chunks.push(chunk)
          return true
        },
        onComplete: () =>
          resolve({
            status,
            text: async () => `${chunks[1] ? root.Buffer.concat(chunks) : (chunks[0] ?? '')}`,
          }),
        onError: reject,
      },
    )
  })
}

/** For `new Weir({ fetch })`; in Node.js it is the default. */
export const fetch: Fetch = Object.assign(send, {
  enough: isSeenOwn ? ENOUGH : undefined,
  parse: parsePlain,
})

/** See weir-client. */
export const Weir: typeof Core = class<P> extends Core<P> {
  constructor(options: WeirOptions = {}) {
    super({ fetch, ...options })
  }
}
export type Weir<P = Anything> = Core<P>
