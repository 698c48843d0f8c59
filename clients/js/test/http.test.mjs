/* http.test.mjs - addresses of clients, headers, and responses to denied requests. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { load, serve } from './support.mjs'

const { Weir } = await load('index.js')
const { clientAddress, denial, parseAddress, parseRateLimit, rateLimitHeaders, tooManyRequests } =
  await load('http.js')
let server, weir
before(async () => {
  server = await serve()
  weir = new Weir({ url: server.url, timeout: 10_000, denyCache: false })
})
after(() => server.stop())

const from = (value, source) =>
  clientAddress(new Headers(value === undefined ? {} : { 'x-forwarded-for': value }), source)

test('the address is that which the nearest trusted proxies wrote, not what the client wrote', () => {
  assert.equal(from('203.0.113.7', { hops: 1 }), '203.0.113.7')
  assert.equal(from('6.6.6.6, 203.0.113.7', { hops: 1 }), '203.0.113.7')
  assert.equal(from('6.6.6.6,203.0.113.7 , 10.0.0.1', { hops: 2 }), '203.0.113.7')
  assert.equal(from('203.0.113.7', { hops: 2 }), undefined)
  assert.equal(from(undefined, { hops: 1 }), undefined)
  assert.equal(from('6.6.6.6, unknown', { hops: 1 }), undefined)
  assert.equal(
    clientAddress({ 'x-forwarded-for': ['6.6.6.6', '203.0.113.7'] }, { hops: 1 }),
    '203.0.113.7',
  )
  assert.throws(() => from('203.0.113.7', { hops: 0 }), /at least 1/)
})

test('a header that the platform replaces has one address', () => {
  const one = (value) =>
    clientAddress({ 'cf-connecting-ip': value }, { header: 'CF-Connecting-IP' })
  assert.equal(one('203.0.113.7'), '203.0.113.7')
  assert.equal(one('6.6.6.6, 203.0.113.7'), undefined)
  assert.equal(one(undefined), undefined)
})

test('ports, brackets and zones are no part of an address', () => {
  const pairs = {
    '203.0.113.7:4711': '203.0.113.7',
    '[2001:db8::1]:4711': '2001:db8::1',
    '2001:db8::1': '2001:db8::1',
    '[2001:db8::1]': '2001:db8::1',
    'fe80::1%eth0': 'fe80::1',
    '::ffff:203.0.113.7': '::ffff:203.0.113.7',
    '::1': '::1',
    unknown: undefined,
    '': undefined,
    _hidden: undefined,
    '203.0.113': undefined,
    'a.b.c.d': undefined,
  }
  for (const [text, address] of Object.entries(pairs))
    assert.equal(parseAddress(text), address, text)
})

test('the headers are those that weir itself sends', async () => {
  const gate = async (query) => (await fetch(`${server.url}/v1/gate?${query}`)).headers
  for (const [policy, who] of [
    ['login', { ip: '203.0.113.7' }],
    ['cleanup', { ip: '203.0.113.8', email: 'a@b.c' }],
  ]) {
    for (let i = 0; i < 7; i++) {
      const answer = await weir.peek(policy, who)
      const theirs = await gate(new URLSearchParams({ policy, ...who, peek: 'true' }))
      const ours = rateLimitHeaders(answer)
      for (const name of ['X-RateLimit-Limit', 'X-RateLimit-Remaining'])
        assert.equal(ours[name], theirs.get(name), name)
      // A second may begin between the two.
      for (const name of ['RateLimit', 'X-RateLimit-Reset', 'Retry-After']) {
        const [a, b] = [ours[name], theirs.get(name)].map(
          (value) => (value ?? '0').match(/\d+$/)[0],
        )
        assert.ok(Math.abs(a - b) <= 1, `${name}: ${ours[name]} ${theirs.get(name)}`)
      }
      assert.deepEqual(
        parseRateLimit(ours['RateLimit-Policy']).map(({ name, q }) => [name, q]),
        parseRateLimit(theirs.get('RateLimit-Policy')).map(({ name, q }) => [name, q]),
      )
      await weir.check(policy, who)
    }
  }
})

test('a denied request gets the problem document of the gate', async () => {
  const limit = { limit: 0, window: '1m', name: 'none' }
  const never = tooManyRequests(await weir.check(limit, 'a'))
  assert.equal(never.headers.get('retry-after'), null)
  for (let i = 0; i < 5; i++) await weir.check('login', '203.0.113.9')
  const answer = await weir.check('login', '203.0.113.9')
  const response = tooManyRequests(answer)
  const theirs = await fetch(`${server.url}/v1/gate?policy=login&ip=203.0.113.9`)
  assert.equal(response.status, 429)
  assert.equal(response.headers.get('content-type'), theirs.headers.get('content-type'))
  assert.ok(Number(response.headers.get('retry-after')) > 890)
  const [ours, their] = [await response.json(), await theirs.json()]
  delete ours.retry_after_ms
  delete their.retry_after_ms
  assert.deepEqual(ours, their)
  assert.equal(denial(answer, { status: 403 }).status, 403)
  assert.deepEqual(Object.keys(rateLimitHeaders(answer, 'none')), ['Retry-After'])
})

test('what was not counted has no headers', async () => {
  assert.deepEqual(
    rateLimitHeaders(await weir.check('login', '203.0.113.10', { exempt: true })),
    {},
  )
  const away = new Weir({ url: 'http://127.0.0.1:1', onError: 'deny', on: { error() {} } })
  assert.deepEqual(rateLimitHeaders(await away.check('login', 'x')), { 'Retry-After': '1' })
})

test('names are quoted, and headers are read back', () => {
  const answer = {
    allowed: true,
    policy: 'a"b\\c\u00fc',
    rule: 'default',
    limit: 5,
    remaining: 3,
    retryAfterMs: 0,
    resetAfterMs: 1500,
    source: 'store',
  }
  const headers = rateLimitHeaders(answer)
  assert.equal(headers.RateLimit, '"a\\"b\\\\c?";r=3;t=2')
  assert.deepEqual(parseRateLimit(headers.RateLimit), [{ name: 'a"b\\c?', r: 3, t: 2 }])
})
