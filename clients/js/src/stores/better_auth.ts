/* better_auth.ts - the storage of better-auth's limits: `rateLimit: { customStorage: storage({ weir
 * }) }`. */
import { Weir } from '../weir.js'
import type { StoreOptions } from './counter.js'

export function storage({
  weir = new Weir(),
  prefix = 'auth:',
}: Omit<StoreOptions, 'policy'> = {}) {
  return {
    /**
     * Atomic: of requests at the same time, no more than `max` are allowed. Seconds, as better-auth
     * has them.
     */
    async consume(key: string, { window, max }: { window: number; max: number }) {
      const { allowed, retryAfterMs } = await weir.check(
        { limit: max, window: window * 1000 },
        prefix + key,
      )
      return { allowed, retryAfter: allowed ? null : Math.max(1, Math.ceil(retryAfterMs / 1000)) }
    },
  }
}
