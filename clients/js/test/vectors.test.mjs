/* vectors.test.mjs - the requests and answers that all clients share, by each transport. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { load, serve, unhandled } from './support.mjs'

const { policies, vectors } = JSON.parse(readFileSync('tests/vectors/clients.json', 'utf8'))
const { OPERATOR_URL, PG, WHY_NO_POSTGRES } = process.env
const { Weir } = await load('index.js')
const { postgres } = await load('postgres.js')
const { socket } = await load('socket.js')
const { fetch: cheap } = await load('node.js')
after(() => assert.deepEqual(unhandled, []))

const NAMES = { retry_after_ms: 'retryAfterMs', reset_after_ms: 'resetAfterMs' }

/** What is wanted must be there; more may be. */
function fits(want, got) {
  if (want === 'positive') return got > 0
  if (Array.isArray(want)) return got?.length === want.length && want.every((w, i) => fits(w, got[i]))
  if (want && typeof want === 'object')
    return Object.keys(want).every((name) => fits(want[name], got?.[NAMES[name] ?? name]))
  return want === got
}

async function play(options, by) {
  const weir = new Weir({ timeout: 30_000, denyCache: false, ...options })
  for (const { name, verb, request, answer, error, not_by } of vectors) {
    if (not_by?.includes(by)) continue
    const { policy, policies, key, attributes, ...others } = request
    const { limit, window_ms, algorithm, start, block_for_ms, name: called, ...more } = others
    const own = window_ms && {
      limit,
      window: window_ms,
      algorithm,
      start,
      block_for_ms,
      name: called,
    }
    const heard = await weir
      .ask(verb, own || (policy ?? policies), attributes ?? key, more)
      .catch(({ code }) => code)
    assert.ok(fits(answer ?? error, heard), `${name}: ${JSON.stringify(heard)}`)
  }
  weir.close()
}

for (const [name, way] of [
  ['HTTP', ({ url }) => ({ url })],
  ['the HTTP of Node.js', ({ url }) => ({ url, fetch: cheap })],
  ['the HTTP of Node.js, each alone', ({ url }) => ({ url, fetch: cheap, batch: false })],
  ['HTTP, each alone', ({ url }) => ({ url, batch: false })],
  ['a socket', ({ url }) => ({ transport: socket({ url: url.replace('http', 'weir') }) })],
])
  test(`by ${name}`, async () => {
    const server = await serve({ policies: JSON.stringify(policies) })
    await play(way(server))
    await server.stop()
  })

test('by SQL', { skip: OPERATOR_URL && PG ? false : (WHY_NO_POSTGRES ?? 'no OPERATOR_URL') }, async () => {
  const { Pool } = createRequire(pathToFileURL(path.join(PG, 'x')))('pg')
  const pool = new Pool({ connectionString: OPERATOR_URL, max: 2 })
  await play({ transport: postgres(pool) }, 'sql')
  await pool.end()
})
