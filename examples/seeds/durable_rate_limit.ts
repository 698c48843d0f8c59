// durable_rate_limit.ts - one function for edge functions, in the place of a bucket in each
// instance: durableRateLimit(key, { max, windowMs, now }).
import { Weir } from 'weir-client'

export interface RLOpts {
  max: number
  windowMs: number
  now?: number
}
export interface RLResult {
  allowed: boolean
  remaining: number
  resetMs: number
}

let weir: Weir | undefined

export async function durableRateLimit(
  key: string,
  { max, windowMs, now }: RLOpts,
): Promise<RLResult> {
  // Five failures in a row, and it denies.
  weir ??= new Weir({ onError: { before: 'allow', after: 5, then: 'deny' } })
  const answer = await weir.check({ name: 'edge', limit: max, window: windowMs }, key, { now })
  return {
    allowed: answer.allowed,
    remaining: answer.remaining,
    resetMs: (now ?? Date.now()) + answer.resetAfterMs,
  }
}
