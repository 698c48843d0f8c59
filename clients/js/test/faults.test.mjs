/* faults.test.mjs - weir is away, slow, wrong or restarted: onError decides, within the deadline. */
import assert from 'node:assert/strict'
import net from 'node:net'
import { after, test } from 'node:test'
import { freePort, load, misbehaving, serve, unhandled, until } from './support.mjs'

const { Weir, localLimiter } = await load('index.js')
const { socket } = await load('socket.js')
const { fetch: cheap } = await load('node.js')
const quiet = { error() {} }
const LATE = 2_000 // what a busy machine may add to a deadline

after(() => assert.deepEqual(unhandled, []))

const FAULTS = {
  away: async () => ({ url: `http://127.0.0.1:${await freePort()}`, close() {} }),
  silent: () => misbehaving(() => new Promise(() => {})),
  dripping: () =>
    misbehaving((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('{"allowed":')
    }),
  garbage: () => misbehaving((_, response) => void response.end('<html>It works!</html>')),
  'of another shape': () => misbehaving((_, response) => void response.end('{"ok":true}')),
  'too few': () => misbehaving((_, response) => void response.end('{"answers":[]}')),
  'an array': () => misbehaving((_, response) => void response.end('[1]')),
  null: () => misbehaving((_, response) => void response.end('null')),
  empty: () => misbehaving((_, response) => void response.end()),
  'failing with 500': () => misbehaving((_, response) => void response.writeHead(500).end('oops')),
  'failing with 503': () =>
    misbehaving(
      (_, response) => void response.writeHead(503).end('{"code":"store_failed","detail":"away"}'),
    ),
  'a page that is not found': () =>
    misbehaving((_, response) => void response.writeHead(404).end('{"error":"not found"}')),
  cutting: () => misbehaving((request) => void request.socket.destroy()),
}

test('an on.error that throws, now or later, changes no answer', async (t) => {
  const logged = t.mock.method(console, 'error', () => {})
  for (const [of, make] of Object.entries({ away: FAULTS.away, silent: FAULTS.silent }))
    for (const error of [
      () => assert.fail('now'),
      async () => assert.fail('later'),
    ]) {
      logged.mock.resetCalls()
      const server = await make()
      const weir = new Weir({ url: server.url, timeout: 50, on: { error } })
      for (let times = 1; times <= 2; times++) {
        const answers = await Promise.all(['a', 'b'].map((ip) => weir.check('login', ip)))
        assert.deepEqual(answers.map((a) => a.source), ['fallback', 'fallback'], of)
        await until(() => logged.mock.callCount() === times, 'what it throws')
      }
      server.close()
    }
})

const BY = { fetch: undefined, "Node's fetch": cheap }
for (const [name, make, by] of Object.entries(FAULTS).flatMap((f) => Object.keys(BY).map((by) => [...f, by]))) {
  test(`by ${by}, a server that is ${name}: each word of onError is kept within the deadline`, async () => {
    const server = await make()
    for (const [onError, wants] of [
      ['allow', [true, true, true]],
      ['deny', [false, false, false]],
      ['local', [true, true, false]],
    ]) {
      const weir = new Weir({
        url: server.url,
        fetch: BY[by],
        timeout: 100,
        onError,
        local: localLimiter({ login: { limit: 2, window: '1h' } }),
        on: quiet,
      })
      for (const want of wants) {
        const begin = performance.now()
        const answer = await weir.check('login', '203.0.113.7')
        assert.ok(performance.now() - begin < 100 + LATE)
        assert.deepEqual([answer.allowed, answer.source], [want, 'fallback'], onError)
        assert.ok(answer.error)
        assert.equal(answer.allowed || answer.retryAfterMs > 0, true)
      }
      // Many at once, and what is not a decision.
      const many = await Promise.all(
        Array.from({ length: 20 }, (_, i) => weir.check('login', `10.0.0.${i}`)),
      )
      assert.ok(many.every((a) => a.source === 'fallback' && a.allowed === (onError !== 'deny')))
      for (const verb of ['peek', 'charge', 'refund', 'reset'])
        assert.equal((await weir[verb]('login', 'x')).source, 'fallback', verb)
    }
    server.close()
  })
}

test('after so many failures in a row another word holds, until weir answers again', async () => {
  let broken = true
  const server = await misbehaving(
    (_, response) =>
      void (broken
        ? response.writeHead(500).end()
        : response.end(
            '{"allowed":true,"policy":"login","rule":"default","limit":5,"remaining":4,"retry_after_ms":0,"reset_after_ms":0,"source":"store"}',
          )),
  )
  const weir = new Weir({
    url: server.url,
    timeout: 10_000,
    onError: { before: 'allow', after: 3 },
    on: quiet,
  })
  const ask = async () => (await weir.check('login', 'x')).allowed
  assert.deepEqual([await ask(), await ask(), await ask(), await ask()], [true, true, false, false])
  broken = false
  assert.equal(await ask(), true)
  broken = true
  assert.equal(await ask(), true)
  server.close()
})

test('a word that needs a limiter of its own says so at once', () => {
  assert.throws(() => new Weir({ url: 'http://127.0.0.1:1', onError: 'local' }), /no local/)
  assert.throws(
    () => new Weir({ url: 'http://127.0.0.1:1', onError: { after: 3, before: 'local' } }),
    /no local/,
  )
})

test('a function decides by the error', async () => {
  const url = `http://127.0.0.1:${await freePort()}`
  const weir = new Weir({
    url,
    onError: (error, request) =>
      error.code === 'unreachable' && request.policy === 'login' ? 'deny' : 'allow',
    on: quiet,
  })
  assert.equal((await weir.check('login', 'x')).allowed, false)
  assert.equal((await weir.check('api', 'x')).allowed, true)
})

test('one slow answer does not delay the deadline of another call', async () => {
  const server = await misbehaving(() => new Promise(() => {}))
  const weir = new Weir({ url: server.url, onError: 'allow', batch: { inFlight: 1 }, on: quiet })
  const controller = new AbortController()
  const long = weir
    .check('login', 'a', { timeout: 60_000, signal: controller.signal })
    .catch(() => 'given up')
  await new Promise(setImmediate)
  const begin = performance.now()
  assert.equal((await weir.check('login', 'b', { timeout: 50 })).source, 'fallback')
  assert.ok(performance.now() - begin < 50 + LATE)
  controller.abort()
  assert.equal(await long, 'given up')
  server.close()
})

for (const by in BY) test(`by ${by}, what never left is sent again: a server that starts meanwhile is found`, async () => {
  const port = await freePort()
  let tries = 0
  let server
  const weir = new Weir({
    url: `http://127.0.0.1:${port}`,
    timeout: 20_000,
    on: quiet,
    fetch: async (url, init, underway) => {
      if (++tries === 2) server = await serve({ port })
      return (BY[by] ?? fetch)(url, init, underway)
    },
  })
  assert.equal((await weir.check('login', '203.0.113.7')).source, 'store')
  assert.equal(tries, 2)
  await server.stop()
})

for (const by in BY) test(`by ${by}, what may have been counted is not sent again, a peek and a reset are`, async () => {
  const asked = []
  const server = await misbehaving((request) => {
    asked.push(request.url)
    request.socket.destroy()
  })
  const weir = new Weir({ url: server.url, fetch: BY[by], timeout: 10_000, onError: 'allow', on: quiet })
  for (const verb of ['check', 'charge', 'refund', 'peek', 'reset']) await weir[verb]('login', 'x')
  assert.deepEqual(asked, [
    '/v1/check',
    '/v1/charge',
    '/v1/refund',
    '/v1/peek',
    '/v1/peek',
    '/v1/reset',
    '/v1/reset',
  ])
  server.close()
})

test('a local token bucket refills, and a local window ends', async () => {
  const url = `http://127.0.0.1:${await freePort()}`
  for (const algorithm of ['token_bucket', 'fixed_window']) {
    const weir = new Weir({
      url,
      onError: 'local',
      local: localLimiter(),
      timeout: 10_000,
      on: quiet,
    })
    const limit = weir.limit({ limit: 3, window: 400, algorithm })
    const words = []
    for (let i = 0; i < 3; i++) words.push((await limit.check('a')).allowed)
    assert.deepEqual(words, [true, true, true])
    let answer
    const begin = performance.now()
    await until(
      async () =>
        (answer = await limit.check('a')).allowed ||
        (assert.ok(answer.retryAfterMs > 0 && answer.retryAfterMs <= 400), false),
    )
    assert.ok(performance.now() - begin < 20_000)
    assert.equal((await limit.check('b', { cost: 4 })).retryAfterMs, -1)
  }
})

test('charges, refunds and resets are kept by the local limiter too', async () => {
  const weir = new Weir({
    url: `http://127.0.0.1:${await freePort()}`,
    onError: 'local',
    local: localLimiter({ '*': { limit: 2, window: '1h' } }),
    on: quiet,
  })
  const limit = weir.limit('any')
  await limit.charge('a', { cost: 2 })
  assert.equal((await limit.check('a')).allowed, false)
  await limit.refund('a')
  assert.equal((await limit.check('a')).allowed, true)
  assert.equal((await limit.check('a')).allowed, false)
  await limit.reset('a')
  assert.equal((await limit.peek('a')).remaining, 2)
})

test('a clock that jumps changes nothing', async (t) => {
  const server = await serve()
  const weir = new Weir({ url: server.url, timeout: 10_000 })
  const bySocket = new Weir({
    transport: socket({ url: `weir://127.0.0.1:${server.port}` }),
    timeout: 10_000,
  })
  const away = new Weir({
    url: `http://127.0.0.1:${await freePort()}`,
    onError: 'local',
    local: localLimiter(),
    on: quiet,
  })
  const real = Date.now
  for (const [name, client] of Object.entries({ weir, bySocket, away })) {
    const limit = { limit: 1, window: '1h', name }
    assert.equal((await client.check(limit, 'a')).allowed, true)
    assert.equal((await client.check(limit, 'a')).allowed, false)
    for (const jump of [864e5, -864e5]) {
      t.mock.method(Date, 'now', () => real() + jump)
      const answer = await client.check(limit, 'a')
      assert.ok(
        !answer.allowed && answer.retryAfterMs > 3_000_000 && answer.retryAfterMs <= 3_600_000,
        JSON.stringify(answer),
      )
      Date.now.mock.restore()
    }
  }
  bySocket.close()
  await server.stop()
})

for (const by in BY) test(`by ${by}, a server that is killed and started again on its files goes on where it was`, async () => {
  const { scratch } = await import('./support.mjs')
  const store = `file:${scratch(`data of ${by}`)}`
  let server = await serve({ store, args: ['--sync', 'always'] })
  const { port } = server
  const clients = [1, 2, 3].map(
    () =>
      new Weir({
        url: server.url,
        fetch: BY[by],
        timeout: 20_000,
        onError: 'deny',
        denyCache: false,
        on: quiet,
      }),
  )
  const limit = { limit: 300, window: '1h', algorithm: 'fixed_window' }
  const ask = () =>
    Promise.all(Array.from({ length: 200 }, (_, i) => clients[i % 3].check(limit, 'all')))
  let allowed = (await ask()).filter((a) => a.allowed).length
  const under = ask()
  await server.kill()
  allowed += (await under).filter((a) => a.allowed).length
  server = await serve({ store, port, args: ['--sync', 'always'] })
  for (let i = 0; i < 3; i++)
    allowed += (await ask()).filter((a) => a.allowed && a.source === 'store').length
  const left = (await clients[0].peek(limit, 'all')).remaining
  // What was counted and not heard of is lost to callers, and none is allowed twice.
  assert.equal(left, 0)
  assert.ok(allowed <= 300 && allowed >= 100, `${allowed}`)
  await server.stop()
})

for (const by in BY) test(`by ${by}, connections that die while a client is frozen are not noticed by callers`, async () => {
  const server = await serve()
  const sockets = new Set()
  const between = net
    .createServer((client) => {
      const there = net.connect(server.port, '127.0.0.1')
      sockets.add(client)
      client.pipe(there).pipe(client)
      for (const s of [client, there])
        s.on('error', () => {}).on(
          'close',
          () => (client.destroy(), there.destroy(), sockets.delete(client)),
        )
    })
    .listen(0, '127.0.0.1')
  await until(() => between.listening)
  const weir = new Weir({
    url: `http://127.0.0.1:${between.address().port}`,
    fetch: BY[by],
    timeout: 10_000,
    onError: 'deny',
    on: quiet,
  })
  for (let i = 0; i < 5; i++) {
    assert.equal((await weir.check('wide', 'frozen')).source, 'store')
    const closed = [...sockets].map((s) => new Promise((resolve) => s.once('close', resolve)))
    for (const s of sockets) s.end()
    await Promise.all(closed)
  }
  between.close()
  for (const s of sockets) s.destroy()
  await server.stop()
})
