/* seeds.test.mjs - examples/seeds: functions that teams had before weir, each a few lines on top of
 * the client. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { webcrypto } from 'node:crypto'
import { createRequire } from 'node:module'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { freePort, load, scratch, serve } from './support.mjs'

const { CONVEX, DATABASE_URL, NODE_MODULES, PACKAGE, PG, WHY_NO_CONVEX, WHY_NO_POSTGRES } = process.env
const { startWeir } = await load('testing.js')
// As in Deno and edge functions. Node.js 18 has it in a module alone.
globalThis.crypto ??= webcrypto
const POLICIES = `version: 1
policies:
  cleanup:
    retry_after: soonest
    rules:
      global: {limit: 1000 per 60s}
      ip: {limit: 5 per 60s, by: ip_hash}
      email: {limit: 3 per 60m, by: email_hash}
`
let server
before(async () => {
  server = await serve({ policies: POLICIES, args: ['--trust-client-clock'] })
  process.env.WEIR_URL = server.url
})
after(() => server.stop())

/** A new instance of an example, as another isolate has it. */
let made = 0
async function example(name) {
  const source = readFileSync(`examples/seeds/${name}.ts`, 'utf8')
  const code = NODE_MODULES
    ? createRequire(pathToFileURL(path.join(NODE_MODULES, 'x')))('esbuild-wasm').transformSync(
        source,
        { loader: 'ts', format: 'esm' },
      ).code
    : execFileSync('esbuild', ['--loader=ts', '--format=esm'], { input: source, encoding: 'utf8' })
  const own = scratch(`${name}-${made++}.mjs`)
  const at = (file) => `'${pathToFileURL(path.resolve(PACKAGE, file))}'`
  // The deadline of a test is longer than that of an edge function.
  const local = code
    .replaceAll(/["']weir-client["']/g, at('index.js'))
    .replaceAll(/["']weir-client\/http["']/g, at('http.js'))
    .replaceAll('new Weir({', 'new Weir({ timeout: 10_000,')
  writeFileSync(own, local)
  return import(pathToFileURL(own))
}

test('each of them is run here', () => {
  assert.deepEqual(readdirSync('examples/seeds').sort(), [
    'assert_rate_limit.ts',
    'check_rate_limit.ts',
    'durable_rate_limit.ts',
    'enforce_rate_limits.ts',
    'hybrid_limiter.ts',
  ])
})

test('durableRateLimit: instances share one limit, in a window of any time', async () => {
  const [one, two] = [await example('durable_rate_limit'), await example('durable_rate_limit')]
  const now = 1_700_000_000_000
  const ask = (of, at) =>
    of.durableRateLimit('rl:calculate-apo:user-1', { max: 3, windowMs: 60_000, now: at })
  assert.deepEqual(
    [
      (await ask(one, now)).allowed,
      (await ask(two, now)).allowed,
      (await ask(one, now)).remaining,
      (await ask(two, now)).allowed,
    ],
    [true, true, 0, false],
  )
  assert.deepEqual(await ask(two, now + 60_000), {
    allowed: true,
    remaining: 2,
    resetMs: now + 120_000,
  })
})

test('durableRateLimit: denies after five failures in a row', async () => {
  const { WEIR_URL } = process.env
  process.env.WEIR_URL = `http://127.0.0.1:${await freePort()}`
  const { durableRateLimit } = await example('durable_rate_limit')
  const words = []
  for (let i = 0; i < 6; i++)
    words.push((await durableRateLimit('a', { max: 3, windowMs: 60_000 })).allowed)
  assert.deepEqual(words, [true, true, true, true, false, false])
  process.env.WEIR_URL = WEIR_URL
})

const skip = DATABASE_URL && PG ? false : (WHY_NO_POSTGRES ?? 'no DATABASE_URL')
test(
  'checkRateLimit: of requests at once in three instances, exactly as many are allowed as the limit says',
  { skip },
  async () => {
    const { Pool } = createRequire(pathToFileURL(path.join(PG, 'x')))('pg')
    const pool = new Pool({ connectionString: DATABASE_URL, max: 4 })
    const supabase = {
      async rpc(name, parameters) {
        const named = Object.keys(parameters).map((n, i) => `${n} => $${i + 1}`)
        try {
          return {
            data: (
              await pool.query(`SELECT * FROM public.${name}(${named})`, Object.values(parameters))
            ).rows,
            error: null,
          }
        } catch (error) {
          return { data: null, error }
        }
      },
    }
    const instances = [
      await example('check_rate_limit'),
      await example('check_rate_limit'),
      await example('check_rate_limit'),
    ]
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        instances[i % 3].checkRateLimit(supabase, '203.0.113.7', '/api/login', 5, 864e5),
      ),
    )
    assert.equal(answers.filter((a) => a.isAllowed).length, 5)
    assert.ok(answers.every((a) => a.limit === 5 && a.resetAt > new Date()))
    await pool.end()
  },
)

test('checkContributionLimit: says where the answer is from, and counts', async () => {
  const { checkContributionLimit, getRateLimitStats } = await example('hybrid_limiter')
  const answers = []
  for (let i = 0; i < 5; i++) answers.push(await checkContributionLimit('a7f9', 'template_view', 3))
  assert.deepEqual(
    answers.map((a) => a.allowed),
    [true, true, true, false, false],
  )
  assert.deepEqual(
    answers.map((a) => a.source),
    ['db', 'db', 'db', 'db', 'cache'],
  )
  assert.deepEqual(getRateLimitStats(), {
    checks: 5,
    denied: 2,
    fromCache: 1,
    fallbacks: 0,
    implementation: 'weir',
  })
})

test('enforceRateLimits: three tiers, the soonest time to retry, and the response', async () => {
  const { cleanup, enforceRateLimits } = await example('enforce_rate_limits')
  for (let i = 0; i < 3; i++)
    assert.equal(await enforceRateLimits('A@example.com ', '203.0.113.7'), null)
  const denied = await enforceRateLimits('a@example.com', '203.0.113.7')
  assert.ok(
    denied.limit === 3 && denied.currentCount === 3 && denied.retryAfter > 3500,
    JSON.stringify(denied),
  )
  for (let i = 0; i < 2; i++)
    assert.equal(await enforceRateLimits(`${i}@example.com`, '203.0.113.7'), null)
  // Both its tiers deny: the address may try again before the email may.
  for (let i = 0; i < 3; i++) await enforceRateLimits('b@example.com', `198.51.100.${i}`)
  const response = await cleanup('b@example.com', '203.0.113.7')
  assert.equal(response.status, 429)
  assert.ok(Number(response.headers.get('retry-after')) <= 60)
  assert.equal((await response.json()).error.code, 'ORPHAN_CLEANUP_003')
})

test('assertRateLimit: throws, leaves a breadcrumb without the user, and spares what is exempt', async () => {
  const { assertRateLimit, getLimits, RateLimitError } = await example('assert_rate_limit')
  const limits = getLimits({ RATE_LIMIT_REPORTS_PER_DAY: '2' })
  assert.deepEqual(limits['aiReport:onDemand'], { limit: 2, windowMs: 864e5 })
  assert.deepEqual(Object.keys(getLimits({ RATE_LIMIT_ENABLED_SCOPES: 'exercise:create' })), [
    'exercise:create',
  ])
  const breadcrumbs = []
  const ctx = { addBreadcrumb: (b) => breadcrumbs.push(b) }
  const ask = (exempt) =>
    assertRateLimit(ctx, 'user-17', {
      scope: 'aiReport:onDemand',
      ...limits['aiReport:onDemand'],
      exempt,
    })
  assert.equal((await ask()).remaining, 1)
  await ask()
  await assert.rejects(
    ask(),
    (error) =>
      error instanceof RateLimitError &&
      error.limit === 2 &&
      error.retryAfterMs > 0 &&
      error.scope === 'aiReport:onDemand',
  )
  assert.equal((await ask(true)).remaining, Infinity)
  assert.equal(breadcrumbs.length, 1)
  assert.match(breadcrumbs[0].data.userHash, /^[0-9a-f]{32}$/)
  assert.ok(!JSON.stringify(breadcrumbs).includes('user-17'))
})

test(
  'assertRateLimit and limited, in actions of Convex',
  { skip: CONVEX ? false : (WHY_NO_CONVEX ?? 'no CONVEX') },
  async () => {
    const module = (file) => import(pathToFileURL(path.join(CONVEX, file)))
    const { convexTest } = await module('convex-test/dist/index.js')
    const { actionGeneric, anyApi } = await module('convex/dist/esm/server/index.js')
    const { ConvexError } = await module('convex/dist/esm/values/index.js')
    const { Weir } = await load('index.js')
    const { limited } = await load('middleware/convex.js')
    const { assertRateLimit } = await example('assert_rate_limit')
    const weir = new Weir({ timeout: 10_000 })
    const user = async (ctx) => (await ctx.auth.getUserIdentity()).subject
    const limit = { scope: 'convex:report', limit: 2, windowMs: 864e5 }
    const reports = {
      make: actionGeneric({
        handler: async (ctx, { exempt }) =>
          (await assertRateLimit(ctx, await user(ctx), { ...limit, exempt })).remaining,
      }),
      guarded: actionGeneric({
        handler: limited(
          weir,
          { name: 'convex:guarded', limit: 1, window: '1d' },
          user,
          async () => 'done',
          { error: (data) => new ConvexError(data) },
        ),
      }),
    }
    const own = convexTest({
      modules: { './convex/_generated/api.js': async () => ({}), './convex/reports.js': async () => reports },
    })
    const [ann, bob] = ['ann', 'bob'].map((subject) => own.withIdentity({ subject }))
    const make = (who, args = {}) => who.action(anyApi.reports.make, args)
    assert.deepEqual([await make(ann), await make(ann), await make(bob)], [1, 0, 1])
    await assert.rejects(make(ann), /too many requests for convex:report/)
    assert.equal(await make(ann, { exempt: true }), Infinity)
    assert.equal(await ann.action(anyApi.reports.guarded, {}), 'done')
    await assert.rejects(
      ann.action(anyApi.reports.guarded, {}),
      (error) =>
        error instanceof ConvexError && error.data.code === 'denied' && error.data.retryAfterMs > 0,
    )
  },
)

test('startWeir: a real server whose clock the test sets', async () => {
  const own = await startWeir({ args: [] }, ({ args }) => serve({ policies: POLICIES, args }))
  const limit = { limit: 1, window: '15m' }
  own.clock.now = Date.parse('2026-01-01T00:00:00Z')
  assert.deepEqual(
    [(await own.weir.check(limit, 'a')).allowed, (await own.weir.check(limit, 'a')).allowed],
    [true, false],
  )
  own.clock.tick(15 * 60_000 - 1)
  assert.equal((await own.weir.check(limit, 'a')).retryAfterMs, 1)
  own.clock.tick(1)
  assert.equal((await own.weir.check(limit, 'a')).allowed, true)
  await own.stop()
  await assert.rejects(startWeir(), /install weir-server/)
})
