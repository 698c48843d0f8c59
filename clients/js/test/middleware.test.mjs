/* middleware.test.mjs - each middleware in the real framework, against a real server. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { load, serve } from './support.mjs'

const { PEERS, WHY_NO_PEERS } = process.env
const require = PEERS && createRequire(pathToFileURL(path.join(PEERS, 'x')))
const skip = PEERS
  ? Number(process.versions.node.split('.')[0]) < 20
    ? 'this framework needs Node.js 20'
    : false
  : (WHY_NO_PEERS ?? 'no PEERS')
const { Weir, RateLimitError } = await load('index.js')
const middleware = (name) => load(`middleware/${name}.js`)
let server, weir
before(async () => {
  server = await serve({
    policies:
      'version: 1\npolicies: {api: {limit: 2 per 1h, by: ip}, user: {limit: 2 per 1h, by: user}}\n',
  })
  weir = new Weir({ url: server.url, timeout: 10_000 })
})
after(() => server.stop())

/** The statuses of some requests; the last response has what a denied client gets. */
async function ask(url, n, headers = {}) {
  const statuses = []
  let response
  for (let i = 0; i < n; i++) {
    response = await fetch(url, { headers })
    statuses.push(response.status)
  }
  return { statuses, response, body: await response.text() }
}

async function denies({ statuses, response, body }) {
  assert.deepEqual(statuses, [200, 200, 429])
  assert.match(response.headers.get('content-type'), /^application\/problem\+json/)
  assert.ok(Number(response.headers.get('retry-after')) > 3500)
  assert.match(response.headers.get('ratelimit'), /;r=0;t=\d+$/)
  assert.equal(JSON.parse(body).code, 'denied')
}

async function listening(listener) {
  const own = http.createServer(listener).listen(0, '127.0.0.1')
  await once(own, 'listening')
  return {
    url: `http://127.0.0.1:${own.address().port}`,
    close: () => (own.closeAllConnections(), own.close()),
  }
}

test('handlers of fetch: headers on what is allowed, 429 on what is denied', async () => {
  const { limited } = await middleware('fetch')
  const handler = limited(
    weir,
    'api',
    { address: { hops: 1 } },
    async (request, extra) => new Response(`hello ${extra.x}`),
  )
  const request = (address) =>
    new Request('http://example.com/', { headers: { 'x-forwarded-for': `6.6.6.6, ${address}` } })
  const first = await handler(request('192.0.2.1'), { x: 1 })
  assert.deepEqual(
    [first.status, await first.text(), first.headers.get('x-ratelimit-remaining')],
    [200, 'hello 1', '1'],
  )
  await handler(request('192.0.2.1'), {})
  const denied = await handler(request('192.0.2.1'), {})
  assert.equal(denied.status, 429)
  assert.equal((await handler(request('192.0.2.2'), {})).status, 200)
  await assert.rejects(handler(new Request('http://example.com/'), {}), /no client address/)
})

test('handlers of fetch find the connection that Deno.serve and Bun.serve tell', async () => {
  const { limited } = await middleware('fetch')
  const handler = limited(weir, 'api', {}, () => new Response('hello'))
  const deno = { remoteAddr: { hostname: '192.0.2.10' } }
  const bun = { requestIP: () => ({ address: '192.0.2.10' }) }
  const statuses = []
  for (const info of [deno, bun, deno])
    statuses.push((await handler(new Request('http://example.com/'), info)).status)
  assert.deepEqual(statuses, [200, 200, 429])
})

test('a middleware does not guess who is counted', async () => {
  const { limit } = await middleware('next')
  assert.throws(() => limit(weir, 'api', {}), /who is counted/)
})

test('Next.js: a proxy passes on or answers, a route is limited', async () => {
  const { limit, route } = await middleware('next')
  const check = limit(weir, 'api', { address: { header: 'x-real-ip' } })
  const request = () =>
    new Request('http://example.com/', { headers: { 'x-real-ip': '192.0.2.20' } })
  assert.equal(await check(request()), undefined)
  assert.equal(await check(request()), undefined)
  assert.equal((await check(request())).status, 429)
  const GET = route(weir, 'user', { who: () => 'next', cost: 2 }, () => Response.json({}))
  assert.deepEqual([(await GET(request())).status, (await GET(request())).status], [200, 429])
})

test('who is counted, what it costs, and what is not counted', async () => {
  const { limited } = await middleware('fetch')
  const handler = limited(
    weir,
    'user',
    {
      who: (request) => request.headers.get('x-user'),
      cost: (request) => Number(request.headers.get('x-cost') ?? 1),
      status: 503,
      headers: 'legacy',
    },
    () => new Response('hello'),
  )
  const as = (user, cost) =>
    handler(
      new Request('http://example.com/', {
        headers: { ...(user && { 'x-user': user }), ...(cost && { 'x-cost': cost }) },
      }),
    )
  assert.equal((await as('ann', '2')).status, 200)
  const denied = await as('ann')
  assert.deepEqual([denied.status, denied.headers.get('ratelimit')], [503, null])
  for (let i = 0; i < 3; i++) assert.equal((await as()).status, 200)
})

test('Express', { skip }, async () => {
  const express = require('express')
  const { limit } = await middleware('express')
  const app = express()
  app.set('trust proxy', 1)
  app.use(limit(weir, 'api'))
  app.get('/', (request, response) => response.send(String(request.rateLimit.remaining)))
  app.use((error, request, response, next) => response.status(500).send(error.message))
  const own = await listening(app)
  await denies(await ask(own.url, 3, { 'x-forwarded-for': '6.6.6.6, 192.0.2.30' }))
  app.set('trust proxy', true)
  const { statuses, body } = await ask(own.url, 1, { 'x-forwarded-for': '6.6.6.6' })
  assert.deepEqual(statuses, [500])
  assert.match(body, /choose their own address/)
  own.close()
})

test('Fastify', { skip }, async () => {
  const { limit } = await middleware('fastify')
  const app = require('fastify')({ trustProxy: 1 })
  app.addHook('onRequest', limit(weir, 'api'))
  app.get('/', async () => 'hello')
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  await denies(await ask(url, 3, { 'x-forwarded-for': '6.6.6.6, 192.0.2.40' }))
  await app.close()
})

test('Hono', { skip }, async () => {
  const { Hono } = require('hono')
  const { limit } = await middleware('hono')
  const app = new Hono()
  app.use(limit(weir, 'api', { address: { header: 'cf-connecting-ip' } }))
  app.get('/', (c) => c.text('hello'))
  const statuses = []
  let response
  for (let i = 0; i < 3; i++) {
    response = await app.request('/', { headers: { 'cf-connecting-ip': '192.0.2.50' } })
    statuses.push(response.status)
    if (i === 0) assert.equal(response.headers.get('x-ratelimit-remaining'), '1')
  }
  await denies({ statuses, response, body: await response.text() })
})

test('Koa', { skip }, async () => {
  const Koa = require('koa')
  const { limit } = await middleware('koa')
  const app = new (Koa.default ?? Koa)()
  app.use(limit(weir, 'user', { who: (context) => context.get('x-user') }))
  app.use((context) => void (context.body = 'hello'))
  const own = await listening(app.callback())
  await denies(await ask(own.url, 3, { 'x-user': 'koa' }))
  own.close()
})

test('tRPC', { skip }, async () => {
  const { initTRPC, TRPCError } = require('@trpc/server')
  const { limit } = await middleware('trpc')
  const t = initTRPC.context().create()
  const procedure = t.procedure.use(
    limit(weir, 'user', {
      who: ({ ctx }) => ctx.user,
      error: (cause) => new TRPCError({ code: 'TOO_MANY_REQUESTS', cause }),
    }),
  )
  const caller = t.router({ hello: procedure.query(() => 'hello') }).createCaller({ user: 'trpc' })
  assert.equal(await caller.hello(), 'hello')
  assert.equal(await caller.hello(), 'hello')
  await assert.rejects(
    caller.hello(),
    (error) => error.code === 'TOO_MANY_REQUESTS' && error.cause instanceof RateLimitError,
  )
})

test('Convex: an action throws what its client understands', async () => {
  const { limited } = await middleware('convex')
  const handler = limited(
    weir,
    'user',
    (ctx, args) => args.user,
    async (_, args) => args.user,
    { error: (data) => Object.assign(new Error('denied'), { data }) },
  )
  assert.equal(await handler({}, { user: 'convex' }), 'convex')
  await handler({}, { user: 'convex' })
  await assert.rejects(
    handler({}, { user: 'convex' }),
    (error) => error.data.code === 'denied' && error.data.retryAfterMs > 3_500_000,
  )
})
