/* nestjs_throttler.ts - the storage of @nestjs/throttler: `ThrottlerModule.forRoot({ throttlers,
 * storage: new WeirStorage() })`. */
import { Weir } from '../node.js'
import { Counter, type StoreOptions } from './counter.js'

export class WeirStorage {
  #counter: Counter
  #prefix: string

  constructor({ weir = new Weir(), policy, prefix = 'nest:' }: StoreOptions = {}) {
    this.#counter = new Counter(weir, policy)
    this.#prefix = prefix
  }

  /** A client that is over the limit is shut out for `blockDuration`, and then begins anew. */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ) {
    const { used, left, blocked } = await this.#counter.take(
      `${this.#prefix}${throttlerName}:${key}`,
      { window: ttl, limit, blockFor: blockDuration || ttl },
    )
    return {
      totalHits: used,
      timeToExpire: Math.ceil(left / 1000),
      isBlocked: blocked > 0,
      timeToBlockExpire: Math.ceil(blocked / 1000),
    }
  }
}
