/* plain.ts - reads answers in less time: most are of one rule, whose members are known. */
import type { Raw } from './answer.js'
import { parse } from './transport.js'

/** Of one rule, and not of a charge. */
const isPlain = (answer: any) => Object.keys(answer ?? 0).length === 10 && 'shadow' in answer

/** As `parse` names its members, in less time than it takes to replace them in the text. */
const named = (answer: any): Raw => ({
  allowed: answer.allowed,
  policy: answer.policy,
  rule: answer.rule,
  limit: answer.limit,
  remaining: answer.remaining,
  retryAfterMs: answer.retry_after_ms,
  resetAfterMs: answer.reset_after_ms,
  delayMs: answer.delay_ms,
  source: answer.source,
  shadow: answer.shadow,
})

/** As `parse` does. */
export function parsePlain(text: string): any {
  const body = JSON.parse(text)
  if (isPlain(body)) return named(body)
  return body?.answers?.every?.(isPlain) ? { answers: body.answers.map(named) } : parse(text)
}
