/* nestjs_throttler.ts - the storage of @nestjs/throttler: `ThrottlerModule.forRoot({ throttlers,
 * storage: new WeirStorage() })`. */
import { Weir } from '../weir.js'
import { Counter, type StoreOptions } from './counter.js'

export class WeirStorage {
  #counter: Counter
  #prefix: string

  constructor({ weir = new Weir(), policy, prefix = 'nest:' }: StoreOptions = {}) {
    this.#counter = new Counter(weir, policy)
    this.#prefix = prefix
  }

  /**
   * A client that is over the limit is shut out until the window ends; `blockDuration` of a policy
   * is its `block_for`.
   */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    _blockDuration: number,
    throttlerName: string,
  ) {
    const { used, left } = await this.#counter.add(
      `${this.#prefix}${throttlerName}:${key}`,
      ttl,
      limit,
    )
    const isBlocked = used > limit
    const seconds = Math.ceil(left / 1000)
    return {
      totalHits: used,
      timeToExpire: seconds,
      isBlocked,
      timeToBlockExpire: isBlocked ? seconds : 0,
    }
  }
}
