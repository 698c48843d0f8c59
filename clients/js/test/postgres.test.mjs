/* postgres.test.mjs - the client by plain SQL, with npm's pg, and as postgres.js and supabase-js
 * are called. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { load, unhandled } from './support.mjs'

const { DATABASE_URL, PG, WHY_NO_POSTGRES } = process.env
const skip = DATABASE_URL && PG ? false : (WHY_NO_POSTGRES ?? 'no DATABASE_URL')
const { Weir } = await load('index.js')
const { postgres } = await load('postgres.js')
const { reserve } = await load('reserve.js')
const { Pool } = skip ? {} : createRequire(pathToFileURL(path.join(PG, 'x')))('pg')
const pool = skip ? undefined : new Pool({ connectionString: DATABASE_URL, max: 4 })
after(async () => {
  await pool?.end()
  assert.deepEqual(unhandled, [])
})

/** As supabase-js calls PostgREST, and that calls Postgres. */
const supabase = {
  schema: (schema) => ({
    async rpc(name, parameters) {
      const named = Object.keys(parameters).map((n, i) => `${n} => $${i + 1}`)
      const values = Object.values(parameters).map((v) =>
        typeof v === 'object' ? JSON.stringify(v) : v,
      )
      try {
        const { rows } = await pool.query(
          `SELECT coalesce(jsonb_agg(to_jsonb(r)), '[]') AS body FROM ${schema}.${name}(${named}) r`,
          values,
        )
        return { data: rows[0].body, error: null }
      } catch ({ code, message }) {
        return { data: null, error: { code, message } }
      }
    },
  }),
}
const WAYS = {
  pg: () => pool,
  'postgres.js': () => ({ unsafe: async (text, values) => (await pool.query(text, values)).rows }),
  'supabase-js': () => supabase,
}

for (const [name, make] of Object.entries(WAYS)) {
  const client = (options) => new Weir({ transport: postgres(make()), timeout: 20_000, ...options })
  const key = (n) => `${name}:${n}`

  test(`${name}: exactly as many are allowed as the limit says`, { skip }, async () => {
    const clients = [client(), client(), client({ batch: { max: 7 } })]
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, i) => clients[i % 3].check('word', key('all'))),
    )
    assert.equal(answers.filter((a) => a.allowed).length, 5)
    const denied = answers.find((a) => !a.allowed)
    assert.ok(
      denied.retryAfterMs > 800_000 && denied.limit === 5 && denied.source === 'store',
      JSON.stringify(denied),
    )
  })

  test(`${name}: all verbs, and limits that come with requests`, { skip }, async () => {
    const weir = client({ denyCache: false })
    const word = weir.limit('word')
    assert.equal((await word.peek(key('a'))).remaining, 5)
    assert.equal((await word.check({ user: key('a') }, { cost: 2 })).remaining, 3)
    const charged = await word.charge(key('a'), { cost: 4 })
    assert.deepEqual([charged.used, charged.over], [6, 1])
    assert.equal((await word.refund(key('a'), { cost: 4 })).remaining, 3)
    const own = { limit: 1, window: '1h', name: 'own', algorithm: 'fixed_window' }
    assert.deepEqual(
      [(await weir.check(own, key('b'))).allowed, (await weir.check(own, key('b'))).allowed],
      [true, false],
    )
  })

  test(`${name}: reservations, and checks that are counted once`, { skip }, async () => {
    const weir = client()
    const left = async (user) => (await weir.peek('word', user)).remaining
    const held = await reserve(weir, 'word', { user: key('r') }, { cost: 3, ttl: '1m' })
    assert.ok(held.allowed && held.reservation && held.repeated === false, JSON.stringify(held))
    assert.equal(await left(key('r')), 2)
    assert.equal((await held.grow({ cost: 1 })).allowed, true)
    assert.equal((await held.grow({ cost: 2 })).allowed, false)
    assert.ok((await held.extend('5m')).expires_in_ms > 60_000)
    const done = await held.commit({ cost: 2 })
    assert.deepEqual([done.over, done.expired, done.repeated], [0, false, false])
    assert.equal(await left(key('r')), 3)
    assert.equal((await held.commit({ cost: 2 })).repeated, true)
    await assert.rejects(held.commit({ cost: 1 }), { code: 'already_settled' })
    const given = await reserve(weir, 'word', key('r'), { costs: { requests: 3 }, ttl: 60_000 })
    await given.release()
    assert.equal(await left(key('r')), 3)
    const id = key('once').replace(/[^a-z:]/g, '')
    const twice = await Promise.all([1, 2].map(() => weir.check('word', key('o'), { id })))
    assert.deepEqual(twice.map((a) => a.repeated).sort(), [false, true])
    assert.equal(await left(key('o')), 4)
    await assert.rejects(weir.check('word', key('p'), { id }), { code: 'id_reused' })
    await assert.rejects(weir.ask('release', undefined, undefined, { reservation: 'none' }), {
      code: 'no_such_reservation',
    })
  })

  test(`${name}: a mistake is an error for its caller alone`, { skip }, async () => {
    const weir = client()
    const [good, bad, other] = await Promise.allSettled([
      weir.check('word', key('c')),
      weir.check('wrd', 'x'),
      weir.check('word', key('c')),
    ])
    assert.deepEqual(
      [good.value.remaining + other.value.remaining, bad.reason.code],
      [7, 'no_such_policy'],
    )
  })
}

test('a database that is away or hangs is left to onError', { skip }, async () => {
  const on = { error() {} }
  const away = new Weir({
    transport: postgres({
      query: async () => {
        throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
      },
    }),
    onError: 'allow',
    on,
  })
  assert.equal((await away.check('word', 'x')).source, 'fallback')
  const hung = new Weir({
    transport: postgres({ query: () => new Promise(() => {}) }),
    onError: 'deny',
    timeout: 50,
    on,
  })
  for (let i = 0; i < 10; i++) assert.equal((await hung.check('word', 'x')).allowed, false)
})
