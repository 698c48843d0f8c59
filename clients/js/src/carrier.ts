/* carrier.ts - requests handed to what carries those of fetch in Node.js: with its connections,
 * proxies, certificates and mocks, without the streams and signals that fetch itself makes for each.
 *
 * undici puts its carrier under a symbol, where other copies of it find it, too. */
import { root } from './duration.js'
import type { Fetch } from './transport.js'

/** What each of them takes is as old as its number. From the second on, the first hands to it. */
const FIRST = Symbol.for('undici.globalDispatcher.1')
const SECOND = Symbol.for('undici.globalDispatcher.2')

const symbolOf = (carrier: any, name: string) =>
  carrier[Object.getOwnPropertySymbols(carrier).find((symbol) => symbol.description === name)!]

/** The one that undici makes, without settings. What makes its connections is among them. */
function isPlain(carrier: any): boolean {
  const { constructor, dispatch } = carrier
  const settings = symbolOf(carrier, 'options')
  return (
    constructor.name === 'Agent' &&
    dispatch === constructor.prototype.dispatch &&
    symbolOf(carrier, 'factory')?.name === 'defaultFactory' &&
    !!settings &&
    Object.keys(settings).every((name) => name === 'maxOrigins' || settings[name] === undefined)
  )
}

function arePlain(first: any, second: any): boolean {
  const isHandedOn = !!second && first?.constructor.name === 'Dispatcher1Wrapper'
  return (!first || isHandedOn || isPlain(first)) && (!second || isPlain(second))
}

let first: unknown
let second: unknown
let isSeenPlain = true

/** Whether requests of fetch get no more than those of a wire. None has a carrier before the first. */
export function isPlainCarrier(): boolean {
  if (first !== root[FIRST] || second !== root[SECOND])
    isSeenPlain = arePlain((first = root[FIRST]), (second = root[SECOND]))
  return isSeenPlain
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
        // One for a proxy adds to the headers that it is given.
        { method, headers: { ...(headers as object) }, body, origin, path: pathname + search },
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
