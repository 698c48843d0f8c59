/* reserve.ts - reservations: hold what a call may cost, and say later what it did cost. */
import type { Answer } from './answer.js'
import { type Duration, ms } from './duration.js'
import type { CheckOptions, Identity, Limit, Weir } from './weir.js'

export interface ReserveOptions extends CheckOptions {
  /** How long it is held at most; then it counts as used. */
  ttl: Duration
}

type Costs = Pick<CheckOptions, 'cost' | 'costs' | 'timeout' | 'signal'>

/**
 * The answer, and what can be done with what is held. A denied one holds nothing, and all of this
 * does nothing.
 */
export interface Reservation extends Answer {
  /** So much was used; without costs, what was held. */
  commit(costs?: Costs): Promise<Answer>
  /** Nothing was used. */
  release(): Promise<Answer>
  /** A check of more, onto the same reservation. */
  grow(costs: Costs): Promise<Answer>
  /** It ends so long from now, if that is later. */
  extend(ttl: Duration): Promise<Answer>
  /** `await using`: releases it, unless it was committed or released. */
  [Symbol.asyncDispose](): Promise<void>
}

const hex = () => Math.random().toString(16).slice(2)

/**
 * Reserves. With an id, which is random if there is none, a lost answer is no matter: the same is
 * asked again, and counted once.
 *
 *     await using held = await reserve(weir, 'tokens', { user }, { costs: { tokens: 4000 }, ttl:
 *     '2m' }) if (!held.allowed) return tooManyRequests(held)
 *     await held.commit({ costs: { tokens: used } })
 */
export async function reserve(
  weir: Weir<any>,
  policy: string | string[] | Limit,
  who: Identity,
  {
    ttl,
    id = globalThis.crypto?.randomUUID?.() ?? `${hex()}-${hex()}-${hex()}`,
    ...options
  }: ReserveOptions,
): Promise<Reservation> {
  const answer = await weir.ask('reserve', policy, who, {
    ...options,
    id,
    ttl_ms: ms(ttl),
  } as CheckOptions)
  const { reservation, allowed } = answer
  let settled = false
  const ask = async (verb: 'commit' | 'release' | 'grow' | 'extend', more: object = {}) => {
    if (!reservation || !allowed) return answer
    const heard = await weir.ask(verb, undefined, undefined, {
      ...more,
      reservation,
    } as CheckOptions)
    if (/commit|release/.test(verb) && heard.source !== 'fallback') settled = true
    return heard
  }
  return {
    ...answer,
    commit: (costs) => ask('commit', costs),
    release: () => ask('release'),
    grow: (costs) => ask('grow', costs),
    extend: (longer) => ask('extend', { ttl_ms: ms(longer) }),
    async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
      if (!settled) await ask('release')
    },
  } as Reservation
}
