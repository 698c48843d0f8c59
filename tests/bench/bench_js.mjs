/* bench_js.mjs - how many checks a second one process makes, and how long one takes. See bench_js.py. */
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const { PACKAGE, PEERS, REDIS_CLIENTS, REDIS_PORT, SECONDS, WEIR_PORT } = process.env
const from = (folder) => createRequire(pathToFileURL(path.join(folder, 'x')))
const own = (file) => import(pathToFileURL(path.join(PACKAGE, file)))
const { Weir } = await own('index.js')
const { socket } = await own('socket.js')
const { RateLimiterRedis } = from(PEERS)('rate-limiter-flexible')
const Redis = from(REDIS_CLIENTS)('ioredis')
const { createClient } = from(REDIS_CLIENTS)('redis')

const LIMIT = { limit: 1e6, window: '1h', algorithm: 'fixed_window' }
const KEYS = 100_000
const IN_FLIGHT = [1, 16, 128, 256]
const url = `http://127.0.0.1:${WEIR_PORT}`
const options = { timeout: 60_000, onError: 'deny' }

const ioredis = new Redis(Number(REDIS_PORT))
const nodeRedis = await createClient({ url: `redis://127.0.0.1:${REDIS_PORT}` }).connect()
const flexible = { points: 1e6, duration: 3600 }
const byIoredis = new RateLimiterRedis({ ...flexible, storeClient: ioredis, keyPrefix: 'a' })
const byNodeRedis = new RateLimiterRedis({
  ...flexible, storeClient: nodeRedis, useRedisPackage: true, keyPrefix: 'b',
})
const alone = new Weir({ url, batch: false, ...options })
const batched = new Weir({ url, ...options })
const kept = new Weir({ transport: socket({ url: `weir://127.0.0.1:${WEIR_PORT}` }), ...options })
const check = (weir) => async (key) => {
  const { source, error } = await weir.check(LIMIT, key)
  if (source !== 'store') throw error
}

const WAYS = {
  'rate-limiter-flexible, ioredis': (key) => byIoredis.consume(key),
  'rate-limiter-flexible, node-redis': (key) => byNodeRedis.consume(key),
  'weir by fetch, one check a request': check(alone),
  'weir by fetch': check(batched),
  'weir by a socket': check(kept),
}

/** Callers that each ask again when they have an answer. */
async function measure(ask, callers, seconds) {
  const times = []
  const end = performance.now() + seconds * 1000
  let n = 0
  await Promise.all(Array.from({ length: callers }, async () => {
    for (let begin = performance.now(); begin < end; ) {
      await ask(`k${n++ % KEYS}`)
      const now = performance.now()
      times.push(now - begin)
      begin = now
    }
  }))
  times.sort((a, b) => a - b)
  return { rate: times.length / seconds, p50: times[times.length >> 1], p99: times[Math.floor(times.length * 0.99)] }
}

console.log(`checks a second from one process, and p50/p99 in ms; Node.js ${process.version}`)
console.log(['in flight'.padEnd(36), ...IN_FLIGHT.map((n) => `${n}`.padStart(22))].join(''))
const rates = {}
for (const [name, ask] of Object.entries(WAYS)) {
  const cells = []
  for (const callers of IN_FLIGHT) {
    await measure(ask, callers, Number(SECONDS) / 4)
    const { rate, p50, p99 } = await measure(ask, callers, Number(SECONDS))
    ;(rates[name] ??= {})[callers] = rate
    cells.push(`${Math.round(rate)}  ${p50.toFixed(2)}/${p99.toFixed(2)}`.padStart(22))
  }
  console.log(name.padEnd(36) + cells.join(''))
}
const base = rates['rate-limiter-flexible, ioredis']
for (const name of ['weir by fetch', 'weir by a socket'])
  console.log(`${name}, times rate-limiter-flexible with ioredis: ${IN_FLIGHT.map((n) => `${(rates[name][n] / base[n]).toFixed(2)} (${n})`).join(', ')}`)
kept.close()
ioredis.disconnect()
nodeRedis.destroy()
