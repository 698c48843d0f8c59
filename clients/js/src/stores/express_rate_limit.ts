/* express_rate_limit.ts - a store for express-rate-limit, and for hono-rate-limiter, whose stores
 * are the same. */
import { Weir } from '../node.js'
import { Counter, type StoreOptions } from './counter.js'

export class WeirStore {
  readonly localKeys = false
  readonly prefix: string
  #counter: Counter
  #numbers = { window: 60_000, limit: 5 }

  constructor({ weir = new Weir(), policy, prefix = 'rl:' }: StoreOptions = {}) {
    this.prefix = prefix
    this.#counter = new Counter(weir, policy)
  }

  init({ windowMs, limit }: { windowMs: number; limit?: unknown }): void {
    this.#numbers.window = windowMs
    if (typeof limit === 'number') this.#numbers.limit = limit
  }

  async increment(key: string): Promise<{ totalHits: number; resetTime: Date }> {
    return this.#read(key, 1)
  }

  async get(key: string): Promise<{ totalHits: number; resetTime: Date } | undefined> {
    const found = await this.#read(key, 0)
    return found.totalHits || found.resetTime.getTime() > Date.now() ? found : undefined
  }

  async decrement(key: string): Promise<void> {
    await this.#counter.giveBack(this.prefix + key, this.#numbers)
  }

  /** Needs a token with the scope reset. */
  async resetKey(key: string): Promise<void> {
    await this.#counter.forget(this.prefix + key, this.#numbers)
  }

  async #read(key: string, cost: number) {
    const { used, left } = await this.#counter.add(this.prefix + key, this.#numbers, cost)
    return { totalHits: used, resetTime: new Date(Date.now() + left) }
  }
}
