/* carrier.ts - requests handed to what carries those of fetch in Node.js: with its connections,
 * proxies, certificates and mocks, without the streams and signals that fetch itself makes for each.
 *
 * undici puts its carrier under a symbol, where other copies of it find it, too. */
import { root } from './duration.js'
import type { Fetch } from './transport.js'

/** What it takes is as old as its number. */
const FIRST = Symbol.for('undici.globalDispatcher.1')
const NAMES = [FIRST, Symbol.for('undici.globalDispatcher.2')]

/** Whether one does no more than a wire: the usual one, without settings of its own. */
function isPlain(carrier: any): boolean {
  const { constructor, dispatch } = carrier
  const options = Object.getOwnPropertySymbols(carrier).find((s) => s.description === 'options')
  return (
    constructor.name === 'Agent' &&
    dispatch === constructor.prototype.dispatch &&
    !!options &&
    !carrier[options].connect
  )
}

const seen: unknown[] = []
let arePlain = true

/** Whether what carries requests of fetch does no more than a wire. There is none before the first. */
export function isPlainCarrier(): boolean {
  for (let i = 0; i < NAMES.length; i++)
    if (seen[i] !== root[NAMES[i]!]) {
      seen[i] = root[NAMES[i]!]
      arePlain = NAMES.every((name) => !root[name] || isPlain(root[name]))
    }
  return arePlain
}

/** Undefined: there is none that it knows how to ask. */
export const byCarrier = (
  { origin, pathname, search }: URL,
  { method, headers, body }: RequestInit,
  underway: Parameters<Fetch>[2],
): ReturnType<Fetch> | undefined => {
  const carrier = root[FIRST]
  return (
    carrier &&
    new Promise((resolve, reject) => {
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
        { method, headers, body, origin, path: pathname + search },
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
  )
}
