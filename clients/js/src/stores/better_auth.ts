/* better_auth.ts - the storage of better-auth's limits: `rateLimit: { customStorage: storage({ weir
 * }) }`. */
import { Weir } from '../node.js'
import { Counter, type StoreOptions } from './counter.js'

export function storage({ weir = new Weir(), policy, prefix = 'auth:' }: StoreOptions = {}) {
  const counter = new Counter(weir, policy)
  return {
    /**
     * Atomic: of requests at the same time, no more than `max` are allowed. Seconds, as better-auth
     * has them.
     */
    async consume(key: string, { window, max }: { window: number; max: number }) {
      const { used, left } = await counter.add(prefix + key, { window: window * 1000, limit: max })
      const allowed = used <= max
      return { allowed, retryAfter: allowed ? null : Math.max(1, Math.ceil(left / 1000)) }
    },
  }
}
