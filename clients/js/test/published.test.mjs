/* published.test.mjs - the package as npm would publish it: its entries and its types are found by
 * every way of importing it, and nothing in package.json is wrong. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { scratch } from './support.mjs'

const { PACKAGE, PUBLISHED, WHY_NO_PUBLISHED } = process.env
const skip = !PUBLISHED
  ? (WHY_NO_PUBLISHED ?? 'no PUBLISHED')
  : Number(process.versions.node.split('.')[0]) < 20 && 'the checkers need Node.js 20'
const checker = (file) => import(pathToFileURL(path.join(PUBLISHED, file)))

/** The folder that is published, and its tarball. */
function pack() {
  const folder = scratch('package')
  mkdirSync(folder)
  cpSync(PACKAGE, path.join(folder, 'dist'), { recursive: true })
  for (const name of ['package.json', 'README.md'])
    cpSync(path.join('clients/js', name), path.join(folder, name))
  const said = execFileSync('npm', ['pack', '--json', '--ignore-scripts'], { cwd: folder })
  return { folder, tarball: path.join(folder, JSON.parse(said)[0].filename) }
}

test('are the types wrong? No; and publint has nothing to say', { skip }, async () => {
  const { folder, tarball } = pack()
  const { checkPackage, createPackageFromTarballData } = await checker(
    '@arethetypeswrong/core/dist/index.js',
  )
  const { problems, entrypoints } = await checkPackage(
    createPackageFromTarballData(new Uint8Array(readFileSync(tarball))),
  )
  // Resolution of before `exports`, which only the main entry is for.
  const found = problems.filter(
    ({ kind, resolutionKind }) => !(kind === 'NoResolution' && resolutionKind === 'node10'),
  )
  assert.deepEqual(found, [])
  assert.ok(Object.keys(entrypoints).length > 20)
  const { publint } = await checker('publint/src/index-node.js')
  const { messages } = await publint({ pkgDir: folder, strict: true, pack: false })
  assert.deepEqual(messages, [])
})
