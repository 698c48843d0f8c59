/* reserve.test.mjs - reservations, and checks with an id, against a real server. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { load, serve, unhandled } from './support.mjs'

const { Weir } = await load('index.js')
const { reserve } = await load('reserve.js')
const { socket } = await load('socket.js')
const POLICIES = `version: 1
policies:
  jobs: {by: user, rules: {running: {limit: 2 at once}, units: {limit: 100 per 1h, algorithm: fixed_window}}}
  units: {limit: 10 per 1h, by: user, algorithm: fixed_window}
`
let server, weir
before(async () => {
  server = await serve({ policies: POLICIES })
  weir = new Weir({ url: server.url, timeout: 10_000 })
})
after(async () => {
  await server.stop()
  assert.deepEqual(unhandled, [])
})
const left = async (user) => (await weir.peek('units', user)).remaining

test('what was not used is given back', async () => {
  const held = await reserve(weir, 'units', { user: 'a' }, { cost: 8, ttl: '1m' })
  assert.ok(held.allowed && held.reservation)
  assert.equal(await left('a'), 2)
  assert.equal((await held.grow({ cost: 1 })).allowed, true)
  assert.equal((await held.grow({ cost: 5 })).allowed, false)
  assert.equal((await held.extend('5m')).reservation, held.reservation)
  await held.commit({ cost: 3 })
  assert.equal(await left('a'), 7)
  assert.equal((await held.commit({ cost: 3 })).repeated, true)
})

test('by a socket too', async () => {
  const kept = new Weir({
    transport: socket({ url: `weir://127.0.0.1:${server.port}` }),
    timeout: 10_000,
  })
  const held = await reserve(kept, 'units', { user: 'socket' }, { cost: 8, ttl: '1m' })
  assert.ok(held.allowed && held.reservation && held.repeated === false, JSON.stringify(held))
  assert.equal((await held.grow({ cost: 1 })).allowed, true)
  await held.extend('5m')
  await held.commit({ cost: 3 })
  assert.equal(await left('socket'), 7)
  assert.equal((await kept.check('units', { user: 'socket' }, { id: 'a' })).remaining, 6)
  assert.equal((await kept.check('units', { user: 'socket' }, { id: 'a' })).repeated, true)
  kept.close()
})

test('a slot is held until it is released, and await using releases it', async () => {
  const ask = () => reserve(weir, 'jobs', { user: 'b' }, { ttl: '1m' })
  const [one, two, three] = [await ask(), await ask(), await ask()]
  assert.deepEqual([one.allowed, two.allowed, three.allowed], [true, true, false])
  await three.release()
  await one.release()
  const four = await ask()
  assert.equal(four.allowed, true)
  await four[Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]()
  assert.equal((await ask()).allowed, true)
})

test('a lost answer is asked for again, and counted once', async () => {
  for (const verb of ['reserve', 'check']) {
    let lost = true
    const unlucky = new Weir({
      url: server.url,
      timeout: 10_000,
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (lost) {
          lost = false
          throw new TypeError('fetch failed')
        }
        return response
      },
    })
    const answer =
      verb === 'check'
        ? await unlucky.check('units', { user: verb }, { cost: 4, id: 'once' })
        : await reserve(unlucky, 'units', { user: verb }, { cost: 4, ttl: '1m' })
    assert.deepEqual([answer.allowed, answer.repeated, answer.source], [true, true, 'store'])
    assert.equal(await left(verb), 6)
  }
})

test('while weir is away onError decides, and settling does nothing', async () => {
  for (const onError of ['allow', 'deny']) {
    const away = new Weir({ url: 'http://127.0.0.1:1', onError, on: { error() {} } })
    const held = await reserve(away, 'units', 'c', { ttl: 1000 })
    assert.deepEqual([held.source, held.allowed], ['fallback', onError === 'allow'])
    await held.commit()
    await held[Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]()
  }
})
