/* guard.ts - what the middlewares have in common: who is counted, the check, and what is sent. */
import { type Answer, mistake } from './answer.js'
import {
  type AddressSource,
  clientAddress,
  denial,
  type Denial,
  type HeadersLike,
  type HeaderStyle,
  rateLimitHeaders,
} from './http.js'
import type { CheckOptions, Identity, Limit, Weir } from './weir.js'

export interface GuardOptions<Request> {
  /**
   * Who is counted: attributes, or one value. null: this request is not counted. Default: `{ ip }`.
   */
  who?: (request: Request) => Identity | null | undefined | Promise<Identity | null | undefined>
  /** Where proxies write the address of the client. */
  address?: AddressSource | ((request: Request) => string | undefined)
  cost?: number | ((request: Request) => number)
  plan?: (request: Request) => string | undefined | Promise<string | undefined>
  /** Instead of 429. */
  status?: number
  /** Which headers are sent. Default: both. */
  headers?: HeaderStyle
  timeout?: number
}

/**
 * A decision: the headers for the response, and what to send instead of it if the request is
 * denied.
 */
export interface Verdict {
  answer?: Answer
  headers: Record<string, string>
  denied?: Denial
}

export type Policy = string | string[] | Limit

/** `address` finds the address of the connection, if the options have no other source. */
export function guard<Request>(
  weir: Weir<any>,
  policy: Policy,
  options: GuardOptions<Request>,
  headersOf: (request: Request) => HeadersLike,
  address?: (request: Request) => string | undefined,
) {
  const { who, address: source, cost, plan, status, headers: style, timeout } = options
  if (!who && !source && !address)
    throw mistake(
      'say who is counted: `who`, or `address` with the hops or the header of your proxies',
    )

  async function identity(request: Request): Promise<Identity | null | undefined> {
    if (who) return who(request)
    const ip =
      typeof source === 'function'
        ? source(request)
        : source
          ? clientAddress(headersOf(request), source)
          : address!(request)
    if (!ip) throw mistake('the request has no client address where `address` says')
    return { ip }
  }

  return async (request: Request): Promise<Verdict> => {
    const whom = await identity(request)
    if (whom === null || whom === undefined) return { headers: {} }
    const asked: CheckOptions = {
      cost: typeof cost === 'function' ? cost(request) : cost,
      plan: await plan?.(request),
      timeout,
    }
    for (const name in asked)
      if (asked[name as keyof CheckOptions] === undefined) delete asked[name as keyof CheckOptions]
    const answer = await weir.check(policy as any, whom, asked)
    return answer.allowed
      ? { answer, headers: rateLimitHeaders(answer, style) }
      : { answer, headers: {}, denied: denial(answer, { status, style }) }
  }
}
