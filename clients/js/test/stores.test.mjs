/* stores.test.mjs - other limiters on top of weir: the real middlewares with our stores, against a
 * real server. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { freePort, load, serve, until } from './support.mjs'

const { PEERS, WHY_NO_PEERS } = process.env
const require = PEERS && createRequire(pathToFileURL(path.join(PEERS, 'x')))
const skip = PEERS
  ? Number(process.versions.node.split('.')[0]) < 20
    ? 'this middleware needs Node.js 20'
    : false
  : (WHY_NO_PEERS ?? 'no PEERS')
const { Weir } = await load('index.js')
const stores = (name) => load(`stores/${name}.js`)
let server, weir
before(async () => {
  server = await serve({
    policies:
      'version: 1\npolicies: {first: {limit: 5 per 1h, by: who, algorithm: fixed_window, start: first}}\n',
    args: ['--trust-client-clock'],
  })
  weir = new Weir({ url: server.url, timeout: 10_000 })
})
after(() => server.stop())

async function listening(listener) {
  const own = http.createServer(listener).listen(0, '127.0.0.1')
  await once(own, 'listening')
  return {
    url: `http://127.0.0.1:${own.address().port}`,
    close: () => (own.closeAllConnections(), own.close()),
  }
}

const statuses = (answers) =>
  answers.reduce((counts, { status }) => ({ ...counts, [status]: (counts[status] ?? 0) + 1 }), {})

test('express-rate-limit: three instances share one limit', { skip }, async () => {
  const express = require('express')
  const { rateLimit } = require('express-rate-limit')
  const { WeirStore } = await stores('express_rate_limit')
  const instances = []
  for (let i = 0; i < 3; i++) {
    const app = express()
    app.use(
      rateLimit({
        windowMs: 3_600_000,
        limit: 5,
        store: new WeirStore({ weir, prefix: 'three:' }),
        keyGenerator: () => 'all',
        standardHeaders: 'draft-8',
      }),
    )
    app.get('/', (_, response) => response.send('hello'))
    instances.push(await listening(app))
  }
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => fetch(instances[i % 3].url)),
  )
  assert.deepEqual(statuses(answers), { 200: 5, 429: 55 })
  assert.ok(Number(answers.find((a) => a.status === 429).headers.get('retry-after')) > 3500)
  for (const own of instances) own.close()
})

test('express-rate-limit: what fails is given back, and no more than that', { skip }, async () => {
  const express = require('express')
  const { rateLimit } = require('express-rate-limit')
  const { WeirStore } = await stores('express_rate_limit')
  const app = express()
  let allowed = 0
  app.use(
    rateLimit({
      windowMs: 3_600_000,
      limit: 5,
      skipFailedRequests: true,
      store: new WeirStore({ weir, prefix: 'skip:' }),
      keyGenerator: () => 'all',
    }),
  )
  app.get('/', (_, response) => (allowed++, response.send('hello')))
  const own = await listening(app)
  for (let i = 0; i < 20; i++) await (await fetch(own.url)).text()
  assert.equal(allowed, 5)
  own.close()
})

test('express-rate-limit: get, decrement, resetKey, and a store that is away', async () => {
  const { WeirStore } = await stores('express_rate_limit')
  for (const policy of ['first', undefined]) await verbs(new WeirStore({ weir, prefix: 'verbs:', policy }))
  const closed = new WeirStore({ weir, prefix: 'closed:' })
  closed.init({ windowMs: 3_600_000, limit: 0 })
  for (const hits of [1, 2]) assert.equal((await closed.increment('a')).totalHits, hits)
  const away = new WeirStore({
    weir: new Weir({
      url: `http://127.0.0.1:${await freePort()}`,
      timeout: 10_000,
      on: { error() {} },
    }),
  })
  await assert.rejects(away.increment('a'), { code: 'unreachable' })
})

async function verbs(store) {
  store.init({ windowMs: 3_600_000, limit: 5 })
  assert.equal(await store.get('a'), undefined)
  const { totalHits, resetTime } = await store.increment('a')
  assert.equal(totalHits, 1)
  assert.ok(Math.abs(resetTime - Date.now() - 3_600_000) < 5_000)
  assert.equal((await store.increment('a')).totalHits, 2)
  await store.decrement('a')
  assert.equal((await store.get('a')).totalHits, 1)
  await store.decrement('a')
  assert.equal((await store.get('a')).totalHits, 0) // its window is still there
  await store.resetKey('a')
  assert.equal(await store.get('a'), undefined)
}

test('@fastify/rate-limit: routes have their own counters, and a ban', { skip }, async () => {
  const { store } = await stores('fastify_rate_limit')
  const app = require('fastify')()
  await app.register(require('@fastify/rate-limit'), {
    max: 2,
    timeWindow: 3_600_000,
    ban: 1,
    store: store({ weir }),
  })
  app.get('/', async () => 'hello')
  app.get(
    '/other',
    { config: { rateLimit: { max: 1, timeWindow: 3_600_000 } } },
    async () => 'hello',
  )
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const answers = []
  for (let i = 0; i < 4; i++) answers.push((await fetch(url)).status)
  assert.deepEqual(answers, [200, 200, 429, 403])
  assert.deepEqual(
    [(await fetch(`${url}/other`)).status, (await fetch(`${url}/other`)).status],
    [200, 429],
  )
  await app.close()
})

test(
  'hono-rate-limiter: its store, and a limiter in the place of its binding',
  { skip },
  async () => {
    const { Hono } = require('hono')
    const { rateLimiter } = require('hono-rate-limiter')
    const { WeirStore } = await stores('express_rate_limit')
    const app = new Hono()
    app.use(
      '/store',
      rateLimiter({
        windowMs: 3_600_000,
        limit: 2,
        keyGenerator: () => 'a',
        store: new WeirStore({ weir, prefix: 'hono:' }),
      }),
    )
    app.use(
      '/binding',
      rateLimiter({
        binding: weir.limit({ limit: 2, window: '1h', name: 'hono' }),
        keyGenerator: () => 'a',
      }),
    )
    app.get('*', (c) => c.text('hello'))
    for (const route of ['/store', '/binding']) {
      const answers = []
      for (let i = 0; i < 3; i++) answers.push((await app.request(route)).status)
      assert.deepEqual(answers, [200, 200, 429], route)
    }
  },
)

/** Asks at the time of `clock.now`. */
function timed(clock) {
  const at = (verb) => (limit, key, options) =>
    weir[verb](limit, key, { ...options, now: clock.now })
  return { check: at('check'), charge: at('charge'), refund: at('refund'), reset: at('reset') }
}

test('@nestjs/throttler: hits, a block as long as it says, and a new beginning', async () => {
  const { WeirStorage } = await stores('nestjs_throttler')
  for (const [window, block] of [
    [60_000, 5_000],
    [60_000, 600_000],
    [60_000, 0], // as long as the window
  ]) {
    const clock = { now: Date.now() }
    const storage = new WeirStorage({ weir: timed(clock), prefix: `nest${block}:` })
    const hit = () => storage.increment('a', window, 2, block, 'default')
    const seconds = (block || window) / 1000
    for (const hits of [1, 2]) {
      const { totalHits, isBlocked, timeToExpire, timeToBlockExpire } = await hit()
      assert.deepEqual([totalHits, isBlocked, timeToExpire, timeToBlockExpire], [hits, false, 60, 0])
    }
    for (const later of [0, seconds / 2]) {
      clock.now += later * 1000
      const { totalHits, isBlocked, timeToBlockExpire } = await hit()
      assert.deepEqual([totalHits, isBlocked, timeToBlockExpire], [3, true, Math.ceil(seconds - later)])
    }
    clock.now += seconds * 500
    const { totalHits, isBlocked } = await hit()
    assert.deepEqual([totalHits, isBlocked], [1, false])
  }
})

test('windows begin with the first hit', async () => {
  const { WeirStore } = await stores('express_rate_limit')
  const { WeirContext } = await stores('elysia_rate_limit')
  const clock = { now: Math.floor(Date.now() / 60_000) * 60_000 + 59_999 } // a ms before those of the clock end
  const store = new WeirStore({ weir: timed(clock), prefix: 'begin:' })
  const context = new WeirContext({ weir: timed(clock), prefix: 'begin2:' })
  store.init({ windowMs: 60_000, limit: 5 })
  context.init({ duration: 60_000, max: 5 })
  for (const hits of [1, 2]) {
    assert.equal((await store.increment('a')).totalHits, hits)
    assert.equal((await context.increment('a')).count, hits)
    clock.now += 59_999
  }
  assert.equal((await store.increment('a')).totalHits, 1)
  assert.equal((await context.increment('a')).count, 1)
})

test('elysia-rate-limit: its context', async () => {
  const { WeirContext } = await stores('elysia_rate_limit')
  const context = new WeirContext({ weir })
  context.init({ duration: 3_600_000, max: 3 })
  assert.equal((await context.increment('a')).count, 1)
  const { count, nextReset } = await context.increment('a')
  assert.ok(count === 2 && nextReset > new Date())
  await context.decrement('a')
  assert.equal((await context.increment('a')).count, 2)
  await context.reset('a')
  assert.equal((await context.increment('a')).count, 1)
})

test('better-auth: every request counts, in a window that begins with the first', async () => {
  const { storage } = await stores('better_auth')
  const clock = { now: Math.floor(Date.now() / 60_000) * 60_000 + 59_999 }
  const { consume } = storage({ weir: timed(clock) })
  const allowed = async () => (await consume('sign-in:b', { window: 60, max: 2 })).allowed
  assert.deepEqual([await allowed(), await allowed(), await allowed()], [true, true, false])
  clock.now += 30_000
  assert.deepEqual(await consume('sign-in:b', { window: 60, max: 2 }), { allowed: false, retryAfter: 30 })
  assert.equal(await consume('sign-in:b', { window: 60, max: 4 }).then((a) => a.allowed), false)
  clock.now += 30_000
  assert.deepEqual([await allowed(), await allowed(), await allowed()], [true, true, false])
})

test('better-auth: consume is atomic', async () => {
  const { storage } = await stores('better_auth')
  const { consume } = storage({ weir })
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => consume('sign-in:a', { window: 3600, max: 3 })),
  )
  assert.equal(answers.filter((a) => a.allowed && a.retryAfter === null).length, 3)
  assert.ok(
    answers.filter((a) => !a.allowed).every((a) => a.retryAfter > 3500 && a.retryAfter <= 3600),
  )
})

test('rate-limiter-flexible: the same numbers as its limiter in memory', { skip }, async () => {
  const { RateLimiterMemory } = require('rate-limiter-flexible')
  const { RateLimiterWeir } = await stores('rate_limiter_flexible')
  const options = { points: 3, duration: 3600 }
  const numbers = (result) =>
    result && [result.remainingPoints, result.consumedPoints, result.isFirstInDuration]
  const heard = []
  for (const limiter of [
    new RateLimiterMemory(options),
    new RateLimiterWeir({ ...options, weir, policy: undefined }),
  ]) {
    const list = []
    const note = (promise) =>
      promise.then(
        (r) => list.push(['ok', typeof r === 'boolean' ? r : numbers(r)]),
        (r) => list.push(['denied', numbers(r)]),
      )
    await note(limiter.get('a'))
    for (let i = 0; i < 4; i++) await note(limiter.consume('a'))
    await note(limiter.reward('a', 2))
    await note(limiter.penalty('a', 1))
    await note(limiter.delete('a'))
    await note(limiter.delete('a'))
    await note(limiter.consume('a', 5))
    heard.push(list)
  }
  assert.deepEqual(heard[1], heard[0])
})

test('rate-limiter-flexible: a block as long as it says, and a new beginning', async () => {
  const { RateLimiterWeir, RateLimiterRes } = await stores('rate_limiter_flexible')
  const clock = { now: Date.now() }
  const limiter = new RateLimiterWeir({
    weir: timed(clock),
    keyPrefix: 'blocks',
    points: 3,
    duration: 60,
    blockDuration: 600,
  })
  const denied = async (points, left) => {
    const result = await limiter.consume('a', points).then(assert.fail, (thrown) => thrown)
    assert.ok(result instanceof RateLimiterRes, result)
    assert.deepEqual([result.remainingPoints, result.msBeforeNext], [0, left])
    assert.ok(result.consumedPoints > 3)
  }
  assert.equal((await limiter.consume('a', 2)).remainingPoints, 1)
  assert.equal((await limiter.get('a')).consumedPoints, 2)
  await limiter.reward('a')
  await limiter.penalty('a')
  await denied(2, 600_000)
  clock.now += 60_000 // the window would be over
  await denied(1, 540_000)
  await limiter.reward('a', 3) // what was denied was not counted
  await denied(1, 540_000)
  clock.now += 540_000
  assert.equal((await limiter.consume('a')).remainingPoints, 2)
  await denied(3, 600_000)
  assert.equal(await limiter.delete('a'), true)
  assert.equal((await limiter.consume('a')).remainingPoints, 2)
})

test('@upstash/ratelimit: the shape, the algorithms, and waiting', async () => {
  const { Ratelimit } = await load('upstash.js')
  const fixed = new Ratelimit({
    weir,
    limiter: Ratelimit.fixedWindow(2, '1 h'),
    prefix: 'fixed',
    redis: {},
  })
  const first = await fixed.limit('a')
  assert.deepEqual([first.success, first.limit, first.remaining], [true, 2, 1])
  assert.ok(first.reset > Date.now() && first.pending instanceof Promise)
  assert.equal((await fixed.limit('a', { rate: 2 })).success, false)
  assert.equal((await fixed.limit('a')).success, true)
  assert.deepEqual((await fixed.getRemaining('a')).remaining, 0)
  const denials = [await fixed.limit('a'), await fixed.limit('a')]
  assert.deepEqual(
    denials.map(({ success, reason }) => [success, reason]),
    [
      [false, undefined],
      [false, 'cacheBlock'],
    ],
  )
  assert.equal(first.reset % 3_600_000, 0) // the end of an hour
  assert.equal((await fixed.getRemaining('a')).reset % 3_600_000, 0)
  for (const [rate, remaining] of [
    [-1, 1],
    [-5, 2], // no more than was counted
    [1, 1],
  ]) {
    const given = await fixed.limit('a', { rate })
    assert.deepEqual([given.success, given.remaining], [true, remaining])
  }
  await fixed.resetUsedTokens('a')
  assert.equal((await fixed.getRemaining('a')).remaining, 2)
  for (const limiter of [Ratelimit.slidingWindow(3, '10 s'), Ratelimit.tokenBucket(3, '1 d', 3)]) {
    const own = new Ratelimit({ weir, limiter, prefix: limiter.algorithm })
    const answers = await Promise.all(Array.from({ length: 10 }, () => own.limit('b')))
    assert.equal(answers.filter((a) => a.success).length, 3)
  }
  const bucket = new Ratelimit({ weir, limiter: Ratelimit.tokenBucket(10, '1 s', 1) })
  await bucket.limit('c')
  assert.equal((await bucket.blockUntilReady('c', 20_000)).success, true)
  assert.equal(
    (
      await new Ratelimit({ weir, limiter: Ratelimit.fixedWindow(0, '1 h') }).blockUntilReady(
        'd',
        20,
      )
    ).success,
    false,
  )
  const silent = http.createServer(() => {}).listen(0, '127.0.0.1')
  await until(() => silent.listening)
  const hung = new Weir({
    url: `http://127.0.0.1:${silent.address().port}`,
    onError: 'allow',
    on: { error() {} },
  })
  const late = await new Ratelimit({
    weir: hung,
    limiter: Ratelimit.fixedWindow(1, '1 h'),
    timeout: 50,
  }).limit('e')
  assert.deepEqual([late.success, late.reason], [true, 'timeout'])
  silent.closeAllConnections()
  silent.close()
})
