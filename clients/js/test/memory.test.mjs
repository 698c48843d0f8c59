/* memory.test.mjs - what a client keeps does not grow with what it has asked. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import v8 from 'node:v8'
import vm from 'node:vm'
import { load, serve } from './support.mjs'

const { Weir, localLimiter } = await load('index.js')
v8.setFlagsFromString('--expose-gc')
const gc = vm.runInNewContext('gc')
const ROUNDS = Math.ceil((Number(process.env.WEIR_TEST_SCALE ?? 100) * 200) / 100)

/** Bytes in use after each of two halves. */
async function halves(weir) {
  const used = []
  for (const half of [0, 1]) {
    for (let round = 0; round < ROUNDS / 2; round++)
      await Promise.all(
        Array.from({ length: 500 }, (_, i) =>
          weir.check({ limit: i % 2, window: '1h' }, `${half}:${round}:${i}`),
        ),
      )
    for (let i = 0; i < 3; i++) (gc(), await new Promise(setImmediate))
    used.push(process.memoryUsage().heapUsed)
  }
  return used
}

test('100000 checks of as many keys leave nothing behind but what is bounded', async () => {
  const server = await serve()
  const weir = new Weir({ url: server.url, timeout: 20_000, denyCache: { max: 1000 } })
  const [first, second] = await halves(weir)
  console.log(
    `# ${ROUNDS * 500} checks: ${first} bytes after the first half, ${second} after the second`,
  )
  assert.ok(second - first < 2 << 20)
  await server.stop()
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
  const [first, second] = await halves(weir)
  assert.ok(second - first < 2 << 20, `${first} ${second}`)
})
