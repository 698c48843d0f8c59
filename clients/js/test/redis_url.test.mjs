/* redis_url.test.mjs - limiters that keep their counters in Redis, on weir instead: the same
 * operations on a real Redis and on a real weir server, and the answers must be the same. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { recognised, scriptsIn, sha1 } from '../../../scripts/known_scripts.mjs'
import { freePort, scratch, serve, until } from './support.mjs'

const { REDIS_URL, REDIS_PEERS, WHY_NO_REDIS_PEERS, STORES = '' } = process.env
const SCALE = Number(process.env.WEIR_TEST_SCALE ?? 100) / 100
const skip =
  REDIS_PEERS && REDIS_URL
    ? Number(process.versions.node.split('.')[0]) < 20
      ? 'these packages need Node.js 20'
      : false
    : (WHY_NO_REDIS_PEERS ?? 'no Redis')
const require = REDIS_PEERS && createRequire(pathToFileURL(path.join(REDIS_PEERS, 'x')))
/* Each script comes from one of them. */
const PACKAGES = [
  'rate-limiter-flexible',
  'rate-limit-redis',
  'rate-limit-redis-4-1',
  'rate-limit-redis-4-2',
  'rate-limit-redis-5',
  '@fastify/rate-limit',
  'fastify-rate-limit-9',
  'fastify-rate-limit-10-1',
  'fastify-rate-limit-10-2',
  'hono-rate-limiter',
  '@nest-lab/throttler-storage-redis',
  'nestjs-throttler-storage-redis',
]
const LONG = 600_000

let server
const opened = []
const started = []
async function start(options) {
  started.push(await serve(options))
  return started.at(-1)
}
before(async () => {
  if (!skip) server = await start({ threads: 2 })
})
after(async () => {
  for (const client of opened) client.disconnect?.() ?? client.destroy?.()
  for (const one of started) await one.kill()
})

const urls = (port = server.port) => [REDIS_URL, `redis://127.0.0.1:${port}`]

function byIoredis(port) {
  const { Redis } = require('ioredis')
  const clients = urls(port).map((url) => new Redis(url, { maxRetriesPerRequest: 1 }))
  opened.push(...clients)
  return clients
}

async function byNodeRedis() {
  const { createClient } = require('redis')
  const clients = urls().map((url) => createClient({ url }))
  for (const client of clients) {
    opened.push(client)
    await client.connect()
  }
  return clients
}

/* ---- chance ---------------------------------------------------------------------------------- */

const seed = Number(process.env.SEED ?? Date.now() % 1e9)
let state = seed
function random(n) {
  state = (state * 1103515245 + 12345) % 2147483648
  return Math.floor((state / 2147483648) * n)
}
const one = (list) => list[random(list.length)]

/* ---- the same on both ------------------------------------------------------------------------ */

/** A number that is a time differs by how far apart both were asked, now and when it was set. */
class Pair {
  #apart = new Map()

  constructor(sides) {
    this.sides = sides
  }

  async same(what, key, ask, isTime = () => false) {
    const began = performance.now()
    const [redis, weir] = await Promise.all(
      this.sides.map((side) => Promise.resolve(ask(side)).catch((e) => e)),
    )
    const apart = Math.max(this.#apart.get(key) ?? 0, performance.now() - began)
    this.#apart.set(key, apart)
    const near = (a, b, at) =>
      isTime(at, a) && typeof a === 'number' && a > 0 && Math.abs(a - b) <= 2 * apart + 3
    const compare = (a, b, at) => {
      if (a && typeof a === 'object' && !(a instanceof Date)) {
        for (const name of Object.keys(a)) compare(a[name], b?.[name], name)
        assert.deepEqual(Object.keys(b ?? {}), Object.keys(a), `${what}, seed ${seed}`)
      } else if (!near(Number(a), Number(b), at)) {
        const told = `${what}: ${JSON.stringify(redis)} ${JSON.stringify(weir)}, seed ${seed}`
        assert.deepEqual(b, a, told)
      }
    }
    if (redis instanceof Error) throw new Error(`${what} fails in Redis itself: ${redis.message}`)
    if (weir instanceof Error) throw new Error(`${what}: ${weir.message}, seed ${seed}`)
    compare(redis, weir, '')
    return weir
  }
}

/* ---- scripts --------------------------------------------------------------------------------- */

/* Of each kind: its keys and arguments by chance, and which places of the answer are times. */
const WINDOWS = ['600000', '900001', '1234567']
const KINDS = {
  ADD: [1, () => [String(1 + random(9)), one(['600', '900'])], [1]],
  COUNT: [1, () => [one(WINDOWS)], [1]],
  COUNT_LATER: [1, () => [one(['0', '1']), one(WINDOWS)], [1]],
  READ: [1, () => [], [1]],
  READ_NUMBERS: [1, () => [], [1]],
  TAKE_BACK: [1, () => [], []],
  OVER: [1, () => [one(WINDOWS), String(1 + random(4)), one(['true', 'false'])], [1]],
  BAN: [1, () => [one(WINDOWS), String(1 + random(4)), one(['-1', '0', '3']), one(['true', 'false'])], [1]],
  BACKOFF: [
    1,
    () => [one(WINDOWS), String(1 + random(4)), one(['true', 'false']), one(['true', 'false'])],
    [1],
  ],
  BLOCK: [2, () => ['default', one(WINDOWS), String(1 + random(5)), one(WINDOWS)], [1, 3]],
}

/* Of those whose packages send DECR, too. */
const DECREASED = ['COUNT', 'COUNT_LATER', 'READ']

test('every script that is recognised is in a package, and every package has none but these', { skip }, () => {
  const found = new Set(
    PACKAGES.flatMap((name) => scriptsIn(path.join(REDIS_PEERS, name)).map(sha1)),
  )
  assert.deepEqual([...found].sort(), [...recognised().keys()].sort())
})

/* The script on keys of its own, between the commands that its package sends. */
async function playScript(clients, text, kind, count, prefix) {
  const hash = sha1(text)
  const [keys, chance, times] = KINDS[kind]
  const pair = new Pair(clients)
  assert.equal(await clients[1].script('LOAD', text), hash)
  assert.deepEqual(await clients[1].script('EXISTS', hash, 'f'.repeat(40)), [1, 0])
  for (let n = 0; n < count; n++) {
    const key = `${prefix}${hash}:${random(4)}`
    const words = [keys, key, ...(keys > 1 ? [`${key}:blocked`] : []), ...chance()]
    const by = one(['eval', 'evalsha', 'evalsha', 'get', 'pttl', 'del', 'decr'])
    const what = `${kind} by ${by} with ${words}`
    const isTime = (at) => by === 'pttl' || times.includes(Number(at))
    /* Redis goes below 0, where weir stops. */
    const skips = by === 'decr' && (!DECREASED.includes(kind) || !(Number(await clients[0].get(key)) > 0))
    if (skips || (by === 'del' && random(4) > 0)) continue
    await pair.same(
      what,
      key,
      (c) =>
        by === 'eval'
          ? c.eval(text, ...words)
          : by === 'evalsha'
            ? c.evalsha(hash, ...words).catch((error) => reload(c, error, text, words))
            : by === 'del'
              ? c.del(key, ...words.slice(2, keys + 1))
              : c[by](key),
      isTime,
    )
  }
}

for (const store of STORES.split(' '))
  test(`each script answers what it answers in Redis: ${store.split(':')[0]}`, { skip }, async () => {
    const known = recognised()
    const own = await start({ store, threads: 2 })
    const clients = byIoredis(own.port)
    const texts = new Set(PACKAGES.flatMap((name) => scriptsIn(path.join(REDIS_PEERS, name))))
    try {
      for (const text of texts)
        await playScript(clients, text, known.get(sha1(text)), (store === 'memory:' ? 120 : 40) * SCALE, store)
    } finally {
      for (const client of clients) client.disconnect()
      await own.stop()
    }
  })

function reload(client, error, text, words) {
  if (!error.message.startsWith('NOSCRIPT')) throw error
  return client.eval(text, ...words)
}

test('a counter ends when it does in Redis, and the next begins anew', { skip }, async () => {
  const [redis, weir] = byIoredis()
  const [, text] = scriptsIn(path.join(REDIS_PEERS, 'rate-limiter-flexible')).map((t) => [sha1(t), t])[0]
  for (const client of [redis, weir]) {
    // In Redis itself a millisecond may pass within the script.
    const counted = async (points, seconds) => {
      const [used, left] = await client.eval(text, 1, 'short', points, seconds)
      const early = seconds * 1000 - left
      return [used, client === redis && early > 0 && early < 1000 ? seconds * 1000 : left]
    }
    assert.deepEqual(await counted(3, 1), [3, 1000])
    await until(async () => (await client.pttl('short')) === -2)
    assert.equal(await client.get('short'), null)
    assert.deepEqual(await counted(1, 600), [1, 600_000])
  }
})

test('counters are there after the server was killed', { skip }, async () => {
  const [text] = scriptsIn(path.join(REDIS_PEERS, 'rate-limiter-flexible'))
  const folder = `file:${scratch('killed')}`
  let own = await start({ store: folder })
  for (let hits = 1; hits < 4; hits++) {
    const [, weir] = byIoredis(own.port)
    const [value, left] = await weir.eval(text, 1, 'kept', 1, 600)
    assert.equal(value, hits)
    assert.ok(hits === 1 ? left === 600_000 : left < 600_000, String(left))
    weir.disconnect()
    await own.kill()
    own = await start({ store: folder })
  }
  await own.stop()
})

test('while the store is away, this process counts', { skip }, async () => {
  const store = `redis://127.0.0.1:${await freePort()}?deadline=200ms`
  const own = await start({ store, policies: 'version: 1\nfallback: {instances: 3}\npolicies: {}\n' })
  const [, weir] = byIoredis(own.port)
  const [text] = scriptsIn(path.join(REDIS_PEERS, 'rate-limiter-flexible'))
  assert.deepEqual(await weir.eval(text, 1, 'away', 2, 600), [2, 600_000])
  assert.equal((await weir.eval(text, 1, 'away', 2, 600))[0], 4)
  assert.equal(await weir.decr('away'), 3)
  assert.equal(await weir.get('away'), '3')
  weir.disconnect()
  await own.stop()
})

test('a token needs the scope reset to forget a key', { skip }, async () => {
  const token = 'a-token-of-this-test'
  writeFileSync(scratch('token'), token, { mode: 0o600 })
  for (const [scopes, may] of [
    ['check', false],
    ['check,reset', true],
  ]) {
    const own = await start({ args: ['--token-file', `${scopes}:${scratch('token')}`] })
    const { Redis } = require('ioredis')
    const { RateLimiterRedis } = require('rate-limiter-flexible')
    const storeClient = new Redis(`redis://:${token}@127.0.0.1:${own.port}`)
    const limiter = new RateLimiterRedis({ storeClient, points: 5, duration: 600 })
    assert.equal((await limiter.consume('ann')).consumedPoints, 1)
    if (may) assert.equal(await limiter.delete('ann'), true)
    else await assert.rejects(limiter.delete('ann'), /NOPERM .* it needs the scope admin or reset/)
    assert.equal((await limiter.get('ann'))?.consumedPoints, may ? undefined : 1)
    storeClient.disconnect()
    await own.stop()
  }
})

test('any other script is refused, with what is understood', { skip }, async () => {
  const [, weir] = byIoredis()
  const refused = /does not run scripts.*rate-limiter-flexible.*hono-rate-limiter.*nest/
  await assert.rejects(weir.eval('return 1', 0), refused)
  await assert.rejects(weir.script('LOAD', 'return 1'), refused)
  await assert.rejects(weir.evalsha('f'.repeat(40), 0), /^ReplyError: NOSCRIPT/)
  await assert.rejects(weir.eval('-'.repeat(16 * 1024 + 1), 0), /too long: at most 16384 bytes/)
})

/* ---- packages -------------------------------------------------------------------------------- */

/* A limiter of the package on each side, operations by chance, and where the answers have times. */
async function play(sides, count, step) {
  const pair = new Pair(sides)
  for (let n = 0; n < count * SCALE; n++) await step(pair, `${one('abc')}${sides.tag ?? ''}`, n)
}

for (const [client, connect] of [
  ['ioredis', byIoredis],
  ['node-redis', byNodeRedis],
]) {
  test(`rate-limiter-flexible with ${client}`, { skip }, async () => {
    const { RateLimiterRedis } = require('rate-limiter-flexible')
    const clients = await connect()
    for (const duration of [600, 0]) {
      const sides = clients.map(
        (storeClient) =>
          new RateLimiterRedis({
            storeClient,
            useRedisPackage: client === 'node-redis',
            points: 5,
            duration,
            blockDuration: duration && 900,
            keyPrefix: `${client}${duration}`,
          }),
      )
      const isTime = (at) => at === 'msBeforeNext' || at === '_msBeforeNext'
      await play(sides, 150, async (pair, key) => {
        const points = 1 + random(3)
        const by = one(['consume', 'consume', 'penalty', 'reward', 'get', 'delete', 'block', 'set'])
        const used = (await sides[0].get(key))?.consumedPoints ?? 0
        if (by === 'reward' && used < points) return /* below 0 in Redis alone */
        await pair.same(
          `${by} ${key} ${points}`,
          key,
          (limiter) =>
            by === 'get' || by === 'delete'
              ? limiter[by](key)
              : by === 'block'
                ? limiter.block(key, 700)
                : by === 'set'
                  ? limiter.set(key, points, duration)
                  : limiter[by](key, points).catch((e) => (e instanceof Error ? Promise.reject(e) : e)),
          isTime,
        )
      })
    }
  })

  for (const name of ['rate-limit-redis', 'rate-limit-redis-5', 'rate-limit-redis-4-2', 'rate-limit-redis-4-1'])
    test(`${name} with ${client}`, { skip }, async () => {
      const { RedisStore } = require(name)
      const clients = await connect()
      for (const resetExpiryOnChange of name === 'rate-limit-redis' ? [undefined] : [false, true]) {
        const sides = clients.map(
          (c) =>
            new RedisStore({
              sendCommand: (...words) => (client === 'ioredis' ? c.call(...words) : c.sendCommand(words)),
              prefix: `${name}${client}${resetExpiryOnChange}:`,
              ...(resetExpiryOnChange !== undefined && { resetExpiryOnChange }),
            }),
        )
        for (const side of sides) await side.init({ windowMs: LONG })
        await play(sides, 60, async (pair, key) => {
          const by = one(['increment', 'increment', 'increment', 'get', 'decrement', 'resetKey'])
          const hits = (await sides[0].get(key))?.totalHits
          if (by === 'decrement' && !(hits > 0)) return
          /* Of a key that is not there, the time is 2 ms ago. */
          await pair.same(`${by} ${key}`, key, (store) => store[by](key), (at) => at === 'resetTime')
        })
      }
    })
}

test('the store of @fastify/rate-limit', { skip }, async () => {
  const RedisStore = require('@fastify/rate-limit/store/RedisStore')
  for (const [later, backoff] of [
    [false, false],
    [true, false],
    [false, true],
  ]) {
    const sides = byIoredis().map((c) => new RedisStore(later, backoff, c, `f${later}${backoff}-`))
    await play(sides, 80, (pair, key) => {
      const by = one(['incr', 'incr', 'read'])
      const ask = (store) =>
        new Promise((resolve, reject) =>
          store[by](key, (error, result) => (error ? reject(error) : resolve(result)), LONG, 3),
        )
      return pair.same(`${by} ${key}`, key, ask, (at) => at === 'ttl')
    })
  }
})

/* They sleep, and compare seconds: only on a machine that has nothing else to do. */
const unlessAsked = skip || (process.env.SUITES ? false : './dev peers runs it')
test('the tests of @fastify/rate-limit with Redis pass, unchanged', { skip: unlessAsked }, async () => {
  const suite = path.join(REDIS_PEERS, '@fastify/rate-limit/test/redis-rate-limit.test.js')
  const own = await start()
  const node = spawn(
    process.execPath,
    ['--require', new URL('redis_url/weir_for_redis.cjs', import.meta.url).pathname, '--test-reporter=tap', suite],
    { env: { ...process.env, NODE_TEST_CONTEXT: '', WEIR_PORT: String(own.port) } },
  )
  let said = ''
  for await (const piece of node.stdout) said += piece
  await own.stop()
  assert.match(said, /^# pass 16$/m, said)
  assert.match(said, /^# fail 0$/m, said)
})

test('the store of hono-rate-limiter', { skip }, async () => {
  const { RedisStore } = require('hono-rate-limiter')
  for (const resetExpiryOnChange of [false, true]) {
    const sides = (await byNodeRedis()).map(
      (c) =>
        new RedisStore({
          client: {
            scriptLoad: (text) => c.scriptLoad(text),
            evalsha: (hash, keys, args) => c.evalSha(hash, { keys, arguments: args.map(String) }),
            decr: (key) => c.decr(key),
            del: (key) => c.del(key),
          },
          prefix: `h${resetExpiryOnChange}:`,
          resetExpiryOnChange,
        }),
    )
    for (const side of sides) side.init({ windowMs: LONG })
    await play(sides, 60, (pair, key) => {
      const by = one(['increment', 'increment', 'get', 'decrement', 'resetKey'])
      return pair.same(`${by} ${key}`, key, (store) => store[by](key), (at) => at === 'resetTime')
    })
  }
})

test('the storage of @nestjs/throttler', { skip }, async () => {
  require('reflect-metadata')
  const { ThrottlerStorageRedisService } = require('@nest-lab/throttler-storage-redis')
  const sides = byIoredis().map((c) => new ThrottlerStorageRedisService(c))
  await play(sides, 80, (pair, key) =>
    pair.same(
      key,
      key,
      (storage) => storage.increment(key, LONG, 3, 1_200_000, 'default'),
      (at, s) => /^timeTo/.test(at) && s > 0,
    ),
  )
  /* A block that is over: the hits are still there, so the next begins another. */
  const [redis, weir] = sides
  for (const side of [redis, weir]) {
    let last
    for (let n = 0; n < 3; n++) last = await side.increment('short', LONG, 2, 100, 'default')
    assert.deepEqual([last.totalHits, last.isBlocked], [3, true])
    await until(async () => (await side.redis.pttl('{short:default}:blocked')) === -2)
    last = await side.increment('short', LONG, 2, 900_000, 'default')
    assert.deepEqual([last.totalHits, last.isBlocked, last.timeToBlockExpire], [4, true, 900])
  }
})
