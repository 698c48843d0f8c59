/* upstash.ts - the shape of @upstash/ratelimit: change the import, keep the code.
 *
 * Differences: weir's clock counts; a denied request costs nothing; a bucket gains its tokens one
 * by one; the cache of denials is exact and bounded. Regions, deny lists and dynamic limits are
 * not here: weir has overrides. */
import { type Duration, ms } from './duration.js'
import { Weir } from './node.js'
import type { Limit } from './weir.js'

export interface RatelimitConfig {
  limiter: Limit
  /**
   * Default: a client with the settings of the environment, that allows if weir does not answer in
   * time.
   */
  weir?: Weir<any>
  prefix?: string
  /** Default: 5000, then allowed, with the reason `timeout`. */
  timeout?: number
  /** Are not used: weir has metrics, a cache and a store of its own. */
  redis?: unknown
  analytics?: boolean
  ephemeralCache?: unknown
}

export interface RatelimitResponse {
  success: boolean
  limit: number
  remaining: number
  /** Unix time in ms. */
  reset: number
  pending: Promise<unknown>
  /** `cacheBlock`: denied without a question, as it could not have been allowed yet. */
  reason?: 'timeout' | 'cacheBlock'
}

export class Ratelimit {
  readonly #weir: Weir<any>
  readonly #limit: Limit
  readonly #prefix: string
  readonly #timeout: number

  constructor({ limiter, weir, prefix = '@upstash/ratelimit', timeout = 5000 }: RatelimitConfig) {
    this.#weir = weir ?? new Weir({ onError: 'allow' })
    this.#limit = limiter
    this.#prefix = prefix
    this.#timeout = timeout
  }

  static fixedWindow(tokens: number, window: Duration): Limit {
    return { limit: tokens, window, algorithm: 'fixed_window' }
  }

  static slidingWindow(tokens: number, window: Duration): Limit {
    return { limit: tokens, window, algorithm: 'sliding_counter' }
  }

  static tokenBucket(refillRate: number, interval: Duration, maxTokens: number): Limit {
    return { limit: refillRate, window: interval, algorithm: 'token_bucket', burst: maxTokens }
  }

  static cachedFixedWindow = Ratelimit.fixedWindow

  /** A negative `rate` gives back what was counted, and no more than that. */
  async limit(
    identifier: string,
    { rate = 1 }: { rate?: number } = {},
  ): Promise<RatelimitResponse> {
    const verb = rate < 0 ? 'refund' : 'check'
    const answer = await this.#weir[verb](this.#limit, this.#key(identifier), {
      cost: Math.abs(rate),
      timeout: this.#timeout,
    })
    const pending = Promise.resolve()
    if (answer.error?.code === 'timeout')
      return {
        success: answer.allowed,
        limit: 0,
        remaining: 0,
        reset: 0,
        pending,
        reason: 'timeout',
      }
    return {
      success: answer.allowed,
      limit: this.#most,
      remaining: answer.remaining,
      reset: answer.allowed
        ? this.#end(answer.resetAfterMs)
        : Date.now() + answer.retryAfterMs,
      pending,
      ...(answer.source === 'cache' && { reason: 'cacheBlock' }),
    }
  }

  /** Waits until a request is allowed, at most so many ms. */
  async blockUntilReady(identifier: string, timeout: number): Promise<RatelimitResponse> {
    if (!(timeout > 0)) throw new Error('timeout must be positive')
    const end = Date.now() + timeout
    for (;;) {
      const response = await this.limit(identifier)
      const left = end - Date.now()
      const wait = response.reset - Date.now()
      if (response.success || left <= 0) return response
      await new Promise((resolve) => setTimeout(resolve, Math.max(1, Math.min(wait, left))))
      if (wait > left) return response
    }
  }

  async getRemaining(
    identifier: string,
  ): Promise<{ remaining: number; reset: number; limit: number }> {
    const { remaining, resetAfterMs } = await this.#weir.peek(this.#limit, this.#key(identifier))
    return { remaining, reset: this.#end(resetAfterMs), limit: this.#most }
  }

  /** Needs a token with the scope reset. */
  async resetUsedTokens(identifier: string): Promise<void> {
    const { source, error } = await this.#weir.reset(this.#limit, this.#key(identifier))
    if (source === 'fallback' && error) throw error
  }

  /** Windows of the clock end at multiples of their length: the way here took time. */
  #end(after: number) {
    const step = after > 0 && this.#limit.algorithm !== 'token_bucket' ? ms(this.#limit.window) : 1
    return Math.round((Date.now() + after) / step) * step
  }

  get #most() {
    return this.#limit.burst ?? this.#limit.limit
  }

  #key(identifier: string) {
    return `${this.#prefix}:${identifier}`
  }
}
