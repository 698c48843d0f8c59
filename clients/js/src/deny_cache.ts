/* deny_cache.ts - denials that cannot have ended yet.
 *
 * RULES
 *   D1  A denial is kept from before its request was sent, by a monotonic clock, for
 *       `retryAfterMs`: weir decided later, so it would deny for longer. It says the same of every
 *       cost that is as high, and nothing of lower ones.
 *   D2  A refund, a reset, an override or a new policy can end a denial early, and a client does
 *       not hear of it. So none is kept for more than `maxMs`. Refunds and resets by this client
 *       end all of them at once.
 *   D3  Not kept: answers of fallbacks and operators' blocks, requests with a plan or a time, and
 *       buckets whose numbers come with the request. A peek always asks. */
import type { Answer } from './answer.js'

export interface DenyCacheOptions {
  /** How long an early end of a denial may go unnoticed. Default: 1000. */
  maxMs?: number
  /** How many denials are kept. Default: 10000. */
  max?: number
}

export function denyCache({ maxMs = 1000, max = 10_000 }: DenyCacheOptions) {
  const denials = new Map<string, [cost: number, sent: number, until: number, answer: Answer]>()
  let cleared = -1

  return {
    find(key: string, cost: number, now: number): Answer | undefined {
      if (!denials.size) return
      const [least, sent, until, answer] = denials.get(key) ?? []
      if (!(cost >= least! && now < until!)) return
      const later = (ms: number) => Math.ceil(Math.max(0, ms - now + sent!))
      return {
        ...answer!,
        retryAfterMs: later(answer!.retryAfterMs),
        resetAfterMs: later(answer!.resetAfterMs),
        source: 'cache',
      }
    },
    keep(key: string, cost: number, sent: number, answer: Answer) {
      if (answer.retryAfterMs > 0 && /store|cache/.test(answer.source) && sent > cleared) {
        denials.set(key, [cost, sent, sent + Math.min(answer.retryAfterMs, maxMs), answer])
        if (denials.size > max) denials.delete(denials.keys().next().value!)
      }
    },
    clear(now: number) {
      cleared = now
      denials.clear()
    },
  }
}
