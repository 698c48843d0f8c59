/* size.test.mjs - the package stays small, and its parts can be imported in every way. */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { load } from './support.mjs'

const MOST = 3000 // bytes of the core, bundled, minified and compressed
const require = createRequire(pathToFileURL(path.join(process.env.NODE_MODULES, 'x')))

test('the core is at most 3 kB, minified and compressed', async () => {
  const { build } = require('esbuild-wasm')
  const { outputFiles } = await build({
    stdin: {
      contents: "export { Weir, RateLimitError } from './index.js'",
      resolveDir: process.env.PACKAGE,
    },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    write: false,
  })
  const size = gzipSync(outputFiles[0].contents, { level: 9 }).length
  console.log(`# core: ${outputFiles[0].contents.length} bytes, ${size} compressed`)
  assert.ok(size <= MOST, `${size} bytes`)
})

test('there are no dependencies', () => {
  const own = JSON.parse(readFileSync('clients/js/package.json', 'utf8'))
  assert.equal(own.dependencies, undefined)
  assert.equal(own.sideEffects, false)
})

test("the version is the server's", () => {
  const [, version] = /^  version: '(.*)',$/m.exec(readFileSync('meson.build', 'utf8'))
  assert.equal(JSON.parse(readFileSync('clients/js/package.json', 'utf8')).version, version)
})

test('every entry can be imported and required', async () => {
  const { exports } = JSON.parse(readFileSync('clients/js/package.json', 'utf8'))
  for (const [name, places] of Object.entries(exports)) {
    if (typeof places === 'string') continue
    const module = await load(places.import.replace('./dist/', ''))
    const common = require(path.join(process.env.PACKAGE, places.require.replace('./dist/', '')))
    assert.deepEqual(
      Object.keys(common)
        .filter((key) => key !== '__esModule')
        .sort(),
      Object.keys(module).sort(),
      name,
    )
  }
})
