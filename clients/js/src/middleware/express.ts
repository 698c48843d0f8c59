/* express.ts - a middleware for Express, and for all that takes (request, response, next). */
import { mistake } from '../answer.js'
import { guard, type GuardOptions, type Policy } from '../guard.js'
import type { Weir } from '../weir.js'

interface Incoming {
  headers: Record<string, string | string[] | undefined>
  ip?: string
  socket?: { remoteAddress?: string }
  app?: { get?(setting: string): unknown }
}
interface Outgoing {
  statusCode: number
  setHeader(name: string, value: string): unknown
  end(body?: string): unknown
}

/** `req.ip` is counted: Express finds it by its setting `trust proxy`, which must not be `true`. */
function address(request: Incoming) {
  if (request.app?.get?.('trust proxy') === true)
    throw mistake(
      "with 'trust proxy' true clients choose their own address: set it to the number of your proxies",
    )
  return request.ip ?? request.socket?.remoteAddress
}

export function limit<R extends Incoming = any>(
  weir: Weir<any>,
  policy: Policy,
  options: GuardOptions<R> = {},
) {
  const check = guard<R>(weir, policy, options, (request) => request.headers, address)
  return (request: R, response: Outgoing, next: (error?: unknown) => void): void => {
    check(request)
      .then(({ answer, denied, headers }) => {
        ;(request as any).rateLimit = answer
        const sent = denied?.headers ?? headers
        for (const name in sent) response.setHeader(name, sent[name]!)
        if (!denied) return next()
        response.statusCode = denied.status
        response.end(denied.body)
      })
      .catch(next)
  }
}
