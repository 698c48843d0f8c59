/* weir.ts - the client: checks, and what is answered if weir cannot be asked. */
import { type Answer, mistake, RateLimitError, WeirError } from './answer.js'
import { denyCache, type DenyCacheOptions } from './deny_cache.js'
import { clock, type Duration, ms, root } from './duration.js'
import { lane, type Push } from './lane.js'
import type { LocalLimiter } from './local.js'
import { http, type HttpOptions, type Transport, type Verb, type WireRequest } from './transport.js'

/** Of a limit that comes with a request; `concurrency` needs a policy. */
export type Algorithm =
  `${'fixed' | 'sliding'}_window` | 'sliding_counter' | `${'token' | 'leaky'}_bucket`

/** A limit that comes with the request, instead of a policy of the server's file. */
export interface Limit {
  limit: number
  window: Duration
  /** Default: sliding_window. */
  algorithm?: Algorithm
  burst?: number
  precision?: Duration
  /** Of a fixed_window: `first` begins it with the first thing that is counted in it. */
  start?: 'epoch' | 'first'
  /** A denied check locks the key out for so many ms. */
  block_for_ms?: number
  /** Separates it from other limits on the same keys, and names it in metrics and for operators. */
  name?: string
}

/** What `weir policy types` writes: by name, the attributes and plans of each policy. */
export type Policies = Record<string, { by: string; key: string; plan: string }>
export type Anything = Record<string, { by: any; plan: string }>
type Name<P> = Extract<keyof P, string>

/** Who is counted: the attributes of the policy, or the one value if it counts by only one. */
export type Who<P, N> = N extends keyof P
  ? P[N] extends { by: infer B extends string; key: infer K }
    ? K | { [A in B]: string | number }
    : Identity
  : Identity

export type Identity = string | Record<string, string | number>

export interface CheckOptions<Plan = string> {
  /** Default: 1. */
  cost?: number
  /** By name, for policies that count other things than requests. */
  costs?: Record<string, number>
  /**
   * The same check with the same id is counted once, so it is sent again if the answer was lost.
   */
  id?: string
  plan?: Plan
  /** Allowed and not counted. */
  exempt?: boolean
  /** The answer has the tag of the identity. */
  tag?: boolean
  /** ms since 1970; only for servers with `--trust-client-clock`. */
  now?: number
  /** Instead of the client's. */
  timeout?: number
  /** Gives the call up: it rejects with the signal's reason. */
  signal?: AbortSignal
}

export type Fallback = 'allow' | 'deny' | 'local'

/**
 * What decides while weir is not reached: one word, or another one after so many failed requests in
 * a row.
 */
export type OnError =
  | Fallback
  /** `before` is local if there is a local limiter, else allow; `then` is deny. */
  | { before?: Fallback; after: number; then?: Fallback }
  | ((error: WeirError, request: WireRequest) => Fallback)

export interface WeirOptions extends Partial<HttpOptions> {
  /** ms from the call to its answer, waiting included. Default: 250. */
  timeout?: number
  /** Default: deny. */
  onError?: OnError
  /** For `onError: 'local'`: `localLimiter({ login: { limit: 5, window: '15m' } })`. */
  local?: LocalLimiter
  /**
   * false: one request for each check. Default: up to 500 checks in a request, 6 requests under
   * way.
   */
  batch?: false | { max?: number; inFlight?: number }
  /** false: always ask. */
  denyCache?: false | DenyCacheOptions
  /** Instead of HTTP: see weir-client/socket and weir-client/postgres. */
  transport?: Transport
  on?: {
    answer?(answer: Answer, request: WireRequest): void
    /**
     * Each failed request. Default: the first one of each code is logged. What it throws is logged.
     */
    error?(error: WeirError): void
  }
}

/** invalid_…, no_such_…, clock_…, needs_…, id_reused, already_settled, reservation_expired. */
const MISTAKE = /^(inv|no_s|cloc|need|id_|alr|rese)/

/** Deno may forbid to read it. */
const env = (name: string) => {
  try {
    return root.process.env[name]
  } catch {}
}

/** Adds who is asked for, and under which limit. */
function toRequest(request: WireRequest, policy: any, who: any): WireRequest {
  if (typeof policy === 'string') request.policy = policy
  else if (!policy?.window) request.policies = policy
  // The lengths of time of a limit are its window and its precision.
  else
    for (const name in policy)
      if (/^[wp]/.test(name) && policy[name] !== undefined)
        request[name + '_ms'] = ms(policy[name])
      else request[name] = policy[name]
  if (typeof who === 'string') request.key = who
  else if (who) {
    const attributes: Record<string, string> = (request.attributes = {})
    for (const name in who) attributes[name] = `${who[name]}`
  }
  return request
}

export class Weir<P = Anything> {
  /** Checks a request, and counts it if it is allowed. */
  declare readonly check: Ask<P>
  /** What a check would answer; counts nothing. */
  declare readonly peek: Ask<P>
  /** Counts what has happened, whatever the limits say. The answer has `used` and `over`. */
  declare readonly charge: Ask<P>
  /** Gives back what was counted but did not happen. */
  declare readonly refund: Ask<P>
  /**
   * Forgets everything counted for an identity. If `source` is `fallback`, it was not done: send it
   * again.
   */
  declare readonly reset: Ask<P>
  /** A check that throws a RateLimitError if it is denied. */
  declare readonly assert: Ask<P>
  /** One policy or limit, with its verbs. */
  declare readonly limit: <N extends Name<P>>(
    policy: N | Limit | Name<P>[],
  ) => Limiter<Who<P, N>, PlanOf<P, N>>
  /** Many checks in one request. Each is decided alone. */
  declare readonly checkMany: (
    checks: { policy: Name<P> | Limit | Name<P>[]; who: Identity; options?: CheckOptions }[],
  ) => Promise<Answer[]>
  /** Any verb: those of reservations are in weir-client/reserve. */
  declare readonly ask: (
    verb: Verb,
    policy: unknown,
    who?: unknown,
    options?: CheckOptions,
  ) => Promise<Answer>
  /** Closes what the transport keeps open. */
  declare readonly close: () => void

  constructor(options: WeirOptions = {}) {
    const {
      url = env('WEIR_URL'),
      token = env('WEIR_TOKEN'),
      transport = http({ ...options, url, token }),
      on = {},
      local,
      onError = 'deny',
      timeout: patience = 250,
      batch = {},
      denyCache: cached = {},
    } = options
    if (!local && /local/.test(JSON.stringify(onError))) throw mistake('no local')
    const denials = cached && denyCache(cached)
    const lanes: Record<string, Push> = {}
    const logged: Record<string, unknown> = {}
    let failures = 0

    const report = (error?: WeirError) => {
      if (!error) failures = 0
      else if (!MISTAKE.test(error.code)) {
        failures++
        // What it throws, now or later, is no fault of the check.
        if (on.error) (async () => on.error!(error))().catch(console.error)
        else logged[error.code] ??= console.error(`weir: ${error.code} ${error.message}`) ?? 1
      }
    }

    const { max = 500, inFlight = 6 } = batch || { max: 1, inFlight: Infinity }

    const ask = (verb: Verb, policy: any, who: unknown, options?: CheckOptions) =>
      new Promise<Answer>((resolve, reject) => {
        const { signal, timeout = patience, cost, ...more } = options ?? {}
        signal?.throwIfAborted()
        const request = (also?: object) => toRequest({ ...more, ...also }, policy, who)
        const cache =
          verb === 'check' &&
          !more.plan &&
          !more.now &&
          !more.id &&
          !/bucket/.test(policy?.algorithm) &&
          denials
        // What most ask: objects take an engine of JavaScript twice as long.
        const key =
          options || typeof policy !== 'string' || typeof who !== 'string'
            ? JSON.stringify(request())
            : `{"policy":${JSON.stringify(policy)},"key":${JSON.stringify(who)}}`
        const sent = clock()
        const answered = (answer: Answer) => {
          on.answer?.(answer, request())
          resolve(answer)
        }
        const price = cost ?? 1
        const kept = cache && cache.find(key, price, sent)
        if (kept) return answered(kept)
        const settle = (result: any) => {
          signal?.removeEventListener('abort', abort)
          if (denials && !cache && /re|com/.test(verb)) denials.clear(clock())
          try {
            if (result.code) {
              if (MISTAKE.test(result.code)) throw result
              const asked = request()
              let word = typeof onError === 'function' ? onError(result, asked) : onError
              if (typeof word === 'object')
                word =
                  failures < word.after
                    ? (word.before ?? (local ? 'local' : 'allow'))
                    : (word.then ?? 'deny')
              const allowed = word !== 'deny' || !/check|serve|grow/.test(verb)
              result = {
                allowed,
                policy: asked.policy ?? asked.name ?? null,
                rule: 'default',
                limit: 0,
                remaining: 0,
                retryAfterMs: allowed ? 0 : 1000,
                resetAfterMs: 0,
                delayMs: 0,
                source: 'fallback',
                shadow: false,
                error: result,
                ...(word === 'local' && local?.(verb, asked, key, price)),
              }
            } else if (cache) cache.keep(key, price, sent, result)
            answered(result)
          } catch (thrown) {
            reject(thrown)
          }
        }
        const giveUp = (lanes[verb] ??= lane(
          verb,
          transport,
          max,
          // A worker of Cloudflare cannot wait in one request for the fetch of another one.
          root.WebSocketPair ? Infinity : inFlight,
          report,
        ))(
          {
            text: cost === undefined ? key : JSON.stringify(request({ cost })),
            safe: cost === 0 || more.id,
            settle,
          },
          timeout,
        )
        const abort = () => (giveUp(), reject(signal!.reason))
        signal?.addEventListener('abort', abort)
      })

    const assert = async (policy: unknown, who: unknown, asked?: CheckOptions) => {
      const answer = await ask('check', policy, who, asked)
      if (!answer.allowed) throw new RateLimitError(answer)
      return answer
    }
    const verbs: Record<string, any> = { assert }
    for (const verb of ['check', 'peek', 'charge', 'refund', 'reset'] as const)
      verbs[verb] = ask.bind(0, verb)

    Object.assign(this, verbs, {
      ask,
      checkMany: (checks: any[]) =>
        Promise.all(checks.map((c) => ask('check', c.policy, c.who, c.options))),
      limit(policy: unknown) {
        const limiter: Record<string, any> = {
          async limit(who: any) {
            const answer = await ask('check', policy, who.key ?? who)
            return {
              ...answer,
              success: answer.allowed,
              reset: Date.now() + answer.resetAfterMs,
              answer,
            }
          },
        }
        for (const verb in verbs) limiter[verb] = verbs[verb].bind(0, policy)
        return limiter
      },
      close: () => transport.close?.(),
    })
  }
}

/**
 * A verb: of a policy of the file, or of a limit that comes with the request, or of several
 * policies at once.
 */
export interface Ask<P> {
  <N extends Name<P>>(
    policy: N,
    who: Who<P, N>,
    options?: CheckOptions<PlanOf<P, N>>,
  ): Promise<Answer>
  (policy: Limit | Name<P>[], who: Identity, options?: CheckOptions): Promise<Answer>
}

type PlanOf<P, N> = N extends keyof P ? (P[N] extends { plan: infer L } ? L : string) : string

export interface Limiter<W = Identity, Plan = string> {
  check(who: W, options?: CheckOptions<Plan>): Promise<Answer>
  peek(who: W, options?: CheckOptions<Plan>): Promise<Answer>
  charge(who: W, options?: CheckOptions<Plan>): Promise<Answer>
  refund(who: W, options?: CheckOptions<Plan>): Promise<Answer>
  reset(who: W, options?: CheckOptions<Plan>): Promise<Answer>
  assert(who: W, options?: CheckOptions<Plan>): Promise<Answer>
  /** The shape of other limiters, and of the rate limit binding of Cloudflare. */
  limit(
    who: string | { key: string },
  ): Promise<{ success: boolean; limit: number; remaining: number; reset: number; answer: Answer }>
}
