/* transport.ts - the way to weir: HTTP by fetch. Other ways implement the same interface. */
import { mistake, type Raw, WeirError } from './answer.js'

export type Verb =
  | 'check'
  | 'peek'
  | 'charge'
  | 'refund'
  | 'reset'
  | 'reserve'
  | 'commit'
  | 'release'
  | 'grow'
  | 'extend'

/** A request in the words of weir's JSON. */
export type WireRequest = Record<string, unknown>

/** A request while it is under way. */
export interface Underway {
  /** Set by a transport: called when no call waits for the request any more. */
  drop?(): void
}

export interface Transport {
  /** An answer for each request, which are JSON, in order. Throws if there are none. */
  send(verb: Verb, requests: string[], underway: Underway): Promise<Raw[]>
  /** So many checks wait neither for the rest of their turn of the event loop nor for an answer. */
  enough?: number
  /** A request costs little: one check does not wait for others. */
  eager?: boolean
  close?(): void
}

/** What is needed of a fetch. That of weir-client/node has more. */
export interface Fetch {
  (url: string, init: RequestInit, underway: Underway): Promise<Pick<Response, 'status' | 'text'>>
  /** See Transport. */
  enough?: number
  /** Reads what weir answers, in less time. */
  parse?(text: string): any
}

export interface HttpOptions {
  /** `http://127.0.0.1:7878` */
  url: string
  token?: string
  /** Instead of the global one. */
  fetch?: Fetch
  /** More headers for each request, such as `traceparent`. */
  headers?: Record<string, string>
}

/** One alone needs no list. */
export const many = (requests: string[]) =>
  requests[1] ? `{"checks":[${requests}]}` : requests[0]!

/** What weir answers, with names as in JavaScript. Only names of members are followed by a colon. */
export const parse = (text: string): any =>
  JSON.parse(text.replace(/_after_ms":/g, 'AfterMs":').replace(/y_ms":/g, 'yMs":'))

export function http({ url, token, fetch: ask, headers }: HttpOptions): Transport {
  if (!url) throw mistake('no WEIR_URL')
  const base = url.replace(/\/+$/, '') + '/v1/'
  const sent = {
    'content-type': 'application/json',
    ...(token && { authorization: 'Bearer ' + token }),
    ...headers,
  }
  return {
    enough: ask?.enough,
    async send(verb, requests, underway) {
      let controller: AbortController | undefined
      underway.drop = () => controller?.abort()
      let status = 0
      try {
        const response = await (ask ?? fetch)(
          base + verb,
          {
            method: 'POST',
            headers: sent,
            body: many(requests),
            // Made when it is asked for, which takes a while.
            get signal() {
              return (controller ??= new AbortController()).signal
            },
          },
          underway,
        )
        status = response.status
        const body = (ask?.parse ?? parse)(await response.text())
        if (status !== 200) throw new WeirError(body.detail, body.code, status)
        return requests[1] ? body.answers : [body]
      } catch (error: any) {
        if (error.status && error.code) throw error
        const why = [base, error, error.code, error.cause?.code].join(' ')
        throw new WeirError(
          why,
          status ? 'bad_answer' : 'unreachable',
          status,
          !status && /refused/i.test(why),
        )
      }
    },
  }
}
