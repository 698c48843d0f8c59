/* rate_limiter_flexible.ts - a limiter of the shape of rate-limiter-flexible: consume, penalty,
 * reward, get, delete. */
import { Weir } from '../node.js'
import { type Count, Counter, type Numbers, type StoreOptions } from './counter.js'

export class RateLimiterRes {
  constructor(
    readonly remainingPoints: number,
    readonly msBeforeNext: number,
    readonly consumedPoints: number,
    readonly isFirstInDuration: boolean,
  ) {}
}

export interface FlexibleOptions extends StoreOptions {
  points: number
  /** Seconds. */
  duration: number
  keyPrefix?: string
  /** Seconds for which a key is shut out that was denied; then it begins anew. */
  blockDuration?: number
}

/**
 * Every point counts, also of what is denied, except while a key is shut out. `consume` rejects with
 * a RateLimiterRes if there are too few, or with an Error.
 */
export class RateLimiterWeir {
  #counter: Counter
  constructor(readonly options: FlexibleOptions) {
    this.#counter = new Counter(options.weir ?? new Weir(), options.policy)
  }

  async consume(
    key: string | number,
    points = 1,
    { customDuration }: { customDuration?: number } = {},
  ): Promise<RateLimiterRes> {
    const numbers = this.#numbers(customDuration)
    const result = numbers.blockFor
      ? this.#result(await this.#counter.take(this.#key(key), numbers, points), points)
      : await this.#add(key, points, numbers)
    if (result.consumedPoints > this.options.points) throw result
    return result
  }

  penalty(key: string | number, points = 1): Promise<RateLimiterRes> {
    return this.#add(key, points)
  }

  async reward(key: string | number, points = 1): Promise<RateLimiterRes> {
    await this.#counter.giveBack(this.#key(key), this.#numbers(), points)
    return this.#add(key, 0)
  }

  async get(key: string | number): Promise<RateLimiterRes | null> {
    const result = await this.#add(key, 0)
    return result.consumedPoints ? result : null
  }

  /** Needs a token with the scope reset. */
  async delete(key: string | number): Promise<boolean> {
    const known = await this.get(key)
    await this.#counter.forget(this.#key(key), this.#numbers())
    return known !== null
  }

  #key(key: string | number) {
    return `${this.options.keyPrefix ?? this.options.prefix ?? 'rlflx'}:${key}`
  }

  #numbers(seconds = this.options.duration): Numbers {
    const { points, blockDuration = 0 } = this.options
    return { window: seconds * 1000, limit: points, blockFor: blockDuration * 1000 }
  }

  async #add(key: string | number, cost: number, numbers = this.#numbers()) {
    return this.#result(await this.#counter.add(this.#key(key), numbers, cost), cost)
  }

  #result({ used, left }: Count, cost: number) {
    return new RateLimiterRes(Math.max(0, this.options.points - used), left, used, used === cost)
  }
}
