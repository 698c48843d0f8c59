/* bench_js.mjs - how many checks a second one process makes, and how long one takes. See bench_js.py. */
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const { ONLY, PACKAGE, PEERS, REDIS_PORT, ROUNDS, SECONDS, WEIR_PORT } = process.env
const peer = createRequire(pathToFileURL(path.join(PEERS, 'x')))
const own = (file) => import(pathToFileURL(path.join(PACKAGE, file)))
const { Weir: Core } = await own('index.js')
const { Weir } = await own('node.js') // what Node.js finds under weir-client
const { socket } = await own('socket.js')
const { RateLimiterRedis } = peer('rate-limiter-flexible')
const { RedisStore } = peer('rate-limit-redis')
const { Ratelimit } = peer('@upstash/ratelimit')
const Redis = peer('ioredis')
const { createClient } = peer('redis')

const LIMIT = { limit: 1e6, window: '1h', algorithm: 'fixed_window' }
const KEYS = 100_000
const IN_FLIGHT = process.env.IN_FLIGHT.split(',').map(Number)
const WARM_UP = 3 // rounds: what is compiled first is slow
const MOST_TIMES = 2000 // that are kept of a slice
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
const check = (weir, policy = 'fixed') => (key) => weir.check(policy, key)

const onWeir = (name) => `${name}, on weir`
const PEERS_OF = {
  'rate-limiter-flexible, ioredis': [flexible(ioredis, 'a'), flexible(ioredisOnWeir, 'a')],
  'rate-limiter-flexible, node-redis': [
    flexible(nodeRedis, 'b', { useRedisPackage: true }),
    flexible(nodeRedisOnWeir, 'b', { useRedisPackage: true }),
  ],
  'express-rate-limit, ioredis': [
    express('c', (...words) => ioredis.call(...words)),
    express('c', (...words) => ioredisOnWeir.call(...words)),
  ],
  'express-rate-limit, node-redis': [
    express('d', (...words) => nodeRedis.sendCommand(words)),
    express('d', (...words) => nodeRedisOnWeir.sendCommand(words)),
  ],
  '@upstash/ratelimit, node-redis': [upstash()],
}
const WAYS = {}
for (const [name, [onRedis, recognised]] of Object.entries(PEERS_OF)) {
  WAYS[name] = onRedis
  if (recognised) WAYS[onWeir(name)] = recognised
}
Object.assign(WAYS, {
  // By another name, so that the other one does not have to choose among all the connections of this one.
  'weir by fetch, one check a request': check(
    new Weir({ url: url.replace('127.0.0.1', 'localhost'), batch: false, ...options }),
  ),
  'weir by fetch': check(new Weir({ url, ...options })),
  'weir by fetch of Node.js itself': check(new Core({ url, ...options })),
  'weir by a socket': check(kept),
  'weir by a socket, sliding': check(kept, 'sliding'),
  'weir by a socket, the limit in the request': check(kept, LIMIT),
})

const only = JSON.parse(ONLY)
for (const name in WAYS) if (only[0] && !only.includes(name)) delete WAYS[name]

const times = new Float64Array(1 << 20)
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Callers that each ask again when they have an answer: a second's checks, and the time of some. */
async function measure(ask, callers, seconds) {
  const start = performance.now()
  const end = start + seconds * 1000
  const before = process.cpuUsage()
  let n = 0
  let done = 0
  await Promise.all(Array.from({ length: callers }, async () => {
    for (let begin = performance.now(); begin < end; ) {
      const answer = await ask(`k${n++ % KEYS}`)
      if (answer?.source === 'fallback') throw answer.error
      const now = performance.now()
      times[done++ % times.length] = now - begin
      begin = now
    }
  }))
  const rate = (done * 1000) / (performance.now() - start)
  const { user, system } = process.cpuUsage(before)
  const step = Math.ceil(done / MOST_TIMES)
  // Linux keeps a twentieth of each second from processes that come before all others.
  await sleep(seconds * 250)
  return { rate, cpu: (user + system) / done, times: Array.from({ length: Math.floor(done / step) }, (_, i) => times[i * step]) }
}

const middle = (numbers, part = 0.5) =>
  numbers.sort((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(numbers.length * part))]

/* Ways in turn, in each round, every second one backwards: what else the machine does falls on all
 * of them. */
const results = {}
for (let round = -WARM_UP; round < Number(ROUNDS); round++)
  for (const callers of IN_FLIGHT) {
    const ways = Object.entries(WAYS)
    for (const [name, ask] of round % 2 ? ways.reverse() : ways) {
      const found = await measure(ask, callers, Number(SECONDS))
      if (round < 0) continue
      const cell = ((results[name] ??= {})[callers] ??= { rates: [], cpu: [], times: [] })
      cell.rates.push(found.rate)
      cell.cpu.push(found.cpu)
      cell.times.push(...found.times)
    }
  }

const print = (name, cells) =>
  console.log(name.padEnd(44) + cells.map((cell) => `${cell}`.padStart(22)).join(''))
console.log(`checks a second from one process (the middle of ${ROUNDS} rounds), and p50/p99 in ms; Node.js ${process.version}`)
print('in flight', IN_FLIGHT)
for (const name in WAYS)
  print(name, IN_FLIGHT.map((callers) => {
    const { rates, times } = results[name][callers]
    return `${Math.round(middle([...rates]))}  ${middle(times).toFixed(2)}/${middle(times, 0.99).toFixed(2)}`
  }))

console.log('processor time of this process for a check, in us')
for (const name in WAYS)
  print(name, IN_FLIGHT.map((callers) => middle([...results[name][callers].cpu]).toFixed(1)))

/** The middle of the rounds' ratios. */
const ratio = (name, peer) => IN_FLIGHT.map((callers) =>
  middle(results[name][callers].rates.map((rate, i) => rate / results[peer][callers].rates[i])).toFixed(2))
const peers = Object.keys(PEERS_OF).filter((peer) => peer in WAYS)
for (const name of ['weir by fetch', 'weir by fetch of Node.js itself', 'weir by a socket']) {
  if (!(name in WAYS)) continue
  console.log(`${name}, times`)
  for (const peer of peers) print(peer, ratio(name, peer))
}
console.log('on weir, which recognises the scripts, times on Redis')
for (const peer of peers) if (WAYS[onWeir(peer)]) print(peer, ratio(onWeir(peer), peer))
kept.close()
ioredis.disconnect()
nodeRedis.destroy()
ioredisOnWeir.disconnect()
nodeRedisOnWeir.destroy()
