/* fetch.ts - for handlers of fetch: Deno.serve, Supabase, Cloudflare Workers, Bun.serve, route
 * handlers of Next.js. */
import { guard, type GuardOptions, type Policy } from '../guard.js'
import type { Weir } from '../weir.js'

export type Handler<Rest extends unknown[]> = (
  request: Request,
  ...rest: Rest
) => Response | Promise<Response>

/**
 * `Deno.serve(limited(weir, 'api', { address: { hops: 1 } }, handler))`. Without `who` and
 * `address`, the client is that of the connection, where the runtime tells it: Deno.serve and
 * Bun.serve do, with no proxy in front.
 */
export function limited<Rest extends any[]>(
  weir: Weir<any>,
  policy: Policy,
  options: GuardOptions<Request>,
  handler: Handler<Rest>,
): Handler<Rest> {
  const connections = new WeakMap<Request, any>()
  const check = guard(
    weir,
    policy,
    options,
    (request) => request.headers,
    (request) => {
      const info = connections.get(request)
      return info?.remoteAddr?.hostname ?? info?.requestIP?.(request)?.address
    },
  )
  return async (request, ...rest) => {
    if (rest[0] && typeof rest[0] === 'object') connections.set(request, rest[0])
    const { denied, headers } = await check(request)
    if (denied) return new Response(denied.body, denied)
    const response = await handler(request, ...rest)
    if (!Object.keys(headers).length) return response
    // The headers of a response that came from elsewhere cannot be changed.
    const copy = new Response(response.body, response)
    for (const name in headers) copy.headers.set(name, headers[name]!)
    return copy
  }
}
