/* hono.ts - a middleware for Hono: `app.use(limit(weir, 'api', { address: { header:
 * 'cf-connecting-ip' } }))`. */
import { guard, type GuardOptions, type Policy } from '../guard.js'
import type { Weir } from '../weir.js'

interface ContextLike {
  req: { raw: Request }
  header(name: string, value: string): void
}

/** `who` and `address` get the context. */
export function limit<C extends ContextLike = any>(
  weir: Weir<any>,
  policy: Policy,
  options: GuardOptions<C>,
) {
  const check = guard<C>(weir, policy, options, (context) => context.req.raw.headers)
  return async (context: C, next: () => Promise<void>): Promise<Response | void> => {
    const { denied, headers } = await check(context)
    if (denied) return new Response(denied.body, denied)
    await next()
    for (const name in headers) context.header(name, headers[name]!)
  }
}
