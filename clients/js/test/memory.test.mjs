/* memory.test.mjs - what a client keeps does not grow with what it has asked. With
 * WEIR_TEST_SCALE=1000 there are a million checks. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import v8 from 'node:v8'
import vm from 'node:vm'
import { load, serve } from './support.mjs'

const { Weir, localLimiter } = await load('index.js')
const { postgres } = await load('postgres.js')
const { socket } = await load('socket.js')
const { fetch: cheap } = await load('node.js')
const { DATABASE_URL, PG, WHY_NO_POSTGRES } = process.env
const MOST = 2 << 20 // bytes that a second half may add to the first
v8.setFlagsFromString('--expose-gc')
const gc = vm.runInNewContext('gc')
const ROUNDS = Math.ceil((Number(process.env.WEIR_TEST_SCALE ?? 100) * 200) / 100)

/** Bytes in use after each of two halves. */
async function halves(ask, rounds = ROUNDS) {
  const used = []
  for (const half of [0, 1]) {
    for (let round = 0; round < rounds / 2; round++)
      await Promise.all(Array.from({ length: 500 }, (_, i) => ask(`${half}:${round}:${i}`, i)))
    for (let i = 0; i < 3; i++) (gc(), await new Promise(setImmediate))
    used.push(process.memoryUsage().heapUsed)
  }
  console.log(`# ${rounds * 500} checks: ${used[0]} bytes after the first half, ${used[1]} at the end`)
  return used[1] - used[0]
}

const limited = (weir) => (key, i) => weir.check({ limit: i % 2, window: '1h' }, key)
const options = { timeout: 20_000, denyCache: { max: 1000 } }
const WAYS = {
  HTTP: ({ url }) => new Weir({ url, ...options }),
  'the HTTP of Node.js': ({ url }) => new Weir({ url, fetch: cheap, ...options }),
  'a socket': ({ port }) =>
    new Weir({ transport: socket({ url: `weir://127.0.0.1:${port}` }), ...options }),
}
for (const [name, make] of Object.entries(WAYS))
  test(`by ${name}, 100000 checks of as many keys leave nothing but what is bounded`, async () => {
    const server = await serve()
    const weir = make(server)
    assert.ok((await halves(limited(weir))) < MOST)
    weir.close()
    await server.stop()
  })

test('nor do they by SQL', { skip: DATABASE_URL ? false : WHY_NO_POSTGRES }, async () => {
  const { Pool } = createRequire(pathToFileURL(path.join(PG, 'x')))('pg')
  const pool = new Pool({ connectionString: DATABASE_URL, max: 4 })
  const weir = new Weir({ transport: postgres(pool), ...options })
  const ask = async (key) => assert.equal((await weir.check('word', key)).source, 'store')
  assert.ok((await halves(ask, ROUNDS / 10)) < MOST)
  await pool.end()
})

test('nor while weir is away', async () => {
  const away = {
    send: async () => {
      throw new Error('away')
    },
  }
  const weir = new Weir({
    transport: away,
    onError: 'local',
    local: localLimiter(),
    on: { error() {} },
  })
  assert.ok((await halves(limited(weir))) < MOST)
})
