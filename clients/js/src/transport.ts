/* transport.ts - the way to weir: HTTP by fetch. Other ways implement the same interface. */
import { type Raw, WeirError } from './answer.js'

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

export interface Transport {
  /** One request as text. The texts of a batch are handed to `send` together. */
  encode(verb: Verb, request: WireRequest): string
  /**
   * An answer for each, in order. Throws if there are none; gives up when the signal is aborted.
   */
  send(verb: Verb, texts: string[], signal: AbortSignal): Promise<Raw[]>
  close?(): void
}

export interface HttpOptions {
  /** `http://127.0.0.1:7878` */
  url: string
  token?: string
  /** Instead of the global one. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** More headers for each request, such as `traceparent`. */
  headers?: Record<string, string>
}

export function http({ url, token, fetch: ask, headers }: HttpOptions): Transport {
  const base = url.replace(/\/+$/, '') + '/v1/'
  const sent = {
    'content-type': 'application/json',
    ...(token && { authorization: 'Bearer ' + token }),
    ...headers,
  }
  return {
    encode: (_, request) => JSON.stringify(request),
    async send(verb, texts, signal) {
      const alone = texts.length < 2
      let status = 0
      try {
        const response = await (ask ?? fetch)(base + verb, {
          method: 'POST',
          headers: sent,
          body: alone ? texts[0]! : `{"checks":[${texts}]}`,
          signal,
        })
        status = response.status
        // Only names of members are followed by a colon.
        const text = (await response.text()).replace(/_after_ms":/g, 'AfterMs":')
        const body = JSON.parse(text.replace(/delay_ms":/g, 'delayMs":'))
        if (status !== 200) throw new WeirError(body.detail, body.code, status)
        return alone ? [body] : body.answers
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
