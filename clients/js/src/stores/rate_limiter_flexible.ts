/* rate_limiter_flexible.ts - a limiter of the shape of rate-limiter-flexible: consume, penalty,
 * reward, get, delete. */
import { Weir } from '../weir.js'
import { Counter, type StoreOptions } from './counter.js'

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
}

/**
 * Every point counts, also of what is denied. `consume` rejects with a RateLimiterRes if there are
 * too few, or with an Error.
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
    const result = await this.#add(key, points, customDuration)
    if (result.consumedPoints > this.options.points) throw result
    return result
  }

  penalty(key: string | number, points = 1): Promise<RateLimiterRes> {
    return this.#add(key, points)
  }

  async reward(key: string | number, points = 1): Promise<RateLimiterRes> {
    await this.#counter.giveBack(
      this.#key(key),
      this.options.duration * 1000,
      this.options.points,
      points,
    )
    return this.#add(key, 0)
  }

  async get(key: string | number): Promise<RateLimiterRes | null> {
    const result = await this.#add(key, 0)
    return result.consumedPoints ? result : null
  }

  /** Needs a token with the scope reset. */
  async delete(key: string | number): Promise<boolean> {
    const known = await this.get(key)
    await this.#counter.forget(this.#key(key), this.options.duration * 1000, this.options.points)
    return known !== null
  }

  #key(key: string | number) {
    return `${this.options.keyPrefix ?? this.options.prefix ?? 'rlflx'}:${key}`
  }

  async #add(key: string | number, cost: number, seconds = this.options.duration) {
    const { points } = this.options
    const { used, left } = await this.#counter.add(this.#key(key), seconds * 1000, points, cost)
    return new RateLimiterRes(Math.max(0, points - used), left, used, used === cost)
  }
}
