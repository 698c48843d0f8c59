/* types.test.mjs - with what `weir policy types` writes, the compiler finds mistakes in checks. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { POLICIES, scratch } from './support.mjs'

const { NODE_MODULES, PACKAGE, WEIR } = process.env

const USES = `import { Weir } from 'weir-client'
import { reserve } from 'weir-client/reserve'
import { limit } from 'weir-client/express'
import type { Policies } from './policies'
const weir = new Weir<Policies>()
const plain = new Weir()
export const good = [
  weir.check('login', { ip: '203.0.113.7' }), weir.check('login', '203.0.113.7'), weir.check('cleanup', { ip: 'a', email: 'b' }),
  weir.check('query', 'a', { plan: 'paid' }), weir.check(['login', 'query'], { ip: 'a', tenant: 'b' }),
  weir.check({ limit: 5, window: '1m' }, 'a'), weir.limit('login').check('a'), weir.limit({ limit: 1, window: 5 }).charge('a', { cost: 2 }),
  plain.check('anything', { at: 'all' }), plain.check('anything', 'a', { plan: 'any' }), reserve(weir, 'query', 'a', { ttl: '1m' }), limit(weir, 'login'),
]
export const bad = [
  // @ts-expect-error there is no such policy
  weir.check('logn', '203.0.113.7'),
  // @ts-expect-error the attribute is missing
  weir.check('login', { user: 'a' }),
  // @ts-expect-error one of two attributes is missing
  weir.check('cleanup', { ip: 'a' }),
  // @ts-expect-error it counts by two attributes, so a key cannot stand for one
  weir.check('cleanup', 'a'),
  // @ts-expect-error no rule has this plan
  weir.check('query', 'a', { plan: 'free' }),
  // @ts-expect-error there is no such option
  weir.check('query', 'a', { costs_: 1 }),
  // @ts-expect-error there is no such algorithm
  weir.check({ limit: 5, window: '1m', algorithm: 'sliding' }, 'a'),
]
`

test('right uses compile, and each wrong one does not, as ESM and as CommonJS', () => {
  const folder = scratch('typed')
  mkdirSync(path.join(folder, 'node_modules/weir-client'), { recursive: true })
  symlinkSync(
    path.resolve('clients/js/package.json'),
    path.join(folder, 'node_modules/weir-client/package.json'),
  )
  symlinkSync(path.resolve(PACKAGE), path.join(folder, 'node_modules/weir-client/dist'))
  writeFileSync(path.join(folder, 'policies.yaml'), POLICIES)
  writeFileSync(
    path.join(folder, 'policies.d.ts'),
    execFileSync(WEIR, ['policy', 'types', path.join(folder, 'policies.yaml')]),
  )
  writeFileSync(path.join(folder, 'uses.mts'), USES.replace("'./policies'", "'./policies.js'"))
  writeFileSync(path.join(folder, 'uses.cts'), USES)
  const compiled = spawnSync(
    process.execPath,
    [
      path.join(NODE_MODULES, 'typescript/bin/tsc'),
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--preserveSymlinks',
      '--target',
      'es2022',
      '--lib',
      'es2022,dom,esnext.disposable',
      '--module',
      'nodenext',
      'uses.mts',
      'uses.cts',
    ],
    { cwd: folder, encoding: 'utf8' },
  )
  assert.equal(compiled.stdout, '')
  assert.equal(compiled.status, 0)
})

test('the reference says what the types say', () => {
  const written = execFileSync(process.execPath, ['clients/js/reference.mjs', process.env.PACKAGE], {
    encoding: 'utf8',
  })
  assert.equal(readFileSync('docs/javascript-reference.md', 'utf8'), written)
})
