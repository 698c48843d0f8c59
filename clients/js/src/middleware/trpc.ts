/* trpc.ts - a middleware for procedures of tRPC.
 *
 *   t.procedure.use(limit(weir, 'api', { who: ({ ctx }) => ctx.user, error: (denied) => new
 *   TRPCError({ code: 'TOO_MANY_REQUESTS', cause: denied }) })) */
import { RateLimitError } from '../answer.js'
import type { Policy } from '../guard.js'
import type { CheckOptions, Identity, Weir } from '../weir.js'

export interface TrpcOptions<Call> extends CheckOptions {
  who(call: Call): Identity | null | Promise<Identity | null>
  /**
   * What is thrown: make it a TRPCError with the code TOO_MANY_REQUESTS. Default: the
   * RateLimitError.
   */
  error?(denied: RateLimitError): unknown
}

export function limit<Call extends { next(): any } = any>(
  weir: Weir<any>,
  policy: Policy,
  { who, error, ...asked }: TrpcOptions<Call>,
) {
  return async (call: Call) => {
    const whom = await who(call)
    const answer = whom === null ? undefined : await weir.check(policy as any, whom, asked)
    if (answer && !answer.allowed) {
      const denied = new RateLimitError(answer)
      throw error ? error(denied) : denied
    }
    return call.next()
  }
}
