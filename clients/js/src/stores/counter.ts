/* counter.ts - what the stores of other limiters have in common: every hit counts, and the
 * middleware compares.
 *
 * A hit is a charge, which is never denied, so a hit that the middleware denies and then takes back
 * was counted before. A store that decides instead, and gives back what was never taken, lets
 * more pass than the limit. */
import { type Answer, WeirError } from '../answer.js'
import type { Weir } from '../weir.js'

export interface StoreOptions {
  /** Default: a client with the settings of the environment. */
  weir?: Weir<any>
  /**
   * A policy of the server's file, by one attribute: then weir counts in its windows. Without it,
   * windows have the length that the middleware names, and begin with the first request.
   */
  policy?: string
  /** Separates the keys of this limiter from those of others. */
  prefix?: string
}

/** What the middleware says of its limit; ms. */
export interface Numbers {
  window: number
  limit: number
  /** How long a denial shuts a key out. */
  blockFor?: number
}

export interface Count {
  used: number
  /** ms until the window ends. */
  left: number
}

export interface Taken extends Count {
  /** ms until the key is let in again; 0: it is now. */
  blocked: number
}

export class Counter {
  readonly #weir: Weir<any>
  constructor(
    weir: Weir<any>,
    private readonly policy?: string,
  ) {
    this.#weir = weir
  }

  #limit({ window, limit, blockFor }: Numbers): any {
    return (
      this.policy ?? {
        limit,
        window: Math.min(window, Number.MAX_SAFE_INTEGER),
        algorithm: 'fixed_window',
        start: 'first',
        ...(blockFor && { block_for_ms: blockFor }),
      }
    )
  }

  async add(key: string, numbers: Numbers, cost = 1): Promise<Count> {
    // Nothing is counted by a limit of 0, and what the limit is does not matter to a charge.
    const limit = numbers.limit > 1 ? numbers.limit : 1
    const answer = await this.#weir.charge(this.#limit({ ...numbers, limit }), key, { cost })
    if (answer.used === undefined)
      throw answer.error ?? new WeirError('the limit counts nothing: is it off?', 'bad_answer')
    return { used: answer.used, left: answer.resetAfterMs }
  }

  /**
   * For limiters with lockouts: what is too much is not counted, but shuts the key out for
   * `blockFor`, and then it begins anew.
   */
  async take(key: string, numbers: Numbers, cost = 1): Promise<Taken> {
    const answer = await this.#weir.check(this.#limit(numbers), key, { cost })
    done(answer)
    const { allowed, limit, remaining, retryAfterMs, resetAfterMs } = answer
    return {
      used: allowed ? limit - remaining : limit + cost,
      left: resetAfterMs,
      blocked: allowed ? 0 : retryAfterMs < 0 ? numbers.blockFor! : retryAfterMs,
    }
  }

  async giveBack(key: string, numbers: Numbers, cost = 1): Promise<void> {
    done(await this.#weir.refund(this.#limit(numbers), key, { cost }))
  }

  async forget(key: string, numbers: Numbers): Promise<void> {
    done(await this.#weir.reset(this.#limit(numbers), key))
  }
}

function done({ source, error }: Answer) {
  if (source === 'fallback' && error) throw error
}
