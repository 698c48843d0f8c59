// assert_rate_limit.ts - a guard for actions of Convex: assertRateLimit(ctx, userId, { scope,
// limit, windowMs, exempt }). It throws if the limit is reached, leaves a breadcrumb without the
// user, and lets cron jobs and backfills pass uncounted.
import { Weir } from 'weir-client'

export interface RateLimitConfig {
  scope: string
  windowMs: number
  limit: number
  exempt?: boolean
}
export interface RateLimitResult {
  remaining: number
  resetAt: number
}
export type Breadcrumb = { category: string; level: string; data: Record<string, unknown> }

export class RateLimitError extends Error {
  constructor(
    readonly scope: string,
    readonly limit: number,
    readonly count: number,
    readonly retryAfterMs: number,
    readonly resetAt: number,
  ) {
    super(`too many requests for ${scope}: try again in ${Math.ceil(retryAfterMs / 1000)} s`)
  }
}

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

export function getLimits(
  env: Record<string, string | undefined> = process.env,
): Record<string, { limit: number; windowMs: number }> {
  const all = {
    'exercise:create': { limit: Number(env.RATE_LIMIT_EXERCISE_PER_MIN ?? 10), windowMs: MINUTE },
    'aiReport:onDemand': { limit: Number(env.RATE_LIMIT_REPORTS_PER_DAY ?? 5), windowMs: DAY },
  }
  const enabled = env.RATE_LIMIT_ENABLED_SCOPES?.split(',').map((scope) => scope.trim())
  return Object.fromEntries(
    Object.entries(all).filter(([scope]) => !enabled || enabled.includes(scope)),
  )
}

let weir: Weir | undefined

export async function assertRateLimit(
  ctx: { addBreadcrumb?(breadcrumb: Breadcrumb): void },
  userId: string,
  { scope, limit, windowMs, exempt }: RateLimitConfig,
): Promise<RateLimitResult> {
  if (exempt) return { remaining: Infinity, resetAt: Date.now() }
  weir ??= new Weir({ onError: 'allow' })
  const answer = await weir.check(
    { name: scope, limit, window: windowMs, algorithm: 'fixed_window' },
    userId,
    { tag: true },
  )
  const resetAt = Date.now() + answer.resetAfterMs
  if (answer.allowed) return { remaining: answer.remaining, resetAt }
  // The tag is weir's keyed hash of the identity.
  const data = { rate_limit: true, scope, userHash: answer.tag, remaining: 0, resetAt }
  ctx.addBreadcrumb?.({ category: 'rate_limit', level: 'warning', data })
  throw new RateLimitError(scope, limit, limit, answer.retryAfterMs, resetAt)
}
