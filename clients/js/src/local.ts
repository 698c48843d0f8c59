/* local.ts - a limiter in this process, for the time in which weir is not reached.
 *
 * Each instance has its own, so at most instances x limit pass. It knows a token bucket, and a
 * fixed window that begins with its first request, for all other algorithms. It keeps the 10000
 * identities that were counted last. */
import type { Answer } from './answer.js'
import { clock, type Duration, ms } from './duration.js'
import type { Verb, WireRequest } from './transport.js'

const MOST_KEYS = 10_000

export interface LocalNumbers {
  limit: number
  window: Duration
  algorithm?: string
  burst?: number
}

/** What it decides; undefined: it has no numbers for this policy. */
export type LocalLimiter = (
  verb: Verb,
  request: WireRequest,
  key: string,
  cost: number,
) => Partial<Answer> | undefined

/**
 * `numbers` by the name of the policy; `*` is for all others. Limits that come with requests have
 * theirs.
 */
export function localLimiter(numbers: Record<string, LocalNumbers> = {}): LocalLimiter {
  /** What is used, and the end of the window, or when the bucket is full again. */
  const states = new Map<string, [used: number, end: number]>()

  return (verb, request, key, cost) => {
    const given = request.window_ms
      ? { ...request, window: request.window_ms }
      : (numbers[request.policy as string] ?? numbers['*'])
    if (!given || /commit|release|grow|extend/.test(verb)) return
    const { limit, algorithm = '', burst = limit } = given as LocalNumbers
    const window = ms((given as LocalNumbers).window)
    const now = clock()
    const bucket = /bucket/.test(algorithm)
    const most = bucket ? burst : limit
    if (verb === 'peek') cost = 0
    if (verb === 'refund') cost = -cost
    if (verb === 'reset') cost = -Infinity
    let [used, end] = states.get(key) ?? [0, 0]
    if (end <= now) [used, end] = [0, now + window]
    else if (bucket) used = ((end - now) * limit) / window
    const allowed = verb === 'charge' || cost <= 0 || used + cost <= most + 1e-9
    if (allowed && cost) {
      used = Math.max(0, used + cost)
      if (bucket) end = now + (used * window) / limit
      states.delete(key)
      states.set(key, [used, end])
      for (const [oldest] of states)
        if (states.size > MOST_KEYS) states.delete(oldest)
        else break
    }
    const wait = cost > most ? -1 : bucket ? ((used + cost - most) * window) / limit : end - now
    return {
      allowed,
      limit,
      remaining: Math.max(0, Math.floor(most - used + 1e-9)),
      retryAfterMs: allowed ? 0 : Math.ceil(wait),
      resetAfterMs: used ? Math.ceil(end - now) : 0,
      ...(verb === 'charge' && {
        used: Math.ceil(used),
        over: Math.max(0, Math.ceil(used - most)),
      }),
    }
  }
}
