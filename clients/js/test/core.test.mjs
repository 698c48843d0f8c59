/* core.test.mjs - the client against a real server. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { load, misbehaving, scratch, serve, unhandled, until } from './support.mjs'

const { Weir, RateLimitError, WeirError } = await load('index.js')
let server, weir
before(async () => {
  server = await serve({ args: ['--trust-client-clock'] })
  weir = new Weir({ url: server.url, timeout: 10_000 })
})
after(async () => {
  await server.stop()
  assert.deepEqual(unhandled, [])
})

test('a check says how the limit stands', async () => {
  const answer = await weir.check('login', { ip: '203.0.113.7' })
  assert.deepEqual(answer, {
    allowed: true,
    policy: 'login',
    rule: 'default',
    limit: 5,
    remaining: 4,
    retryAfterMs: 0,
    resetAfterMs: 900_000,
    delayMs: 0,
    source: 'store',
    shadow: false,
  })
  for (const left of [3, 2, 1, 0])
    assert.equal((await weir.check('login', '203.0.113.7')).remaining, left)
  const denied = await weir.check('login', '203.0.113.7')
  assert.ok(
    !denied.allowed && denied.retryAfterMs > 890_000 && denied.retryAfterMs <= 900_000,
    JSON.stringify(denied),
  )
})

test('cost, plan, exemption and tag are passed on', async () => {
  assert.equal((await weir.check('query', { tenant: 'a' }, { cost: 4 })).remaining, 6)
  assert.equal(
    (await weir.check('query', { tenant: 'a' }, { cost: 4, plan: 'paid' })).remaining,
    12,
  )
  assert.equal((await weir.check('query', { tenant: 'a' }, { exempt: true })).source, 'exempt')
  assert.match((await weir.check('query', { tenant: 'a' }, { tag: true })).tag, /^[0-9a-f]{32}$/)
})

test('all rules are charged, or none', async () => {
  const who = { ip: '203.0.113.8', email: 'a@example.com' }
  for (let i = 0; i < 3; i++) assert.ok((await weir.check('cleanup', who)).allowed)
  const denied = await weir.check('cleanup', who)
  assert.equal(denied.rule, 'email')
  assert.deepEqual(
    denied.rules.map((r) => [r.rule, r.allowed, r.remaining]),
    [
      ['global', true, 997],
      ['ip', true, 2],
      ['email', false, 0],
    ],
  )
  assert.ok(denied.rules[2].retryAfterMs > 3_500_000)
})

test('several policies are one decision', async () => {
  const who = { ip: '203.0.113.9', user: 'u9' }
  for (let i = 0; i < 5; i++) await weir.check('login', who)
  assert.equal((await weir.check(['login', 'wide'], who)).allowed, false)
  assert.equal((await weir.peek('wide', { user: 'u9' })).remaining, 1_000_000)
})

test('a limit can come with the request', async () => {
  const limit = { limit: 2, window: '1m', algorithm: 'fixed_window', name: 'upload' }
  const now = 1_700_000_000_000
  const words = []
  for (let i = 0; i < 3; i++) words.push((await weir.check(limit, 'bob', { now })).allowed)
  assert.deepEqual(words, [true, true, false])
  assert.equal((await weir.check({ ...limit, window: 60_000 }, 'bob', { now })).allowed, false)
  await assert.rejects(weir.check({ limit: 2, window: 'soon' }, 'bob'), /not a duration: soon/)
})

test('all members of a limit are passed on, its lengths of time in ms', async () => {
  const sent = []
  const client = new Weir({
    url: server.url,
    timeout: 10_000,
    fetch: (url, init) => (sent.push(JSON.parse(init.body)), fetch(url, init)),
  })
  const limit = { limit: 4, window: '1m', algorithm: 'sliding_window', precision: '5s', name: 'all' }
  assert.equal((await client.check(limit, 'bob')).remaining, 3)
  assert.equal((await client.check({ ...limit, precision: undefined }, 'bob')).limit, 4)
  const { precision, window, ...rest } = limit
  assert.deepEqual(sent, [
    { ...rest, window_ms: 60_000, precision_ms: 5_000, key: 'bob' },
    { ...rest, window_ms: 60_000, key: 'bob' },
  ])
})

test('in Node.js, a redirect is not followed', async () => {
  const { Weir } = await load('node.js')
  const paths = []
  const elsewhere = await misbehaving((request, response) => {
    paths.push(request.url)
    response.writeHead(307, { location: '/elsewhere' }).end()
  })
  const client = new Weir({ url: elsewhere.url, timeout: 10_000, on: { error() {} } })
  const sources = [await client.check('login', 'x'), await client.check('login', 'x')]
  assert.deepEqual(sources.map((answer) => answer.source), ['fallback', 'fallback'])
  assert.deepEqual(paths, ['/v1/check', '/v1/check'])
  elsewhere.close()
})

test('peek counts nothing, charge counts always, refund gives back, reset forgets', async () => {
  const bob = weir.limit('query')
  assert.equal((await bob.peek('bob')).remaining, 10)
  const charged = await bob.charge('bob', { cost: 12 })
  assert.deepEqual([charged.used, charged.over], [12, 2])
  assert.equal((await bob.check('bob')).allowed, false)
  assert.equal((await bob.refund('bob', { cost: 5 })).remaining, 3)
  assert.equal((await bob.check('bob')).remaining, 2)
  await bob.reset('bob')
  assert.equal((await bob.peek('bob')).remaining, 10)
})

test('assert throws what a handler needs', async () => {
  const two = weir.limit({ limit: 1, window: '1h' })
  await two.assert('eve')
  await assert.rejects(two.assert('eve'), (error) => {
    assert.ok(error instanceof RateLimitError && error instanceof Error)
    assert.equal(error.limit, 1)
    assert.ok(error.retryAfterMs > 3_500_000 && error.answer.allowed === false)
    return true
  })
})

test('limit() has the shape of other limiters', async () => {
  const limiter = weir.limit({ limit: 1, window: '1h', name: 'shape' })
  const first = await limiter.limit({ key: 'mallory' })
  assert.ok(first.success && first.limit === 1 && first.remaining === 0 && first.reset > Date.now())
  assert.equal((await limiter.limit('mallory')).success, false)
})

test('a mistake is an error, and says what would be right', async () => {
  await assert.rejects(weir.check('logn', '203.0.113.7'), (error) => {
    assert.ok(error instanceof WeirError)
    assert.equal(error.code, 'no_such_policy')
    assert.match(error.message, /did you mean 'login'/)
    return true
  })
  const [good, bad] = await Promise.allSettled([weir.check('wide', 'x'), weir.check('logn', 'x')])
  assert.equal(good.value.allowed, true)
  assert.equal(bad.reason.code, 'no_such_policy')
})

test('checks of one tick leave in one request, bounded', async () => {
  for (const [batch, wanted] of [
    [undefined, [250, 1]],
    [{ max: 100 }, [100, 100, 50, 1]],
    [false, Array(251).fill(1)],
  ]) {
    const sizes = []
    const counted = new Weir({
      url: server.url,
      timeout: 20_000,
      batch,
      fetch: (url, init) => (
        sizes.push((init.body.match(/"policy"/g) ?? []).length),
        fetch(url, init)
      ),
    })
    const answers = await Promise.all(
      Array.from({ length: 250 }, (_, i) => counted.check('wide', `tick${wanted.length}${i}`)),
    )
    assert.ok(answers.every((a) => a.allowed && a.remaining === 999_999))
    await counted.check('wide', 'alone')
    assert.deepEqual(sizes, wanted)
  }
})

test('where requests cost little, so many leave before the rest of their turn is asked', async () => {
  const sizes = []
  const transport = {
    enough: 3,
    eager: true,
    send: async (verb, requests) => {
      sizes.push(requests.length)
      return requests.map(() => ({ allowed: true }))
    },
  }
  const client = new Weir({ transport, timeout: 10_000 })
  const asked = ['a', 'b', 'c', 'd'].map((key) => client.check('login', key))
  assert.deepEqual(sizes, [3])
  await Promise.all(asked)
  assert.deepEqual(sizes, [3, 1])
})

test('in Node.js, half of many leave first, without fetch itself', async () => {
  const { Weir } = await load('node.js')
  const sizes = []
  const agents = []
  const answer = '{"allowed":true,"policy":"ünïcode","retry_after_ms":0}'
  const server = await misbehaving((request, response, body) => {
    sizes.push(JSON.parse(body).checks?.length ?? 1)
    agents.push(request.headers['user-agent']) // fetch itself adds one
    response.end(sizes.at(-1) > 1 ? `{"answers":[${Array(sizes.at(-1)).fill(answer)}]}` : answer)
  })
  const client = new Weir({ url: server.url, timeout: 10_000 })
  const answers = await Promise.all(Array.from({ length: 128 }, (_, i) => client.check('login', `${i}`)))
  assert.deepEqual(sizes, [64, 64])
  assert.deepEqual(agents, [undefined, undefined])
  assert.ok(answers.every((a) => a.policy === 'ünïcode'))
  server.close()
})

test('in Node.js, a fetch that was replaced is used, and so is that of the options', async (t) => {
  const { Weir } = await load('node.js')
  const asked = []
  const stand = (name) => async (url, init) => {
    asked.push([name, init.signal.aborted])
    return new Response('{"allowed":true}')
  }
  t.mock.method(globalThis, 'fetch', stand('replaced'))
  await new Weir({ url: server.url }).check('login', 'a')
  await new Weir({ url: server.url, fetch: stand('given') }).check('login', 'a')
  assert.deepEqual(asked, [['replaced', false], ['given', false]])
})

/** A transport whose requests are answered by hand, in order. */
function byHand(more) {
  const sent = []
  return {
    sent,
    answer: (i) => sent[i].resolve(sent[i].keys.map((key) => ({ allowed: true, rule: key }))),
    send: (verb, requests) =>
      new Promise((resolve, reject) =>
        sent.push({ keys: requests.map((text) => JSON.parse(text).key), resolve, reject }),
      ),
    ...more,
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('one caller does not wait; what is asked meanwhile leaves together, in order', async () => {
  const transport = byHand()
  const client = new Weir({ transport, timeout: 10_000 })
  const ask = (key) => client.check('login', key)
  const first = ask('a')
  await null
  assert.deepEqual(transport.sent.map((one) => one.keys), [['a']])
  const second = ask('b')
  const third = ask('c')
  const fourth = turn().then(() => ask('d'))
  await turn()
  transport.answer(0)
  await first
  await until(() => transport.sent.length > 1)
  transport.answer(1)
  const rules = [await second, await third].map((answer) => answer.rule)
  assert.deepEqual(rules, ['b', 'c'])
  await until(() => transport.sent.flatMap((one) => one.keys).length === 4)
  transport.sent.forEach((_, i) => transport.answer(i))
  assert.equal((await fourth).rule, 'd')
  assert.deepEqual(transport.sent.flatMap((one) => one.keys), ['a', 'b', 'c', 'd'])
})

test('what waits for a request under way keeps its deadline, and can be given up', async () => {
  const transport = byHand()
  const client = new Weir({
    transport, timeout: 60_000, batch: { inFlight: 1 }, onError: 'allow', on: { error() {} },
  })
  const first = client.check('login', 'a')
  await null
  const late = client.check('login', 'late', { timeout: 10 })
  const controller = new AbortController()
  const gone = client.check('login', 'gone', { signal: controller.signal })
  const patient = client.check('login', 'patient')
  const { source, error } = await late
  assert.deepEqual([source, error.code], ['fallback', 'timeout'])
  controller.abort(new Error('enough'))
  await assert.rejects(gone, /enough/)
  assert.equal(transport.sent.length, 1)
  transport.answer(0)
  await first
  await until(() => transport.sent.length === 2)
  assert.deepEqual(transport.sent[1].keys, ['patient'])
  transport.answer(1)
  assert.equal((await patient).source, undefined)
})

test('if weir goes away, what waited for a request under way is decided by onError', async () => {
  const transport = byHand()
  const client = new Weir({ transport, timeout: 10_000, onError: 'allow', on: { error() {} } })
  const asked = [client.check('login', 'a')]
  await null
  asked.push(client.check('login', 'b'), client.check('login', 'c'))
  transport.sent[0].reject(new Error('cut'))
  await until(() => transport.sent.length === 2)
  transport.sent[1].reject(new Error('cut'))
  const sources = (await Promise.all(asked)).map((answer) => answer.source)
  assert.deepEqual(sources, ['fallback', 'fallback', 'fallback'])
  assert.equal(transport.sent.length, 2) // it may have been counted: not sent again
})

test('a batch is bounded in bytes too', async () => {
  const long = 'x'.repeat(4000)
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, i) => weir.check('wide', long + i)),
  )
  assert.ok(answers.every((a) => a.source === 'store' && a.allowed))
})

test('no more requests are under way than stated', async () => {
  let underWay = 0
  let most = 0
  const counted = new Weir({
    url: server.url,
    timeout: 20_000,
    batch: { max: 1, inFlight: 3 },
    fetch: async (url, init) => {
      most = Math.max(most, ++underWay)
      const response = await fetch(url, init)
      underWay--
      return response
    },
  })
  await Promise.all(Array.from({ length: 40 }, (_, i) => counted.check('wide', `slot${i}`)))
  assert.equal(most, 3)
})

test('checkMany answers in order', async () => {
  const answers = await weir.checkMany([
    { policy: 'query', who: 'many', options: { cost: 8 } },
    { policy: 'query', who: 'many', options: { cost: 3 } },
    { policy: 'query', who: 'many', options: { cost: 2 } },
  ])
  assert.deepEqual(
    answers.map((a) => a.allowed),
    [true, false, true],
  )
})

test('of 1000 at once, exactly as many are allowed as the limit says', async () => {
  const clients = [1, 2, 3].map(() => new Weir({ url: server.url, timeout: 20_000 }))
  const answers = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => clients[i % 3].check('login', '198.51.100.1')),
  )
  assert.equal(answers.filter((a) => a.allowed).length, 5)
})

test('a token is sent, and a wrong one is logged and left to onError', async (t) => {
  const { writeFileSync } = await import('node:fs')
  writeFileSync(scratch('token'), '0123456789abcdef0123\n')
  const guarded = await serve({ args: ['--token-file', `check:${scratch('token')}`] })
  const good = new Weir({ url: guarded.url, token: '0123456789abcdef0123', timeout: 10_000 })
  assert.equal((await good.check('login', '203.0.113.7')).source, 'store')
  const logged = t.mock.method(console, 'error', () => {})
  for (const onError of ['allow', 'deny']) {
    logged.mock.resetCalls()
    const wrong = new Weir({
      url: guarded.url,
      token: 'nonsense-nonsense-nonsense',
      onError,
      timeout: 10_000,
    })
    for (let i = 0; i < 3; i++) {
      const answer = await wrong.check('login', '203.0.113.7')
      assert.deepEqual(
        [answer.allowed, answer.source, answer.error.status],
        [onError === 'allow', 'fallback', 401],
      )
    }
    assert.equal(logged.mock.callCount(), 1)
    assert.match(logged.mock.calls[0].arguments[0], /unauthorized/)
  }
  await guarded.stop()
})

test('url and token come from the environment', async () => {
  process.env.WEIR_URL = `${server.url}/`
  assert.equal((await new Weir({ timeout: 10_000 }).check('wide', 'env')).source, 'store')
  delete process.env.WEIR_URL
  assert.throws(() => new Weir(), /WEIR_URL/)
})

test('what a check brings and gets is told to hooks', async () => {
  const told = []
  const hooked = new Weir({
    url: server.url,
    timeout: 10_000,
    on: { answer: (answer, request) => told.push([request.policy, answer.allowed]) },
  })
  await hooked.check('wide', 'hook')
  assert.deepEqual(told, [['wide', true]])
})

test('the deny cache denies until weir would allow, not longer', async () => {
  let asked = 0
  const cached = new Weir({
    url: server.url,
    timeout: 10_000,
    denyCache: { maxMs: 60_000 },
    fetch: (u, i) => (asked++, fetch(u, i)),
  })
  const limit = { limit: 2, window: 300, name: 'cached' }
  await cached.check(limit, 'a', { cost: 2 })
  let answer = await cached.check(limit, 'a')
  const begin = performance.now()
  const wait = answer.retryAfterMs
  assert.ok(!answer.allowed && wait > 0, JSON.stringify(answer))
  asked = 0
  let hits = 0
  while (!(answer = await cached.check(limit, 'a')).allowed) {
    if (answer.source === 'cache') {
      assert.ok(answer.retryAfterMs <= wait && answer.retryAfterMs > 0)
      hits++
    }
    assert.ok(performance.now() - begin < 20_000)
    await new Promise(setImmediate)
  }
  assert.ok(performance.now() - begin >= wait - 300 - 1 && hits > 0, `${hits} hits`)
  assert.ok(asked < hits, `${asked} asked, ${hits} hits`)
})

test('a denial of a cost says nothing of lower costs', async () => {
  const limit = { limit: 3, window: '1h', name: 'costs' }
  await weir.check(limit, 'a')
  assert.equal((await weir.check(limit, 'a', { cost: 3 })).source, 'store')
  assert.equal((await weir.check(limit, 'a', { cost: 3 })).source, 'cache')
  assert.equal((await weir.check(limit, 'a', { cost: 2 })).allowed, true)
  assert.equal((await weir.peek(limit, 'a', { cost: 3 })).source, 'store')
})

test('own refunds and resets end what the deny cache has', async () => {
  const limit = weir.limit({ limit: 1, window: '1h', name: 'ended' })
  for (const end of ['refund', 'reset']) {
    await limit.check('a')
    await limit.check('a')
    assert.equal((await limit.check('a')).source, 'cache')
    await limit[end]('a')
    assert.equal((await limit.check('a')).allowed, true)
    await limit.reset('a')
  }
})

test('a reset by another client is noticed after maxMs', async () => {
  const limit = { limit: 1, window: '1h', name: 'elsewhere' }
  const other = new Weir({ url: server.url, timeout: 10_000 })
  const short = new Weir({ url: server.url, timeout: 10_000, denyCache: { maxMs: 50 } })
  await short.check(limit, 'a')
  await short.check(limit, 'a')
  await other.reset(limit, 'a')
  const begin = performance.now()
  while (!(await short.check(limit, 'a')).allowed) {
    assert.ok(performance.now() - begin < 20_000)
    await new Promise(setImmediate)
  }
})

test('buckets that come with requests, plans and a cache turned off always ask', async () => {
  const bucket = { limit: 1, window: '1h', algorithm: 'token_bucket' }
  await weir.check(bucket, 'a')
  for (let i = 0; i < 2; i++) assert.equal((await weir.check(bucket, 'a')).source, 'store')
  await weir.check('query', 'planned', { cost: 10, plan: 'paid' })
  for (let i = 0; i < 2; i++)
    assert.equal((await weir.check('query', 'planned', { cost: 11, plan: 'paid' })).source, 'store')
  const off = new Weir({ url: server.url, timeout: 10_000, denyCache: false })
  await off.check({ limit: 0, window: '1h' }, 'a')
  assert.equal((await off.check({ limit: 0, window: '1h' }, 'a')).source, 'store')
})

test('a caller can give a check up', async () => {
  const silent = await misbehaving(() => new Promise(() => {}))
  const waiting = new Weir({ url: silent.url, timeout: 60_000 })
  const controller = new AbortController()
  const given = waiting.check('login', 'x', { signal: controller.signal })
  controller.abort(new Error('the user left'))
  await assert.rejects(given, /the user left/)
  await assert.rejects(
    waiting.check('login', 'x', { signal: AbortSignal.abort(new Error('before')) }),
    /before/,
  )
  silent.close()
})
