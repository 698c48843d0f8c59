/* http.ts - for servers: the address of a client, the headers of an answer, the response to a
 * denied request. */
import { type Answer, mistake } from './answer.js'

/** The headers of a request: those of fetch, or the object of Node.js. */
export type HeadersLike =
  { get(name: string): string | null } | Record<string, string | string[] | undefined>

/**
 * Where the address of a client is.
 *
 * - `{ hops: 1 }`: so many proxies of yours, or of your platform, are in front, and each appends to
 *   `X-Forwarded-For` the address that it sees. All to the left of them is what the client wrote,
 *   and is ignored.
 * - `{ header: 'cf-connecting-ip' }`: a header that the platform replaces, and that has one
 *   address.
 */
export type AddressSource = { hops: number; header?: string } | { header: string; hops?: undefined }

function header(headers: HeadersLike, name: string): string | undefined {
  const value =
    typeof headers.get === 'function' ? headers.get(name) : (headers as Record<string, any>)[name]
  return (Array.isArray(value) ? value.join() : value) ?? undefined
}

const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f]*:[\da-f:.]*)$/i

/** Without port, brackets and zone; undefined if it is no address. */
export function parseAddress(text: string): string | undefined {
  const [, inBrackets, plain] =
    /^(?:\[([^\]]*)\]|([^\]]*?))(?::\d+)?$/.exec(
      /^[\da-f]*:[\da-f]*:/i.test(text) ? `[${text}]` : text,
    ) ?? []
  const address = (inBrackets ?? plain ?? '').split('%')[0]!
  return ADDRESS.test(address) ? address : undefined
}

/**
 * The address of the client of a request; undefined if the header is missing, too short, or has
 * something else there.
 */
export function clientAddress(
  headers: HeadersLike,
  { hops, header: name = 'x-forwarded-for' }: AddressSource,
): string | undefined {
  const entries = header(headers, name.toLowerCase())?.split(',')
  if (hops === undefined)
    return entries?.length === 1 ? parseAddress(entries[0]!.trim()) : undefined
  if (!(hops >= 1))
    throw mistake('hops is at least 1: without a proxy, use the address of the connection')
  const entry = entries?.[entries.length - hops]
  return entry && parseAddress(entry.trim())
}

const seconds = (ms: number) => Math.max(0, Math.ceil(ms / 1000))
const text = (name: string) => `"${name.replace(/[^\x20-\x7e]/g, '?').replace(/["\\]/g, '\\$&')}"`

/** The names of the limits that deny, as the headers have them. */
function names(answer: Answer): string[] {
  const denying = answer.rules?.filter((rule) => !rule.allowed && !rule.shadow) ?? []
  return denying.length ? denying.map((rule) => nameOf(answer, rule)) : [nameOf(answer, answer)]
}

function nameOf(
  { rules = [], policy: own }: Answer,
  { policy = own, rule }: { policy?: string | null; rule: string },
): string {
  const several = rules.filter((r) => (r.policy ?? own) === policy).length > 1
  return several ? `${policy}.${rule}` : (policy ?? 'default')
}

/**
 * Which headers an answer has: those of the draft `RateLimit`, the older `X-RateLimit-*`, both (the
 * default), or none.
 */
export type HeaderStyle = 'draft' | 'legacy' | 'both' | 'none'

/**
 * The headers that weir itself sends with such an answer. An answer that was not counted has none
 * but `Retry-After`.
 */
export function rateLimitHeaders(
  answer: Answer,
  style: HeaderStyle = 'both',
  now = Date.now(),
): Record<string, string> {
  const { allowed, limit, remaining, retryAfterMs, resetAfterMs, rules = [answer] } = answer
  const headers: Record<string, string> = {}
  const enforced = (rules as Answer[]).filter((rule) => !rule.shadow || rule === answer)
  if (/store|cache|lease/.test(answer.source) && enforced.length) {
    if (/draft|both/.test(style)) {
      const wait = allowed || retryAfterMs < 0 ? resetAfterMs : retryAfterMs
      headers['RateLimit-Policy'] = enforced
        .map((rule) => `${text(nameOf(answer, rule))};q=${rule.limit}`)
        .join(', ')
      headers['RateLimit'] = `${text(nameOf(answer, answer))};r=${remaining};t=${seconds(wait)}`
    }
    if (/legacy|both/.test(style)) {
      headers['X-RateLimit-Limit'] = `${limit}`
      headers['X-RateLimit-Remaining'] = `${remaining}`
      headers['X-RateLimit-Reset'] = `${seconds(now + resetAfterMs)}`
    }
  }
  if (!allowed && retryAfterMs >= 0) headers['Retry-After'] = `${seconds(retryAfterMs)}`
  return headers
}

export interface Denial {
  status: number
  headers: Record<string, string>
  body: string
}

/** The response to a denied request: a problem document (RFC 9457), as weir's gate sends it. */
export function denial(
  answer: Answer,
  { status = 429, style }: { status?: number; style?: HeaderStyle } = {},
): Denial {
  return {
    status,
    headers: {
      ...rateLimitHeaders(answer, style),
      'Content-Type': 'application/problem+json',
      'Cache-Control': 'no-store',
    },
    body: JSON.stringify({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status,
      detail:
        answer.retryAfterMs < 0 ? 'waiting does not help' : 'come back when Retry-After has passed',
      code: 'denied',
      retry_after_ms: answer.retryAfterMs,
      'violated-policies': names(answer),
    }),
  }
}

/** The same as a Response of fetch. */
export function tooManyRequests(
  answer: Answer,
  options?: { status?: number; style?: HeaderStyle },
): Response {
  const { body, ...init } = denial(answer, options)
  return new Response(body, init)
}

/** The value of a `RateLimit` or `RateLimit-Policy` header of draft 7 to 10, by name. */
export function parseRateLimit(
  value: string,
): { name: string; q?: number; r?: number; t?: number; w?: number }[] {
  return [...value.matchAll(/"((?:[^"\\]|\\.)*)"((?:\s*;\s*\w+=[^;,]*)*)/g)].map(
    ([, name, parameters]) => ({
      name: name!.replace(/\\(.)/g, '$1'),
      ...Object.fromEntries(
        [...parameters!.matchAll(/;\s*([qrtw])=(\d+)/g)].map(([, key, number]) => [
          key,
          Number(number),
        ]),
      ),
    }),
  )
}
