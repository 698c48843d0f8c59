/* fastify.ts - a hook for Fastify: `fastify.addHook('onRequest', limit(weir, 'api'))`, or
 * `onRequest` of a route. */
import { guard, type GuardOptions, type Policy } from '../guard.js'
import type { Weir } from '../weir.js'

interface FastifyRequestLike {
  headers: Record<string, string | string[] | undefined>
  ip: string
}
interface FastifyReplyLike {
  code(status: number): FastifyReplyLike
  headers(values: Record<string, string>): FastifyReplyLike
  send(body: string): unknown
}

/**
 * `request.ip` is counted: set `trustProxy` of Fastify to the number of your proxies, never to
 * true.
 */
export function limit<R extends FastifyRequestLike = any>(
  weir: Weir<any>,
  policy: Policy,
  options: GuardOptions<R> = {},
) {
  const check = guard<R>(
    weir,
    policy,
    options,
    (request) => request.headers,
    (request) => request.ip,
  )
  return async (request: R, reply: FastifyReplyLike): Promise<unknown> => {
    const { denied, headers } = await check(request)
    if (!denied) return void reply.headers(headers)
    return reply.code(denied.status).headers(denied.headers).send(denied.body)
  }
}
