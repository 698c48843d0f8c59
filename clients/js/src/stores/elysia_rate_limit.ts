/* elysia_rate_limit.ts - the context of elysia-rate-limit: `rateLimit({ context: new WeirContext()
 * })`. */
import { Weir } from '../node.js'
import { Counter, type StoreOptions } from './counter.js'

export class WeirContext {
  #counter: Counter
  #prefix: string
  #numbers = { window: 60_000, limit: 10 }

  constructor({ weir = new Weir(), policy, prefix = 'elysia:' }: StoreOptions = {}) {
    this.#counter = new Counter(weir, policy)
    this.#prefix = prefix
  }

  init({ duration, max }: { duration?: number; max?: unknown }): void {
    this.#numbers.window = duration ?? this.#numbers.window
    if (typeof max === 'number') this.#numbers.limit = max
  }

  async increment(key: string, duration = this.#numbers.window) {
    const numbers = { ...this.#numbers, window: duration }
    const { used, left } = await this.#counter.add(this.#prefix + key, numbers)
    const now = Date.now()
    return { count: used, nextReset: new Date(now + left), start: now + left - duration }
  }

  async decrement(key: string): Promise<void> {
    await this.#counter.giveBack(this.#prefix + key, this.#numbers)
  }

  /** Of one key; all keys at once are not forgotten. */
  async reset(key?: string): Promise<void> {
    if (key !== undefined) await this.#counter.forget(this.#prefix + key, this.#numbers)
  }

  kill(): void {}
}
