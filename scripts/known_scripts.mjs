#!/usr/bin/env node
/* known_scripts.mjs - the Lua scripts of limiters on npm: which there are, and which are recognised.
 *
 *     scripts/known_scripts.mjs [PACKAGE...]      all of them, or these; needs npm, takes minutes
 *
 * Goes over all releases of each package, finds the scripts in their sources, and compares their
 * SHA-1 with src/server/resp/known_scripts.c. Prints the table of docs/resp.md. A script that is not
 * recognised is printed too, and is an error: read what it does, and add it to that file. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import vm from 'node:vm'

const TABLE = new URL('../src/server/resp/known_scripts.c', import.meta.url)
const PACKAGES = [
  'rate-limiter-flexible',
  'rate-limit-redis',
  '@fastify/rate-limit',
  'hono-rate-limiter',
  '@hono-rate-limiter/redis',
  '@nest-lab/throttler-storage-redis',
  'nestjs-throttler-storage-redis',
]

export const sha1 = (text) => createHash('sha1').update(text).digest('hex')

/** SHA-1 → what the script does, as in known_scripts.c. */
export const recognised = () =>
  new Map(
    [...fs.readFileSync(TABLE, 'utf8').matchAll(/\{ "([0-9a-f]{40})", SCRIPT_(\w+) \}/g)].map(
      ([, hash, kind]) => [hash, kind],
    ),
  )

const TOKEN =
  /\/\/[^\n]*|\/\*[^]*?\*\/|`(?:\\[^]|[^`\\])*`|'(?:\\[^]|[^'\\\n])*'|"(?:\\[^]|[^"\\\n])*"|(?<=[(,=:[!&|?{};]\s*)\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n])+\//g
const CALLS = /^(?:\s*\.(?:replaceAll|replace|trim)\([^()]*\))*/

/** The scripts in a source of JavaScript, as it would send them: texts, and what is called on them. */
function scriptsOf(source) {
  const found = []
  for (const { 0: token, index } of source.matchAll(TOKEN)) {
    if (!/^['"`]/.test(token) || !/redis\.p?call/.test(token)) continue
    const [calls] = source.slice(index + token.length).match(CALLS)
    found.push(vm.runInNewContext(token + calls))
  }
  return found
}

/** The scripts in a package's folder, each once. */
export function scriptsIn(folder) {
  const files = fs.readdirSync(folder, { withFileTypes: true, recursive: true })
  const found = new Set()
  for (const { name, parentPath, path: parent } of files) {
    const file = path.join(parentPath ?? parent, name)
    const inside = path.relative(folder, file)
    if (!/\.[cm]?js$/.test(name) || /(^|\/)(\.|node_modules|test|spec|benchmark|example)/.test(inside)) continue
    for (const text of scriptsOf(fs.readFileSync(file, 'utf8'))) found.add(text)
  }
  return [...found]
}

const npm = (folder, ...words) =>
  execFileSync('npm', [...words, '--silent'], { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 26 })

/** SHA-1 → { text, releases: { package: [version, …] } } */
function collect(packages) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'weir-scripts.'))
  const all = new Map()
  try {
    for (const name of packages)
      for (const version of [JSON.parse(npm(folder, 'view', name, 'versions', '--json'))].flat()) {
        const archive = npm(folder, 'pack', `${name}@${version}`).trim().split('\n').at(-1)
        const unpacked = path.join(folder, 'unpacked')
        fs.mkdirSync(unpacked)
        execFileSync('tar', ['xzf', archive, '-C', unpacked], { cwd: folder })
        for (const text of scriptsIn(unpacked)) {
          const hash = sha1(text)
          if (!all.has(hash)) all.set(hash, { text, releases: {} })
          ;(all.get(hash).releases[name] ??= []).push(version)
        }
        fs.rmSync(unpacked, { recursive: true })
        fs.rmSync(path.join(folder, archive))
      }
  } finally {
    fs.rmSync(folder, { recursive: true })
  }
  return all
}

const range = (versions) =>
  versions.length > 2 ? `${versions[0]} to ${versions.at(-1)}` : versions.join(', ')

function main(packages) {
  const known = recognised()
  let status = 0
  for (const [hash, { text, releases }] of collect(packages)) {
    const who = Object.entries(releases).map(([name, versions]) => `${name} ${range(versions)}`)
    console.log(`| \`${hash}\` | ${known.get(hash) ?? 'not recognised'} | ${who.join('; ')} |`)
    if (known.has(hash)) continue
    status = 1
    console.error(`${hash} is not recognised:\n${text}`)
  }
  return status
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  process.exitCode = main(process.argv.length > 2 ? process.argv.slice(2) : PACKAGES)
