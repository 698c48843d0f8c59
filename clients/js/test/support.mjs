/* support.mjs - for the tests: a real weir server, and servers that misbehave.
 *
 * WEIR is the program, PACKAGE the folder of the compiled package. A server has a port of its own
 * and counts in memory. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import readline from 'node:readline'
import { pathToFileURL } from 'node:url'

export const PATIENCE = 30_000
export const load = (file) => import(pathToFileURL(path.join(process.env.PACKAGE, file)))

const folder = mkdtempSync(path.join(os.tmpdir(), 'weir-js.'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
export const scratch = (name) => path.join(folder, name)

export const POLICIES = `version: 1
policies:
  login: {limit: 5 per 15m, by: ip}
  second: {limit: 2 per 1s, by: user}
  query: {limit: 10 per 1d, by: tenant, plans: {paid: 20 per 1d}}
  wide: {limit: 1000000 per 1d, by: user, algorithm: fixed_window}
  bucket: {limit: 10 per 1s, burst: 10, by: user, algorithm: token_bucket}
  cleanup:
    rules:
      global: {limit: 1000 per 60s}
      ip: {limit: 5 per 60s, by: ip}
      email: {limit: 3 per 60m, by: email}
`

let servers = 0

/** `weir serve`; resolves when it is ready. */
export async function serve({
  policies = POLICIES,
  args = [],
  port = 0,
  store = 'memory:',
  threads = 1,
  listen = `127.0.0.1:${port}`,
} = {}) {
  const config = scratch(`policies-${servers++}.yaml`)
  writeFileSync(config, policies)
  const child = spawn(
    process.env.WEIR,
    [
      'serve',
      '--store',
      store,
      '--config',
      config,
      '--listen',
      listen,
      '--threads',
      String(threads),
      '--log-format',
      'json',
      ...args,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let { pid } = child // that of its successor, after a handover
  const signal = (name) => process.kill(pid, name)
  const kill = () => signal('SIGKILL')
  process.once('exit', kill)
  let hasEnded = false
  const ended = once(child, 'close').then(([status, signal]) => {
    hasEnded = true
    process.removeListener('exit', kill)
    return status ?? signal
  })
  const said = []
  const events = (name) => said.filter((line) => line.includes(`"event":"${name}"`)).map(JSON.parse)
  let address
  const ready = new Promise((resolve) => {
    readline.createInterface({ input: child.stderr }).on('line', (line) => {
      said.push(line)
      const event = line.startsWith('{') ? JSON.parse(line) : {}
      if (event.event === 'listening') address ??= event.address
      if (event.event === 'ready') resolve(true)
    })
  })
  if ((await Promise.race([ready, ended])) !== true) throw new Error(said.join('\n'))
  const end = (name) => () => {
    if (!hasEnded) signal(name)
    return ended
  }
  return {
    url: `http://${address}`,
    port: Number(address.split(':').at(-1)),
    pid,
    config,
    ended,
    stop: end('SIGTERM'),
    kill: end('SIGKILL'),
    signal,
    /** To a process of the same program; resolves when that serves. */
    async handover() {
      signal('SIGUSR2')
      await until(() => events('ready').length === 2, 'the successor')
      pid = Number(events('handover')[0].message.split(' ')[1])
    },
  }
}

/** An HTTP server that answers as `answer(request, response, body)` says. */
export async function misbehaving(answer) {
  const server = http.createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    await answer(request, response, body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

export async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

export async function until(condition, what = 'it') {
  for (const end = Date.now() + PATIENCE; Date.now() < end;) {
    const result = await condition()
    if (result) return result
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error(`waited for ${what}`)
}

/** A rejection that is caught by none fails the test that is running. */
export const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))
