/* koa.ts - a middleware for Koa: `app.use(limit(weir, 'api'))`. */
import { guard, type GuardOptions, type Policy } from '../guard.js'
import type { Weir } from '../weir.js'

interface ContextLike {
  headers: Record<string, string | string[] | undefined>
  req: { socket: { remoteAddress?: string } }
  set(values: Record<string, string>): void
  status: number
  body: unknown
}

/**
 * Without `who` and `address`, the address of the connection is counted: `ctx.ip` trusts what
 * clients write.
 */
export function limit<C extends ContextLike = any>(
  weir: Weir<any>,
  policy: Policy,
  options: GuardOptions<C> = {},
) {
  const check = guard<C>(
    weir,
    policy,
    options,
    (context) => context.headers,
    (context) => context.req.socket.remoteAddress,
  )
  return async (context: C, next: () => Promise<unknown>): Promise<void> => {
    const { denied, headers } = await check(context)
    if (!denied) {
      context.set(headers)
      await next()
      return
    }
    context.status = denied.status
    context.body = denied.body
    context.set(denied.headers)
  }
}
