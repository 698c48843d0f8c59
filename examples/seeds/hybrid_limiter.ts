// hybrid_limiter.ts - at most so many contributions of a hashed address to a metric each day, with
// the source of each answer and statistics: checkContributionLimit(hashedIP, metric). While weir is
// away, contributions pass.
import { type Answer, Weir } from 'weir-client'

export const MAX_DAILY_CONTRIBUTIONS = 100
const stats = { checks: 0, denied: 0, fromCache: 0, fallbacks: 0 }
let weir: Weir | undefined

function count({ allowed, source }: Answer) {
  stats.checks++
  if (!allowed) stats.denied++
  if (source === 'cache') stats.fromCache++
  if (source === 'fallback') stats.fallbacks++
}

export interface ContributionResult {
  allowed: boolean
  remaining: number
  source: 'db' | 'cache' | 'fallback'
}

export async function checkContributionLimit(
  hashedIP: string,
  metric: string,
  limit = MAX_DAILY_CONTRIBUTIONS,
): Promise<ContributionResult> {
  weir ??= new Weir({ onError: 'allow', on: { answer: count } })
  const answer = await weir.check(
    { name: 'contributions', limit, window: '1d', algorithm: 'fixed_window' },
    `${hashedIP}:${metric}`,
  )
  const source = answer.source === 'cache' || answer.source === 'fallback' ? answer.source : 'db'
  return { allowed: answer.allowed, remaining: answer.remaining, source }
}

export const getRateLimitStats = () => ({ ...stats, implementation: 'weir' })
