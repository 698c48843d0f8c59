/* next.ts - for Next.js: proxy.ts or middleware.ts, and route handlers. */
import { guard, type GuardOptions, type Policy } from '../guard.js'
import type { Weir } from '../weir.js'

export { limited as route } from './fetch.js'

/**
 * For proxy.ts or middleware.ts: `const check = limit(weir, 'api', { address: { hops: 1 } })`, and
 * in the function `return (await check(request)) ?? NextResponse.next()`.
 */
export function limit(weir: Weir<any>, policy: Policy, options: GuardOptions<Request>) {
  const check = guard(weir, policy, options, (request) => request.headers)
  return async (request: Request): Promise<Response | undefined> => {
    const { denied } = await check(request)
    return denied && new Response(denied.body, denied)
  }
}
