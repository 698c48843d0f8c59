/* runtimes.test.mjs - the same package in Node.js, Deno, Bun and workerd: three instances of each
 * share one exact limit. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import readline from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { LIMIT } from './runtimes/limit.mjs'
import { storm } from './runtimes/storm.mjs'
import { freePort, scratch, serve, until } from './support.mjs'

const { CONVEX, NODE_MODULES, PACKAGE, RUNTIMES, WHY_NO_CONVEX, WHY_NO_RUNTIMES } = process.env
const here = path.dirname(fileURLToPath(import.meta.url))
const run = promisify(execFile)
const skip = RUNTIMES && process.arch === 'x64' ? false : (WHY_NO_RUNTIMES ?? 'no RUNTIMES')

const QUIET = { ...process.env, DENO_NO_UPDATE_CHECK: '1', DENO_DIR: scratch('deno') }

const COMMANDS = {
  'Node.js': [process.execPath],
  Deno: [`${RUNTIMES}/@deno/linux-x64-glibc/deno`, 'run', '--allow-net', '--allow-read', '--no-prompt', '--no-config', '--no-lock'],
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
            { env: QUIET },
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
async function bundle(file = path.join(here, 'runtimes/worker.mjs')) {
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
    entryPoints: [file],
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

/** So many of them, each a process with a port of its own. */
async function startWorkers(count, server, file) {
  mkdirSync(scratch('workerd'), { recursive: true })
  writeFileSync(scratch('workerd/worker.js'), await bundle(file))
  const start = async (i) => {
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
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    const url = `http://127.0.0.1:${port}`
    const ask = (where) => fetch(`${url}${where}`)
    await until(
      () =>
        ask('/many').then(
          () => true,
          () => false,
        ),
      'workerd',
    )
    const stop = () => (kill(), process.removeListener('exit', kill), once(child, 'close'))
    return { url, stop }
  }
  return Promise.all(Array.from({ length: count }, (_, i) => start(i)))
}

test(
  'workerd: three workers share one exact limit, with one client for all requests of each',
  { skip },
  async () => {
    const server = await serve()
    const workers = await startWorkers(3, server)
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
    for (const { url, stop } of workers) {
      assert.deepEqual(new Set(await (await fetch(`${url}/many`)).json()), new Set(['store']))
      assert.deepEqual(await (await fetch(`${url}/socket`)).json(), Array(20).fill('store'))
      await stop()
    }
    await server.stop()
  },
)

const isOld = Number(process.versions.node.split('.')[0]) < 20
const unlessNew = skip || (isOld && 'miniflare needs Node.js 20')
test('miniflare: three workers share one exact limit', { skip: unlessNew }, async () => {
  const { Miniflare } = createRequire(pathToFileURL(path.join(RUNTIMES, 'x')))('miniflare')
  const server = await serve()
  const script = await bundle()
  const workers = [1, 2, 3].map(
    () =>
      new Miniflare({
        modules: true,
        script,
        compatibilityDate: '2026-01-01',
        bindings: { WEIR_URL: server.url },
      }),
  )
  const headers = { 'cf-connecting-ip': '198.51.100.9' }
  const statuses = await Promise.all(
    Array.from({ length: 300 }, async (_, i) => {
      const response = await workers[i % 3].dispatchFetch('http://own/', { headers })
      await response.text()
      return response.status
    }),
  )
  assert.deepEqual(
    [200, 429].map((status) => statuses.filter((s) => s === status).length),
    [5, 295],
  )
  for (const worker of workers) {
    const response = await worker.dispatchFetch('http://own/socket')
    assert.deepEqual(await response.json(), Array(20).fill('store'))
    await worker.dispose()
  }
  await server.stop()
})

/** Three instances that go on asking: what they say, how they are stopped, what they have found. */
function processes([program, ...words], server) {
  const urls = [server.url, server.url, server.url.replace('http', 'weir')]
  return urls.map((url, i) => {
    const child = spawn(
      program,
      [...words, path.join(here, 'runtimes/storm.mjs'), path.resolve(PACKAGE), url, `i${i}`],
      { stdio: ['pipe', 'pipe', 'inherit'], env: QUIET },
    )
    const said = []
    let isEnded = false
    readline.createInterface({ input: child.stdout }).on('line', (line) => said.push(line))
    child.once('close', () => (isEnded = true))
    return {
      said,
      async stop() {
        child.stdin.end()
        await until(() => isEnded, 'the end of an instance')
        return JSON.parse(said.at(-1))
      },
    }
  })
}

async function workers(server) {
  return (await startWorkers(3, server)).map(({ url, stop }, i) => {
    const said = []
    let isOver = false
    const found = storm(
      async (id) =>
        (await fetch(`${url}/storm?id=w${i}-${id}`).then((r) => r.json())),
      () => isOver,
      (word) => said.push(word),
    )
    found.catch(() => {})
    return {
      said,
      async stop() {
        isOver = true
        const heard = await found
        await stop()
        return heard
      },
    }
  })
}

const EVENTS = {
  'while the server is handed over': (server) => server.handover(),
  'while the server is killed and started again on its files': async (server, instances, again) => {
    await server.kill()
    for (const { said } of instances)
      await until(() => said.includes('lost'), 'an answer that is lost')
    return again()
  },
}

for (const [event, happen] of Object.entries(EVENTS))
  for (const name of ['Node.js', 'Deno', 'Bun', 'workerd'])
    test(
      `${name}: three instances are allowed exactly what the limit says, ${event}`,
      { skip: name !== 'Node.js' && skip },
      async () => {
        const settings = {
          store: `file:${scratch(`${name} ${event}`.replace(/\W/g, ''))}`,
          args: ['--sync', 'always'],
        }
        let server = await serve(settings)
        const { port } = server
        const instances =
          name === 'workerd' ? await workers(server) : processes(COMMANDS[name], server)
        for (const { said } of instances) await until(() => said.includes('began'), name)
        server = (await happen(server, instances, () => serve({ ...settings, port }))) ?? server
        const found = await Promise.all(instances.map((instance) => instance.stop()))
        assert.equal(
          found.reduce((sum, { allowed }) => sum + allowed, 0),
          LIMIT.limit,
          JSON.stringify(found),
        )
        assert.ok(found.every(({ asked }) => asked >= 334))
        await server.stop()
      },
    )

const convex = (name) => pathToFileURL(path.join(CONVEX ?? '', name)).href

/** The program under a heading of the page, as a file that finds the package. */
function program(heading) {
  const page = readFileSync('docs/javascript-runtimes.md', 'utf8')
  const [, code] = new RegExp(`## ${heading}\n.*?\`\`\`js\n(.*?)\`\`\``, 's').exec(page)
  const file = scratch(`${heading.replace(/\W/g, '')}.mjs`)
  const at = (name) => pathToFileURL(path.resolve(PACKAGE, name)).href
  const found = code
    .replaceAll("'weir-client'", `'${at('index.js')}'`)
    .replaceAll("'weir-client/http'", `'${at('http.js')}'`)
    .replaceAll(/'weir-client\/(fetch|next|convex)'/g, (_, name) => `'${at(`middleware/${name}.js`)}'`)
    .replaceAll("'convex/server'", `'${convex('convex/dist/esm/server/index.js')}'`)
    // The deadline of a test is longer.
    .replaceAll('new Weir({', 'new Weir({ timeout: 20_000,')
  writeFileSync(file, heading === 'Cloudflare Workers' ? code : found)
  return file
}

for (const name of ['Node.js', 'Deno', 'Bun', 'Cloudflare Workers'])
  test(
    `${name}: the program of the page allows five logins, and answers the sixth with 429`,
    { skip: name !== 'Node.js' && skip },
    async () => {
      const server = await serve()
      const port = await freePort()
      const file = program(name)
      const env = { ...QUIET, WEIR_URL: server.url, PORT: `${port}` }
      const isWorker = name === 'Cloudflare Workers'
      const [worker] = isWorker ? await startWorkers(1, server, file) : []
      const [command, ...words] = COMMANDS[name] ?? []
      const more = name === 'Deno' ? ['--allow-env'] : []
      const child = isWorker
        ? undefined
        : spawn(command, [...words, ...more, file], { env, stdio: ['ignore', 'inherit', 'inherit'] })
      const kill = () => child?.kill('SIGKILL')
      process.once('exit', kill)
      const url = worker?.url ?? `http://127.0.0.1:${port}`
      const headers = { 'cf-connecting-ip': '198.51.100.9' }
      const statuses = []
      const ask = async () => statuses.push((await fetch(url, { headers })).status)
      await until(
        () =>
          ask().then(
            () => true,
            () => false,
          ),
        name,
      )
      while (statuses.length < 6) await ask()
      assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429])
      kill()
      await worker?.stop()
      process.removeListener('exit', kill)
      await server.stop()
    },
  )

/** What the module of the page answers to a request, called as its framework does. */
const CALLED = {
  'Next.js': (module) => module.GET,
  async Convex(module) {
    const { convexTest } = await import(convex('convex-test/dist/index.js'))
    const own = convexTest({
      modules: { './convex/_generated/api.js': async () => ({}), './convex/http.js': async () => module },
    })
    return ({ headers }) => own.fetch('/login', { headers })
  },
}

for (const [name, calledIn] of Object.entries(CALLED))
  test(
    `${name}: the module of the page allows five logins, and answers the sixth with 429`,
    { skip: name === 'Convex' && !CONVEX && (WHY_NO_CONVEX ?? 'no CONVEX') },
    async () => {
      const server = await serve()
      process.env.WEIR_URL = server.url
      const answer = await calledIn(await import(pathToFileURL(program(name)).href))
      const headers = { 'x-forwarded-for': '203.0.113.99, 198.51.100.9' }
      const statuses = []
      for (let i = 0; i < 6; i++)
        statuses.push((await answer(new Request('http://127.0.0.1/login', { headers }))).status)
      assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429])
      await server.stop()
    },
  )
