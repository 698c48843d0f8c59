/* convex.ts - for actions and HTTP actions of Convex, which have fetch; queries and mutations have
 * none. */
import { RateLimitError } from '../answer.js'
import type { GuardOptions, Policy } from '../guard.js'
import type { CheckOptions, Identity, Weir } from '../weir.js'
import { limited as limitedFetch } from './fetch.js'

export interface ConvexOptions extends CheckOptions {
  /**
   * `(data) => new ConvexError(data)`: what reaches the client of the action. Default: a
   * RateLimitError.
   */
  error?(data: {
    code: 'denied'
    policy: string | null
    rule: string
    limit: number
    retryAfterMs: number
  }): unknown
}

/**
 * Wraps the handler of an action: `action({ args, handler: limited(weir, 'report', (ctx, args) =>
 * args.user, handler) })`.
 */
export function limited<Ctx, Args, Result>(
  weir: Weir<any>,
  policy: Policy,
  who: (ctx: Ctx, args: Args) => Identity | null | Promise<Identity | null>,
  handler: (ctx: Ctx, args: Args) => Promise<Result>,
  { error, ...asked }: ConvexOptions = {},
): (ctx: Ctx, args: Args) => Promise<Result> {
  return async (ctx, args) => {
    const whom = await who(ctx, args)
    const answer = whom === null ? undefined : await weir.check(policy as any, whom, asked)
    if (answer && !answer.allowed) {
      const { policy: name, rule, limit, retryAfterMs } = answer
      throw error
        ? error({ code: 'denied', policy: name, rule, limit, retryAfterMs })
        : new RateLimitError(answer)
    }
    return handler(ctx, args)
  }
}

/** Wraps the handler of an HTTP action: `httpAction(limitedHttp(weir, 'api', options, handler))`. */
export function limitedHttp<Ctx>(
  weir: Weir<any>,
  policy: Policy,
  options: GuardOptions<Request>,
  handler: (ctx: Ctx, request: Request) => Promise<Response>,
): (ctx: Ctx, request: Request) => Promise<Response> {
  const check = limitedFetch<[Ctx]>(weir, policy, options, (request, ctx) => handler(ctx, request))
  return async (ctx, request) => check(request, ctx)
}
