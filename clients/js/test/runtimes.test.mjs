/* runtimes.test.mjs - the same package in Node.js, Deno, Bun and workerd: three instances of each
 * share one exact limit. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { freePort, scratch, serve, until } from './support.mjs'

const { NODE_MODULES, PACKAGE, RUNTIMES, WHY_NO_RUNTIMES } = process.env
const here = path.dirname(fileURLToPath(import.meta.url))
const run = promisify(execFile)
const skip = RUNTIMES && process.arch === 'x64' ? false : (WHY_NO_RUNTIMES ?? 'no RUNTIMES')

const COMMANDS = {
  'Node.js': [process.execPath],
  Deno: [`${RUNTIMES}/@deno/linux-x64-glibc/deno`, 'run', '-A', '--no-config', '--no-lock'],
  Bun: [`${RUNTIMES}/@oven/bun-linux-x64/bin/bun`],
}

for (const [name, [program, ...words]] of Object.entries(COMMANDS)) {
  test(
    `${name}: of 1002 checks of three instances at once exactly 5 are allowed, and all else works`,
    { skip: name !== 'Node.js' && skip },
    async () => {
      const server = await serve()
      const away = `http://127.0.0.1:${await freePort()}`
      const heard = await Promise.all(
        [1, 2, 3].map(async () => {
          const { stdout } = await run(
            program,
            [
              ...words,
              path.join(here, 'runtimes/probe.mjs'),
              path.resolve(PACKAGE),
              server.url,
              away,
            ],
            { env: { ...process.env, DENO_NO_UPDATE_CHECK: '1', DENO_DIR: scratch('deno') } },
          )
          return JSON.parse(stdout)
        }),
      )
      assert.equal(
        heard.reduce((sum, { allowed }) => sum + allowed, 0),
        5,
        JSON.stringify(heard),
      )
      for (const { fallbacks, bySocket, status, retry } of heard) {
        assert.deepEqual(fallbacks, [
          ['fallback', true, 'unreachable'],
          ['fallback', false, 'unreachable'],
        ])
        assert.deepEqual([bySocket, status, retry], [100, 429, true])
      }
      await server.stop()
    },
  )
}

/** The worker as one module, as bundlers make it. */
async function bundle() {
  const { build } = createRequire(pathToFileURL(path.join(NODE_MODULES, 'x')))('esbuild-wasm')
  const names = {
    'weir-client': 'index.js',
    'weir-client/fetch': 'middleware/fetch.js',
    'weir-client/workers': 'workers.js',
  }
  const alias = Object.fromEntries(
    Object.entries(names).map(([from, to]) => [from, path.resolve(PACKAGE, to)]),
  )
  const { outputFiles } = await build({
    entryPoints: [path.join(here, 'runtimes/worker.mjs')],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    external: ['cloudflare:sockets'],
    write: false,
    plugins: [
      {
        name: 'own',
        setup: (b) =>
          b.onResolve({ filter: /^weir-client/ }, ({ path: of }) => ({ path: alias[of] })),
      },
    ],
  })
  return outputFiles[0].text
}

test(
  'workerd: three workers share one exact limit, with one client for all requests of each',
  { skip },
  async () => {
    const server = await serve()
    mkdirSync(scratch('workerd'), { recursive: true })
    writeFileSync(scratch('workerd/worker.js'), await bundle())
    const workers = []
    for (let i = 0; i < 3; i++) {
      const port = await freePort()
      writeFileSync(
        scratch(`workerd/${i}.capnp`),
        `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .own), (name = "internet", network = (allow = ["private", "public"]))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]);
const own :Workerd.Worker = (modules = [(name = "worker", esModule = embed "worker.js")], compatibilityDate = "2026-01-01",
  bindings = [(name = "WEIR_URL", text = "${server.url}")]);
`,
      )
      const child = spawn(
        `${RUNTIMES}/@cloudflare/workerd-linux-64/bin/workerd`,
        ['serve', scratch(`workerd/${i}.capnp`)],
        { stdio: ['ignore', 'inherit', 'inherit'] },
      )
      process.once('exit', () => child.kill('SIGKILL'))
      const url = `http://127.0.0.1:${port}`
      await until(
        () =>
          fetch(`${url}/many`).then(
            (r) => r.ok,
            () => false,
          ),
        'workerd',
      )
      workers.push({ url, child })
    }
    const headers = { 'cf-connecting-ip': '198.51.100.9' }
    const answers = await Promise.all(
      Array.from({ length: 300 }, async (_, i) => {
        const response = await fetch(workers[i % 3].url, { headers })
        await response.text()
        return response.status
      }),
    )
    assert.deepEqual(
      [answers.filter((s) => s === 200).length, answers.filter((s) => s === 429).length],
      [5, 295],
    )
    for (const { url, child } of workers) {
      assert.deepEqual(new Set(await (await fetch(`${url}/many`)).json()), new Set(['store']))
      assert.deepEqual(await (await fetch(`${url}/socket`)).json(), Array(20).fill('store'))
      child.kill('SIGKILL')
      await once(child, 'close')
    }
    await server.stop()
  },
)
