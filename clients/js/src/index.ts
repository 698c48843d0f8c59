/* index.ts - weir-client: the client over fetch. */
export { type Answer, RateLimitError, type RuleAnswer, type Source, WeirError } from './answer.js'
export type { DenyCacheOptions } from './deny_cache.js'
export { type Duration, ms } from './duration.js'
export { type LocalLimiter, localLimiter, type LocalNumbers } from './local.js'
export {
  http,
  type HttpOptions,
  type Transport,
  type Underway,
  type Verb,
  type WireRequest,
} from './transport.js'
export {
  type Algorithm,
  type Ask,
  type CheckOptions,
  type Fallback,
  type Identity,
  type Limit,
  type Limiter,
  type OnError,
  type Policies,
  Weir,
  type WeirOptions,
  type Who,
} from './weir.js'
