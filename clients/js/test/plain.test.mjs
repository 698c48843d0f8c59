/* plain.test.mjs - what reads most answers in less time reads what the usual way reads. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from './support.mjs'

const { parsePlain } = await load('plain.js')
const { parse } = await load('transport.js')

const answer = (more) => ({
  allowed: true,
  policy: 'login',
  rule: 'default',
  limit: 5,
  remaining: 4,
  retry_after_ms: 0,
  reset_after_ms: 900_000,
  delay_ms: 0,
  source: 'store',
  shadow: false,
  ...more,
})

const KINDS = [
  answer(),
  answer({ remaining: 0, reset_after_ms: 0 }),
  answer({ remaining: 2 ** 53 - 1 }),
  answer({ remaining: 999_999_999_999_999 }),
  answer({ remaining: -1 }),
  answer({ reset_after_ms: 1.5 }),
  answer({ allowed: false, remaining: 0, retry_after_ms: 17 }),
  answer({ policy: null }),
  answer({ policy: 'a","remaining":7,"b' }),
  answer({ rule: '\\"reset_after_ms":8, €' }),
  answer({ used: 3, over: 0 }),
  answer({ rules: [{ rule: 'a', retry_after_ms: 1 }] }),
  { error: { code: 'invalid_request', detail: 'no' } },
]

/** Also the order of its members, or that it is no JSON. */
function isReadAsUsual(text) {
  const [read, asUsual] = [parsePlain, parse].map((way) => {
    try {
      return JSON.stringify(way(text))
    } catch (error) {
      return error.name
    }
  })
  assert.equal(read, asUsual, text)
}

/** Answers are like one of the last few that were not like one before. */
function isRemembered(body) {
  for (let i = 0; i < 20; i++) isReadAsUsual(JSON.stringify(body))
}

test('any answer after any other, alone and in lists, is read as usual', () => {
  for (const first of KINDS) {
    isRemembered(first)
    for (const second of KINDS)
      for (const body of [first, second, { answers: [second] }, { answers: [first, second, first] }])
        for (const end of ['', '\n']) isReadAsUsual(JSON.stringify(body) + end)
  }
  for (const body of [{}, { answers: [] }, { answers: null }, [], null, 5])
    isReadAsUsual(JSON.stringify(body))
})

test('what is cut at any place, or goes on behind its end, is no answer', () => {
  for (const body of [answer(), { answers: [answer(), answer({ remaining: 3 })] }]) {
    const text = JSON.stringify(body)
    isRemembered(body)
    for (let end = 0; end < text.length; end++) isReadAsUsual(text.slice(0, end))
    for (const more of [',', '}', ']}', '{}', text]) isReadAsUsual(text + more)
  }
})

test('a number that JSON does not have is no answer', () => {
  const text = JSON.stringify(answer())
  isRemembered(answer())
  for (const number of ['04', '00', '', '+4', '4.', '4e1', '0x4', ' 4', '4 ', '"4"', 'null'])
    for (const member of ['remaining', 'reset_after_ms'])
      isReadAsUsual(text.replace(new RegExp(`"${member}":\\d+`), `"${member}":${number}`))
})

test('each caller has an answer of its own', () => {
  const text = JSON.stringify({ answers: [answer(), answer()] })
  isRemembered({ answers: [answer(), answer()] })
  const { answers } = parsePlain(text)
  answers[0].remaining = 100
  assert.equal(answers[1].remaining, 4)
  assert.equal(parsePlain(text).answers[0].remaining, 4)
})
