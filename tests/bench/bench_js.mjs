/* bench_js.mjs - how many checks a second one process makes, and how long one takes. See bench_js.py. */
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const { PACKAGE, PEERS, REDIS_PORT, ROUNDS, SECONDS, WEIR_PORT } = process.env
const peer = createRequire(pathToFileURL(path.join(PEERS, 'x')))
const own = (file) => import(pathToFileURL(path.join(PACKAGE, file)))
const { Weir } = await own('index.js')
const { socket } = await own('socket.js')
const { RateLimiterRedis } = peer('rate-limiter-flexible')
const { RedisStore } = peer('rate-limit-redis')
const { Ratelimit } = peer('@upstash/ratelimit')
const Redis = peer('ioredis')
const { createClient } = peer('redis')

const LIMIT = { limit: 1e6, window: '1h', algorithm: 'fixed_window' }
const SLIDING = { limit: 1e6, window: '1h', algorithm: 'sliding_counter' }
const KEYS = 100_000
const IN_FLIGHT = [1, 16, 128, 256]
const url = `http://127.0.0.1:${WEIR_PORT}`
const options = { timeout: 60_000, onError: 'deny' }

const ioredis = new Redis(Number(REDIS_PORT))
const nodeRedis = await createClient({ url: `redis://127.0.0.1:${REDIS_PORT}` }).connect()
/* The same limiters on weir, which recognises their scripts. */
const ioredisOnWeir = new Redis(Number(WEIR_PORT))
const nodeRedisOnWeir = await createClient({ url: `redis://127.0.0.1:${WEIR_PORT}` }).connect()

const flexible = (storeClient, keyPrefix, more) => {
  const limiter = new RateLimiterRedis({ points: 1e6, duration: 3600, storeClient, keyPrefix, ...more })
  return (key) => limiter.consume(key)
}

/** What express-rate-limit asks its store for each request. */
const express = (prefix, sendCommand) => {
  const store = new RedisStore({ prefix, sendCommand })
  store.init({ windowMs: 3_600_000 })
  return (key) => store.increment(key)
}

/** Its scripts name a flag that only Upstash's own servers know: without that line they run on Redis. */
const upstash = () => {
  const loaded = new Map()
  const redis = {
    async evalsha(hash, keys, args) {
      if (!loaded.has(hash)) throw new Error('NOSCRIPT')
      return nodeRedis.evalSha(loaded.get(hash), { keys, arguments: args.map(String) })
    },
    async eval(script, keys, args) {
      const hash = createHash('sha1').update(script).digest('hex')
      loaded.set(hash, await nodeRedis.scriptLoad(script.replace(/^\s*#!.*\n/, '')))
      return this.evalsha(hash, keys, args)
    },
  }
  const limiter = new Ratelimit({
    redis, limiter: Ratelimit.slidingWindow(1e6, '1 h'), ephemeralCache: false, prefix: 'u',
  })
  return async (key) => {
    if (!(await limiter.limit(key)).success) throw new Error('denied')
  }
}

const kept = new Weir({ transport: socket({ url: `weir://127.0.0.1:${WEIR_PORT}` }), ...options })
const check = (weir, limit = LIMIT) => async (key) => {
  const { source, error } = await weir.check(limit, key)
  if (source !== 'store') throw error
}

const BASE = 'rate-limiter-flexible, ioredis'
const WAYS = {
  [BASE]: flexible(ioredis, 'a'),
  'rate-limiter-flexible, node-redis': flexible(nodeRedis, 'b', { useRedisPackage: true }),
  'express-rate-limit, ioredis': express('c', (...words) => ioredis.call(...words)),
  'express-rate-limit, node-redis': express('d', (...words) => nodeRedis.sendCommand(words)),
  'rate-limiter-flexible, ioredis, on weir': flexible(ioredisOnWeir, 'a'),
  'rate-limiter-flexible, node-redis, on weir': flexible(nodeRedisOnWeir, 'b', { useRedisPackage: true }),
  'express-rate-limit, ioredis, on weir': express('c', (...words) => ioredisOnWeir.call(...words)),
  'express-rate-limit, node-redis, on weir': express('d', (...words) => nodeRedisOnWeir.sendCommand(words)),
  '@upstash/ratelimit, node-redis': upstash(),
  'weir by fetch, one check a request': check(new Weir({ url, batch: false, ...options })),
  'weir by fetch': check(new Weir({ url, ...options })),
  'weir by a socket': check(kept),
  'weir by a socket, sliding': check(kept, SLIDING),
}

/** Callers that each ask again when they have an answer: a second's checks, and the time of each. */
async function measure(ask, callers, seconds) {
  const times = []
  const start = performance.now()
  const end = start + seconds * 1000
  let n = 0
  await Promise.all(Array.from({ length: callers }, async () => {
    for (let begin = performance.now(); begin < end; ) {
      await ask(`k${n++ % KEYS}`)
      const now = performance.now()
      times.push(now - begin)
      begin = now
    }
  }))
  return { rate: (times.length * 1000) / (performance.now() - start), times }
}

const middle = (numbers, part = 0.5) =>
  numbers.sort((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(numbers.length * part))]

/* Ways in turn, in each round: what else the machine does falls on all of them. */
const results = {}
for (let round = -1; round < Number(ROUNDS); round++)
  for (const callers of IN_FLIGHT)
    for (const [name, ask] of Object.entries(WAYS)) {
      const found = await measure(ask, callers, Number(SECONDS))
      if (round < 0) continue // what is compiled first is slow
      const cell = ((results[name] ??= {})[callers] ??= { rates: [], times: [] })
      cell.rates.push(found.rate)
      for (const time of found.times) cell.times.push(time)
    }

console.log(`checks a second from one process (the middle of ${ROUNDS} rounds), and p50/p99 in ms; Node.js ${process.version}`)
console.log(['in flight'.padEnd(44), ...IN_FLIGHT.map((n) => `${n}`.padStart(22))].join(''))
for (const [name, cells] of Object.entries(results)) {
  const row = IN_FLIGHT.map((callers) => {
    const { rates, times } = cells[callers]
    return `${Math.round(middle([...rates]))}  ${middle(times).toFixed(2)}/${middle(times, 0.99).toFixed(2)}`.padStart(22)
  })
  console.log(name.padEnd(44) + row.join(''))
}
console.log(`times ${BASE}, in the same round`)
for (const [name, cells] of Object.entries(results)) {
  if (name === BASE) continue
  const row = IN_FLIGHT.map((callers) => {
    const ratios = cells[callers].rates.map((rate, i) => rate / results[BASE][callers].rates[i])
    return middle(ratios).toFixed(2).padStart(22)
  })
  console.log(name.padEnd(44) + row.join(''))
}
kept.close()
ioredis.disconnect()
nodeRedis.destroy()
ioredisOnWeir.disconnect()
nodeRedisOnWeir.destroy()
