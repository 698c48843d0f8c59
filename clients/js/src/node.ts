/* node.ts - the same client for Node.js, where a request costs a fraction of the usual one: it goes
 * by a wire of its own instead of by fetch.
 *
 * What a program does to requests of fetch holds for these too. If fetch was replaced, they go by
 * that. If its carrier was, or tracing listens to it, they go by the carrier. */
import { channel } from 'node:diagnostics_channel'
import { byCarrier, isPlainCarrier } from './carrier.js'
import { root } from './duration.js'
import { parsePlain } from './plain.js'
import type { Fetch } from './transport.js'
import { type Anything, Weir as Core, type WeirOptions } from './weir.js'
import { wire, type Wire } from './wire.js'

export * from './index.js'

/** Half of what many callers ask leaves before they all have asked. */
const ENOUGH = 64

/** Its text is of undici, or it was replaced. */
const isOwn = (fetch: unknown) => /undici/i.test(`${fetch}`)
let seen = root.fetch
let isSeenOwn = isOwn(seen)

/** What tracing listens to, and adds its headers by. */
const requests = channel('undici:request:create')

/** The way to a URL. */
interface Route {
  url: URL
  /** The first lines of a request. */
  start: string
  /** None: fetch says what is wrong with the URL. */
  wire?: Wire
}

const routes = new Map<string, Route>()
const wires = new Map<string, Wire>()
const MOST_ROUTES = 100

function wireTo(url: URL): Wire {
  let found = wires.get(url.origin)
  if (!found) {
    if (wires.size >= MOST_ROUTES) wires.clear()
    wires.set(url.origin, (found = wire(url)))
  }
  return found
}

function routeTo(text: string): Route {
  let route = routes.get(text)
  if (!route) {
    const url = new URL(text)
    const isPlain = /^https?:$/.test(url.protocol) && !url.username && !url.password
    const start = `POST ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n`
    route = { url, start, wire: isPlain ? wireTo(url) : undefined }
    if (routes.size >= MOST_ROUTES) routes.clear()
    routes.set(text, route)
  }
  return route
}

/** Of the connection: fetch knows what to do with them. */
const NOT_OURS =
  /^(host|connection|keep-alive|content-length|transfer-encoding|te|trailer|upgrade|expect)$/i

/** The lines of headers that are plain text. Undefined: they are not, or not ours. */
function linesOf(headers: Record<string, string>): string | undefined {
  if (headers?.constructor !== Object) return
  let lines = ''
  for (const name in headers) {
    const value = headers[name]!
    if (!/^[\w-]+$/.test(name) || NOT_OURS.test(name) || !/^[\t -~]*$/.test(value)) return
    lines += `${name}: ${value}\r\n`
  }
  return lines
}

const send: Fetch = (text, init, underway) => {
  if (seen !== root.fetch) isSeenOwn = isOwn((seen = root.fetch))
  if (!isSeenOwn) return seen(text, init)
  const route = routeTo(text)
  const { body, method } = init
  const lines = linesOf(init.headers as Record<string, string>)
  // A signal is made when it is asked for, so one that is there already was given.
  const isUsual =
    route.wire &&
    method === 'POST' &&
    typeof body === 'string' &&
    lines !== undefined &&
    !Object.getOwnPropertyDescriptor(init, 'signal')?.value
  if (!isUsual) return seen(text, { ...init, redirect: 'error' })
  if (requests.hasSubscribers || !isPlainCarrier())
    return byCarrier(route.url, init, underway) ?? seen(text, { ...init, redirect: 'error' })
  return new Promise((resolve, reject) => {
    const giveUp = route.wire!.send(
      `${route.start}${lines}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      (error, answer) =>
        answer
          ? resolve({ status: answer.status, text: async () => answer.body.toString() })
          : reject(error),
    )
    underway.drop = () => {
      giveUp()
      reject(new Error('given up'))
    }
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
