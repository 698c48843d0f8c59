/* postgres.test.mjs - the client by plain SQL, with npm's pg, and as postgres.js and supabase-js
 * are called. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import net from 'node:net'
import path from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { freePort, load, unhandled } from './support.mjs'

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

/** A server that is no Postgres. */
async function stranger(behave) {
  const sockets = []
  const server = net.createServer((s) => {
    sockets.push(s.on('error', () => {}))
    behave(s)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: server.address().port,
    close() {
      for (const s of sockets) s.destroy()
      server.close()
    },
  }
}

const FAULTS = {
  away: async () => ({ port: await freePort(), close() {} }),
  silent: () => stranger(() => {}),
  cutting: () => stranger((s) => s.once('data', () => s.destroy())),
  'talking nonsense': () => stranger((s) => s.on('data', () => s.write('HTTP/1.1 400\r\n\r\n'))),
}
for (const [name, make] of Object.entries(FAULTS))
  test(`a database that is ${name}: onError decides within the deadline`, { skip }, async () => {
    const { port, close } = await make()
    for (const onError of ['allow', 'deny']) {
      const own = new Pool({ host: '127.0.0.1', port, user: 'edge', database: 'x', max: 4 })
      own.on('error', () => {})
      const client = new Weir({ transport: postgres(own), timeout: 100, onError, on: { error() {} } })
      for (let i = 0; i < 3; i++) {
        const begin = performance.now()
        const answers = await Promise.all([client.check('word', 'a'), client.check('word', 'b')])
        for (const { source, allowed, error } of answers) {
          assert.deepEqual([source, allowed], ['fallback', onError === 'allow'])
          assert.ok(/unreachable|timeout/.test(error.code), error.code)
        }
        assert.ok(performance.now() - begin < 2_100)
      }
    }
    close()
  })

test('a database that lets this role not in, or answers something else', { skip }, async () => {
  const stranger = new Pool({ connectionString: DATABASE_URL.replace('edge', 'stranger') })
  const faults = [
    stranger,
    { query: (text, values) => pool.query(text.replace('weir.', 'absent.'), values) },
    { query: () => pool.query("SELECT 'null'::jsonb AS answer") },
    { query: () => pool.query('SELECT 1 AS answer') },
    { query: () => pool.query('SELECT') },
  ]
  for (const [i, fault] of faults.entries()) {
    const client = new Weir({
      transport: postgres(fault),
      timeout: 10_000,
      onError: 'allow',
      on: { error() {} },
    })
    const { source, allowed } = await client.check('word', 'x')
    assert.deepEqual([source, allowed], ['fallback', true], `fault ${i}`)
  }
  await stranger.end()
})
