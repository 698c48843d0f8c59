/* socket.test.mjs - the client over RESP: the same answers as over HTTP, and the same faults. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import net from 'node:net'
import { after, before, test } from 'node:test'
import { freePort, load, scratch, serve, unhandled, until } from './support.mjs'

const { Weir } = await load('index.js')
const { socket } = await load('socket.js')
const { connection } = await load('resp.js')
const on = { error() {} }
let server, weir, byHttp
before(async () => {
  server = await serve({ args: ['--trust-client-clock'] })
  weir = new Weir({
    transport: socket({ url: `weir://127.0.0.1:${server.port}` }),
    timeout: 10_000,
  })
  byHttp = new Weir({ url: server.url, timeout: 10_000 })
})
after(async () => {
  weir.close()
  await server.stop()
  assert.deepEqual(unhandled, [])
})

test('answers are those of HTTP', async () => {
  const now = 1_700_000_000_000
  const asked = [
    ['check', 'login', { ip: '203.0.113.7' }],
    ['check', 'login', '203.0.113.7'],
    ['check', 'query', { tenant: 'a' }, { cost: 4, plan: 'paid' }],
    ['check', 'cleanup', { ip: '203.0.113.7', email: 'a@b.c' }, { cost: 4 }],
    ['peek', 'login', '203.0.113.7'],
    ['charge', 'query', 'a', { cost: 30 }],
    ['check', 'query', 'a'],
    ['refund', 'query', 'a', { cost: 5 }],
    ['reset', 'query', 'a'],
    ['check', ['login', 'wide'], { ip: '203.0.113.7', user: 'b' }],
    [
      'check',
      { limit: 2, window: '1m', name: 'n', algorithm: 'token_bucket', burst: 5 },
      'c',
      { cost: 3 },
    ],
    ['check', 'query', 'a', { exempt: true }],
    ['peek', { limit: 2, window: '1m' }, 'd'],
    ['check', 'wide', 'x=y ü €\r\n😀'],
  ]
  for (const [verb, policy, who, options] of asked) {
    const answers = []
    for (const client of [byHttp, weir]) {
      for (const name of ['login', 'query', 'wide'])
        await byHttp.reset(name, name === 'login' ? '203.0.113.7' : 'a')
      await byHttp.reset('cleanup', { ip: '203.0.113.7', email: 'a@b.c' })
      await byHttp.reset({ limit: 2, window: '1m', name: 'n', algorithm: 'token_bucket' }, 'c')
      for (const user of ['b', 'x=y ü €\r\n😀']) await byHttp.reset('wide', user)
      answers.push(
        await client[verb](policy, who, { ...options, ...(verb === 'reset' ? {} : { now }) }),
      )
    }
    assert.deepEqual(answers[1], answers[0], JSON.stringify([verb, policy, who]))
  }
})

test('a mistake is an error for its caller alone', async () => {
  const [good, bad] = await Promise.allSettled([weir.check('wide', 'x'), weir.check('logn', 'x')])
  assert.equal(good.value.allowed, true)
  assert.equal(bad.reason.code, 'no_such_policy')
  assert.match(bad.reason.message, /did you mean 'login'/)
})

test('of 1000 at once over three sockets, exactly as many are allowed as the limit says', async () => {
  const clients = [1, 2, 3].map(
    () =>
      new Weir({ transport: socket({ url: `weir://127.0.0.1:${server.port}` }), timeout: 20_000 }),
  )
  const answers = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => clients[i % 3].check('login', '198.51.100.1')),
  )
  assert.equal(answers.filter((a) => a.allowed).length, 5)
  for (const client of clients) client.close()
})

test('a token is sent first, and a wrong one is left to onError', async () => {
  writeFileSync(scratch('token'), '0123456789abcdef0123\n')
  const guarded = await serve({ args: ['--token-file', `check:${scratch('token')}`] })
  const client = (token, onError) =>
    new Weir({
      transport: socket({ url: `weir://127.0.0.1:${guarded.port}`, token }),
      timeout: 10_000,
      onError,
      on,
    })
  const good = client('0123456789abcdef0123')
  assert.equal((await good.check('wide', 'a')).source, 'store')
  for (const [token, onError] of [
    ['wrong-wrong-wrong', 'allow'],
    [undefined, 'deny'],
  ]) {
    const wrong = client(token, onError)
    for (let i = 0; i < 3; i++) {
      const answer = await wrong.check('login', '203.0.113.1')
      assert.deepEqual([answer.source, answer.allowed], ['fallback', onError === 'allow'])
    }
    wrong.close()
  }
  good.close()
  await guarded.stop()
})

test('away, silent, cutting, talking nonsense: onError decides within the deadline', async () => {
  const behaviours = [
    (s) => s.on('data', () => {}),
    (s) => s.destroy(),
    (s) => s.once('data', () => s.end()),
    (s) => s.write('HTTP/1.1 400\r\n\r\n'),
    (s) => s.on('data', () => s.write('*1\r\n')),
    (s) => s.on('data', () => s.write('$-1\r\n')),
    (s) => s.on('data', () => s.write('+OK\r\n+OK\r\n')),
    (s) => s.on('data', () => s.write('-STORE_FAILED the store is away\r\n')),
    (s) => s.on('data', () => s.write('$4\r\nnull\r\n')),
  ]
  const places = [{ port: await freePort(), close() {} }]
  for (const behave of behaviours) {
    const own = net.createServer((s) => behave(s.on('error', () => {}))).listen(0, '127.0.0.1')
    await once(own, 'listening')
    places.push({ port: own.address().port, close: () => own.close() })
  }
  for (const { port, close } of places) {
    for (const onError of ['allow', 'deny']) {
      const client = new Weir({
        transport: socket({ url: `weir://127.0.0.1:${port}` }),
        timeout: 100,
        onError,
        on,
      })
      for (let i = 0; i < 3; i++) {
        const begin = performance.now()
        const answers = await Promise.all([client.check('login', 'a'), client.check('login', 'b')])
        assert.ok(
          answers.every((a) => a.source === 'fallback' && a.allowed === (onError === 'allow')),
          JSON.stringify(answers),
        )
        assert.ok(performance.now() - begin < 2_100)
      }
      client.close()
    }
    close()
  }
})

test('a server that comes back is used again', async () => {
  const first = await serve()
  const client = new Weir({
    transport: socket({ url: `weir://127.0.0.1:${first.port}` }),
    timeout: 5_000,
    onError: 'allow',
    on,
  })
  assert.equal((await client.check('wide', 'a')).source, 'store')
  await first.kill()
  assert.equal((await client.check('wide', 'a')).source, 'fallback')
  const second = await serve({ port: first.port })
  await until(async () => (await client.check('wide', 'a')).source === 'store')
  client.close()
  await second.stop()
})

test('by a unix socket', async () => {
  const path = scratch('weir.sock')
  const own = await serve({ listen: `127.0.0.1:0,unix:${path}` })
  const client = new Weir({ transport: socket({ url: `unix:${path}` }), timeout: 10_000 })
  assert.equal((await client.check('wide', 'unix')).source, 'store')
  client.close()
  await own.stop()
})

test('answers may be cut anywhere, and several commands may be answered at once', async () => {
  const answer = (rule) => JSON.stringify({ allowed: true, rule, source: 'store', limit: 1 })
  const bulk = (text) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`
  const whole = `${bulk(answer('ü€😀'))}-NO_SUCH_POLICY there is none\r\n${bulk(`{"answers":[${answer('b')},${answer('c')}]}`)}`
  for (let cut = 0; cut <= whole.length; cut++) {
    let hear
    const transport = connection(
      (heard) => ((hear = heard), { write() {}, close() {}, opened: Promise.resolve() }),
      {},
    )
    const asked = [['{}'], ['{}'], ['{}', '{}']].map((requests) =>
      transport.send('check', requests, {}),
    )
    hear(whole.slice(0, cut))
    hear(whole.slice(cut))
    const [[first], [second], [third, fourth]] = await Promise.all(asked)
    assert.deepEqual(
      [first.rule, second.error.code, second.error.detail, third.rule, fourth.rule],
      ['ü€😀', 'no_such_policy', 'there is none', 'b', 'c'],
    )
  }
})

test('a batch that is too long for one command goes in several', async () => {
  const who = (i) => `${i}${'€'.repeat(200)}`
  const answers = await Promise.all(
    Array.from({ length: 400 }, (_, i) => weir.check('wide', who(i))),
  )
  assert.ok(answers.every((a) => a.source === 'store'))
  assert.equal((await weir.peek('wide', who(7))).remaining, 999_999)
})
