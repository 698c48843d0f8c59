/* plain.ts - reads answers in less time: most are of one rule, whose members are known.
 *
 * RULES
 *   P1  What is read is what `parse` reads.
 *   P2  Most answers are, character by character, one that came before, but for how much remains and
 *       when it is reset. Of those only the two numbers are read.
 *   P3  Where answers are all of different kinds, only some of them are remembered. */
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

const LIST = '{"answers":['
const NUMBERS = /^(.*"remaining":)\d+(,.*"reset_after_ms":)\d+(,.*)$/
const MOST_DIGITS = 15
const REMEMBERED_OF = 16

/** An answer as others are, and the text around its two numbers. */
let like: Raw
let before = ''
let between = ''
let behind = ''

/** Bodies since one was like it. */
let missed = 0

/** Where the text is read. */
let at = 0

/** Only names of members are between a quotation mark and a colon. */
function remember(answer: any) {
  if (missed++ % REMEMBERED_OF) return
  const parts = NUMBERS.exec(JSON.stringify(answer))
  if (!parts) return
  ;[, before, between, behind] = parts as unknown as [string, string, string, string]
  like = named(answer)
}

/** A piece of a text is compared in a quarter of the time that `startsWith` takes. */
function skip(text: string, part: string): boolean {
  const from = at
  at += part.length
  return text.slice(from, at) === part
}

/** A whole number, or NaN. */
function digits(text: string): number {
  const from = at
  let number = 0
  for (let digit; (digit = text.charCodeAt(at) - 48) >= 0 && digit <= 9; at++)
    number = number * 10 + digit
  const length = at - from
  const isJson = length === 1 || (length > 1 && text[from] !== '0')
  return isJson && length <= MOST_DIGITS ? number : NaN
}

/** P2. An answer that is like the one that is remembered. */
function again(text: string): Raw | undefined {
  if (!before || !skip(text, before)) return
  const remaining = digits(text)
  if (!skip(text, between)) return
  const resetAfterMs = digits(text)
  // The sum is NaN if one of them is.
  if (!skip(text, behind) || !(remaining + resetAfterMs >= 0)) return
  const { allowed, policy, rule, limit, retryAfterMs, delayMs, source, shadow } = like
  return {
    allowed,
    policy,
    rule,
    limit,
    remaining,
    retryAfterMs,
    resetAfterMs,
    delayMs,
    source,
    shadow,
  }
}

/** The same, of a whole body. A server may end it with a line break. */
function allAgain(text: string): any {
  const isList = text.startsWith(LIST)
  const answers: Raw[] = []
  at = isList ? LIST.length : 0
  do {
    const answer = again(text)
    if (!answer) return
    answers.push(answer)
  } while (isList && text[at] === ',' && at++)
  const rest = text.slice(at).trimEnd()
  return isList ? rest === ']}' && { answers } : !rest && answers[0]
}

/** As `parse` does. */
export function parsePlain(text: string): any {
  const read = allAgain(text)
  if (read) {
    missed = 0
    return read
  }
  const body = JSON.parse(text)
  if (isPlain(body)) {
    remember(body)
    return named(body)
  }
  if (!body?.answers?.[0] || !body.answers.every(isPlain)) return parse(text)
  remember(body.answers[0])
  return { answers: body.answers.map(named) }
}
