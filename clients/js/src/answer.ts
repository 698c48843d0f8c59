/* answer.ts - what weir answers, as this package hands it out, and the errors. */

/** Where an answer is from. `fallback`: weir was not reached, and `onError` decided. */
export type Source = 'store' | 'cache' | 'lease' | 'fallback' | 'exempt' | 'blocked' | 'off'

/** How one rule of a policy stands. */
export interface RuleAnswer {
  policy?: string
  rule: string
  allowed: boolean
  limit: number
  remaining: number
  retryAfterMs: number
  resetAfterMs: number
  used?: number
  over?: number
  shadow?: true
  tag?: string
}

export interface Answer {
  allowed: boolean
  /** The name of the policy or of the limit; null: it has none. */
  policy: string | null
  /** The rule that decided. */
  rule: string
  limit: number
  remaining: number
  /** 0 if allowed, else exact; -1: waiting does not help. */
  retryAfterMs: number
  /** Until nothing is counted any more. */
  resetAfterMs: number
  /** Leaky bucket: how long to wait before the request goes on. */
  delayMs: number
  source: Source
  /** Some rule in shadow would have denied. */
  shadow: boolean
  /** Of a charge: what is counted now. */
  used?: number
  /** Of a charge: by how much that exceeds the limit. */
  over?: number
  /** If the policy has several: in the order of the file. */
  rules?: RuleAnswer[]
  /** The id of the operator's override that took part. */
  override?: number
  tag?: string
  /** Of a reservation: its id; null: nothing was counted. */
  reservation?: string | null
  /** The same was asked before, and is counted once. */
  repeated?: boolean
  /** Of a commit: it came after the end. */
  expired?: boolean
  /** With `source: 'fallback'`: why this client decided and not weir. */
  error?: WeirError
}

/**
 * weir rejected the request, or could not be asked. `code` is one of the codes of weir's HTTP
 * interface, or `timeout`, `unreachable`, `bad_answer`.
 */
export class WeirError extends Error {
  override name = 'WeirError'
  constructor(
    message: string,
    readonly code: string,
    readonly status = 0,
    /** The request never left this process, so it can be sent again. */
    readonly unsent = false,
  ) {
    super(message)
  }
}

export const mistake = (message: string) => new WeirError(message, 'invalid_request')

/** A denied check, thrown by `assert`. */
export class RateLimitError extends Error {
  override name = 'RateLimitError'
  declare readonly policy: string | null
  declare readonly rule: string
  declare readonly limit: number
  declare readonly remaining: number
  declare readonly retryAfterMs: number
  declare readonly resetAfterMs: number
  constructor(readonly answer: Answer) {
    super(`denied by rule ${answer.rule}`)
    Object.assign(this, answer)
  }
}

/** What a transport hands out for one request: an answer, or what is wrong with the request. */
export type Raw = Omit<Partial<Answer>, 'error'> & { error?: { code: string; detail: string } }
