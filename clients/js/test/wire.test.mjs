/* wire.test.mjs - the client of Node.js over HTTP: its connections, and what it leaves to fetch. */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import net from 'node:net'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { freePort, load, misbehaving, scratch, serve, unhandled, until } from './support.mjs'

const { Weir, fetch: cheap } = await load('node.js')
const { PACKAGE, RUNTIMES, WHY_NO_RUNTIMES } = process.env
const run = promisify(execFile)
const on = { error() {} }
const turn = () => new Promise((resolve) => setImmediate(resolve))
const ANSWER = '{"allowed":true,"rule":"default","source":"store"}'
const whole = (body = ANSWER, ...fields) =>
  ['HTTP/1.1 200 OK', `Content-Length: ${Buffer.byteLength(body)}`, ...fields, '', body].join('\r\n')

let server, certificates
before(async () => {
  certificates = scratch('certs')
  execFileSync('examples/tls/make-certs.sh', [certificates], { stdio: 'ignore' })
  server = await serve()
})
after(async () => {
  await server.stop()
  assert.deepEqual(unhandled, [])
})

/**
 * A server of bytes. `answer(socket, n)` is called for each request, which is the n-th of all, from 1.
 * It knows how many connections there were, and has those that are open.
 */
async function bytewise(answer) {
  const open = new Set()
  const own = { open, connections: 0, requests: [] }
  const listener = net.createServer((socket) => {
    own.connections++
    open.add(socket)
    let rest = ''
    socket.setNoDelay(true).unref()
    socket.on('error', () => {})
    socket.on('close', () => open.delete(socket))
    socket.on('data', (bytes) => {
      rest += bytes
      for (let at; (at = rest.indexOf('\r\n\r\n') + 4) > 3; ) {
        const size = Number(/content-length: (\d+)/.exec(rest)[1])
        if (Buffer.byteLength(rest) < at + size) return
        own.requests.push(rest.slice(0, at + size))
        rest = rest.slice(at + size)
        answer(socket, own.requests.length)
      }
    })
  })
  listener.listen(0, '127.0.0.1').unref()
  await once(listener, 'listening')
  own.url = `http://127.0.0.1:${listener.address().port}`
  own.close = () => {
    for (const socket of open) socket.destroy()
    listener.close()
  }
  return own
}

const client = (url, more) => new Weir({ url, timeout: 10_000, onError: 'deny', on, ...more })

/** Of so many checks after each other, what decided each. */
async function ask(weir, times = 1, key = 'a') {
  const sources = []
  for (let i = 0; i < times; i++) sources.push((await weir.check('wide', key)).source)
  return sources
}

test('one connection is used again and again, and says what a server needs', async () => {
  const own = await bytewise((socket) => socket.write(whole()))
  const weir = client(`${own.url}/under/`, { token: 'secret', headers: { 'X-Team': 'é is not here' } })
  const plain = client(`${own.url}/under/`, { token: 'secret', headers: { 'X-Team': 'b' } })
  assert.deepEqual(new Set(await ask(plain, 50)), new Set(['store']))
  assert.equal(own.connections, 1)
  assert.equal(
    own.requests[7],
    [
      'POST /under/v1/check HTTP/1.1',
      `host: ${own.url.slice(7)}`,
      'content-type: application/json',
      'authorization: Bearer secret',
      'X-Team: b',
      'content-length: 27',
      '',
      '{"policy":"wide","key":"a"}',
    ].join('\r\n'),
  )
  assert.deepEqual(await ask(plain, 1, 'ü€😀'), ['store'])
  assert.match(own.requests.at(-1), /content-length: 35\r\n\r\n.*ü€😀/)
  // Which bytes it is, fetch knows.
  assert.deepEqual(await ask(weir), ['store'])
  assert.match(own.requests.at(-1), /user-agent/)
  own.close()
})

test('no header can begin a line of its own', async () => {
  const own = await bytewise((socket) => socket.write(whole()))
  const token = 'a\r\nx-injected: b'
  assert.deepEqual(await ask(client(own.url, { token })), ['fallback'])
  assert.deepEqual(own.requests, [])
  own.close()
})

test('a connection that its server is about to close is not used again', async () => {
  const own = await bytewise((socket) => socket.write(whole(ANSWER, 'Connection: close')))
  assert.deepEqual(await ask(client(own.url), 5), Array(5).fill('store'))
  assert.equal(own.connections, 5)
  own.close()
})

test('answers may be cut anywhere, come in chunks, or end with their connection', async () => {
  const answers = [
    `HTTP/1.1 100 Continue\r\n\r\n${whole()}`,
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${ANSWER.length.toString(16)}\r\n${ANSWER}\r\n0\r\n\r\n`,
    `HTTP/1.1 200 OK\r\n\r\n${ANSWER}`,
  ]
  for (const text of answers) {
    let cut = 0
    const own = await bytewise(async (socket) => {
      socket.write(text.slice(0, cut))
      await turn()
      await turn()
      if (answers.indexOf(text) < 2) socket.write(text.slice(cut))
      else socket.end(text.slice(cut))
    })
    const weir = client(own.url)
    for (cut = 1; cut < text.length; cut++) assert.deepEqual(await ask(weir), ['store'], `${cut}`)
    own.close()
  }
})

test('an answer that ends before it is whole is none, wherever it ends', async () => {
  const text = whole()
  for (const how of ['end', 'resetAndDestroy']) {
    let cut = 0
    const own = await bytewise((socket) => socket.write(text.slice(0, cut), () => socket[how]()))
    const weir = client(own.url)
    for (cut = 1; cut < text.length; cut++) {
      const { source, error } = await weir.check('wide', 'a')
      assert.deepEqual([source, error.code], ['fallback', 'unreachable'], `${how} ${cut}`)
    }
    assert.equal(own.requests.length, text.length - 1, 'each is sent once')
    own.close()
  }
})

test('what is no answer ends its connection, and the next request has another one', async () => {
  const own = await bytewise((socket, n) => socket.write(n % 2 ? '$4\r\nnull\r\n\r\n' : whole()))
  const sources = await ask(client(own.url), 4)
  assert.deepEqual(sources, ['fallback', 'store', 'fallback', 'store'])
  assert.equal(own.connections, 3)
  own.close()
})

test('what follows an answer is taken for no other answer', async () => {
  const wrong = whole('{"allowed":true,"source":"wrong"}')
  let late
  const own = await bytewise(async (socket, n) => {
    socket.write(whole() + (n === 1 ? wrong : ''))
    if (n !== 2) return
    await new Promise((resolve) => setTimeout(resolve, 50))
    socket.write(wrong)
    late = socket
  })
  const weir = client(own.url)
  assert.deepEqual(await ask(weir, 2), ['store', 'store'])
  assert.equal(own.connections, 2)
  await until(() => late)
  const begin = performance.now()
  await until(() => !own.open.has(late), 'the end of the connection')
  assert.ok(performance.now() - begin < 3_000, 'it ends at once, not when it was idle for long')
  assert.deepEqual(await ask(weir, 2), ['store', 'store'])
  assert.equal(own.connections, 3)
  own.close()
})

/** A server in another thread, that ends each connection after its answer: this one may sleep. */
async function ending(t, how) {
  const shared = new Int32Array(new SharedArrayBuffer(8)) // connections that ended, requests
  const worker = new Worker(
    `const { parentPort, workerData: { shared, how, answer } } = require('node:worker_threads')
    const server = require('node:net').createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        if (!/^POST/.test(bytes)) return
        Atomics.add(shared, 1, 1)
        socket.write(answer, () => setTimeout(() => {
          socket[how]()
          setTimeout(() => (Atomics.add(shared, 0, 1), Atomics.notify(shared, 0)), 20)
        }, 20))
      })
    })
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`,
    { eval: true, workerData: { shared, how, answer: whole() } },
  )
  t.after(() => worker.terminate())
  const [port] = await once(worker, 'message')
  return {
    url: `http://127.0.0.1:${port}`,
    requests: () => shared[1],
    /** Sleeps until so many connections have ended, and hears of none. */
    sleep: (count) => {
      while (Atomics.load(shared, 0) < count) Atomics.wait(shared, 0, count - 1, 30_000)
    },
  }
}

for (const how of ['end', 'resetAndDestroy'])
  test(`a connection that was closed (${how}) while the process slept is not noticed by callers`, async (t) => {
    const own = await ending(t, how)
    const weir = client(own.url)
    for (let i = 1; i <= 5; i++) {
      assert.deepEqual(await ask(weir), ['store'], `${i}`)
      own.sleep(i)
    }
    assert.equal(own.requests(), 5)
  })

test('a request that its connection did not take goes by another one', async (t) => {
  const own = await ending(t, 'resetAndDestroy')
  const weir = client(own.url)
  // By this clock no connection is idle for so long that it is looked at.
  t.mock.method(performance, 'now', () => 1000)
  for (let i = 1; i <= 5; i++) {
    assert.deepEqual(await ask(weir), ['store'], `${i}`)
    own.sleep(i)
  }
  assert.equal(own.requests(), 5)
})

test('a server that closes what is idle costs no check', async () => {
  const own = await serve({ args: ['--idle-timeout', '100ms'] })
  const weir = client(own.url)
  const never = new Int32Array(new SharedArrayBuffer(4))
  for (let i = 0; i < 4; i++) {
    assert.deepEqual(await ask(weir), ['store'])
    Atomics.wait(never, 0, 0, 60 + 40 * i)
  }
  assert.equal((await weir.peek('wide', 'a')).remaining, 1_000_000 - 4)
  await own.stop()
})

test('a check that was given up gets no other check its answer', async () => {
  const late = []
  const own = await bytewise((socket, n) => {
    const answer = () => socket.write(whole(`{"allowed":true,"source":"${n}"}`))
    if (n === 1) late.push(answer)
    else answer()
  })
  const weir = client(own.url)
  const controller = new AbortController()
  const given = weir.check('wide', 'a', { signal: controller.signal })
  await until(() => late[0])
  controller.abort()
  await assert.rejects(given, { name: 'AbortError' })
  const next = weir.check('wide', 'b')
  late[0]()
  assert.equal((await next).source, '2')
  assert.equal((await weir.check('wide', 'c', { timeout: 5_000 })).source, '3')
  assert.equal(own.connections, 2)
  own.close()
})

test('of many requests at once, 64 are under way, and those given up meanwhile never leave', async () => {
  const sockets = []
  let most = 0
  const own = await bytewise((socket) => {
    sockets.push(socket)
    most = Math.max(most, own.open.size)
  })
  const weir = client(own.url, { batch: false })
  const controller = new AbortController()
  const all = Array.from({ length: 300 }, (_, i) =>
    weir.check('wide', `k${i}`, i >= 200 ? { signal: controller.signal } : undefined),
  )
  const settled = Promise.allSettled(all)
  await until(() => sockets.length === 64)
  await turn()
  controller.abort()
  for (let done = 0; done < 200; done++) {
    await until(() => sockets[0])
    sockets.shift().write(whole())
  }
  const results = await settled
  assert.equal(results.filter(({ value }) => value?.source === 'store').length, 200)
  assert.equal(results.filter(({ reason }) => reason?.name === 'AbortError').length, 100)
  assert.deepEqual([own.requests.length, own.connections, most], [200, 64, 64])
  own.close()
})

test('what waits for a connection is decided by its deadline, and connections come back', async () => {
  let isSilent = true
  const own = await bytewise((socket) => isSilent || socket.write(whole()))
  const weir = client(own.url, { batch: false, timeout: 100 })
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => weir.check('wide', `k${i}`)))
  assert.ok(answers.every((a) => a.source === 'fallback' && a.error.code === 'timeout'))
  isSilent = false
  assert.deepEqual(await ask(client(own.url, { batch: false }), 3), Array(3).fill('store'))
  own.close()
})

test('connections that are not used are closed, and have no more listeners than at first', async () => {
  const warnings = []
  process.on('warning', (warning) => warnings.push(warning))
  const own = await bytewise((socket) => socket.write(whole()))
  const weir = client(own.url, { batch: false })
  const sockets = new Set()
  const made = channel('net.client.socket')
  const add = ({ socket }) => sockets.add(socket)
  made.subscribe(add)
  const listeners = () =>
    [...sockets].map((s) => s.eventNames().reduce((sum, name) => sum + s.listenerCount(name), 0))
  const seen = []
  for (let round = 0; round < 100; round++) {
    await Promise.all(Array.from({ length: 5 }, (_, i) => weir.check('wide', `k${i}`)))
    seen.push(listeners().join())
  }
  made.unsubscribe(add)
  assert.equal(sockets.size, 5)
  assert.deepEqual(new Set(seen), new Set([seen[0]]))
  assert.equal(own.connections, 5)
  await until(() => own.open.size === 0, 'the end of what is not used')
  assert.deepEqual(warnings, [])
  own.close()
})

/** A program that asks once: what decided, and for how many ms it lived on. */
async function program(url, env = {}, words = []) {
  const file = pathToFileURL(path.resolve(PACKAGE, 'node.js'))
  const { stdout } = await run(
    process.execPath,
    [
      ...words,
      '--input-type=module',
      '-e',
      `import { Weir } from '${file}'
      const weir = new Weir({ url: '${url}', timeout: 20_000, on: { error() {} } })
      const { source, error } = await weir.check('wide', 'exit')
      const end = performance.now()
      process.on('exit', () => console.log(JSON.stringify([source, String(error), performance.now() - end])))`,
    ],
    { env: { ...process.env, ...env } },
  )
  const [source, error, ms] = JSON.parse(stdout)
  assert.ok(ms < 2_000, `${url}: ${ms} ms`)
  return [source, error]
}

test('by TLS, IPv6 and names; a process ends when it has its answer', async () => {
  const pem = (name) => path.join(certificates, name)
  const words = ['--tls-cert', pem('server.pem'), '--tls-key', pem('server.key')]
  const own = await serve({ args: words })
  const store = ['store', 'undefined']
  const trusts = { NODE_EXTRA_CA_CERTS: pem('ca.pem') }
  assert.deepEqual(await program(server.url), store)
  assert.deepEqual(await program(`http://localhost:${server.port}`), store)
  assert.deepEqual(await program(`https://127.0.0.1:${own.port}`, trusts), store)
  assert.deepEqual(await program(`https://localhost:${own.port}`, trusts), store)
  const [source, error] = await program(`https://localhost:${own.port}`)
  assert.equal(source, 'fallback')
  assert.match(error, /certificate|UNABLE_TO_VERIFY/i)
  assert.deepEqual(await program(`https://localhost:${own.port}`, { NODE_TLS_REJECT_UNAUTHORIZED: '0' }), store)
  await own.stop()

  const there = await serve({ listen: '[::1]:0' }).catch(() => undefined) // a machine may have none
  if (there) {
    assert.deepEqual(await program(`http://[::1]:${there.port}`), store)
    await there.stop()
  }
})

test('a connection by TLS is kept, too, and its end is noticed', async () => {
  const pem = (name) => readFileSync(path.join(certificates, name))
  const { createServer } = await import('node:https')
  let connections = 0
  const own = createServer({ cert: pem('server.pem'), key: pem('server.key') }, (request, response) => {
    request.resume().on('end', () => response.end(ANSWER))
  })
  own.on('secureConnection', () => connections++)
  own.listen(0, '127.0.0.1')
  await once(own, 'listening')
  const file = pathToFileURL(path.resolve(PACKAGE, 'node.js'))
  const { stdout } = await run(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `import { Weir } from '${file}'
      const weir = new Weir({ url: 'https://localhost:${own.address().port}', timeout: 20_000, on: { error() {} } })
      const sources = []
      for (let i = 0; i < 10; i++) sources.push((await weir.check('wide', 'a')).source)
      console.log(JSON.stringify(sources))`,
    ],
    { env: { ...process.env, NODE_EXTRA_CA_CERTS: path.join(certificates, 'ca.pem') } },
  )
  assert.deepEqual(JSON.parse(stdout), Array(10).fill('store'))
  assert.equal(connections, 1)
  own.close()
})

const CARRIER = Symbol.for('undici.globalDispatcher.1')

test('what carries requests of fetch is used if it was replaced', async () => {
  const usual = globalThis[CARRIER]
  const asked = []
  class ProxyAgent {
    dispatch({ origin, path, body }, handler) {
      asked.push([origin, path, body])
      handler.onConnect(() => {})
      handler.onHeaders(200)
      for (const part of ['{"allowed":true,', '"source":"proxy"}']) handler.onData(Buffer.from(part))
      handler.onComplete()
    }
  }
  const weir = client(server.url)
  assert.deepEqual(await ask(weir), ['store'])
  globalThis[CARRIER] = new ProxyAgent()
  assert.deepEqual(await ask(weir), ['proxy'])
  assert.deepEqual(asked, [[server.url, '/v1/check', '{"policy":"wide","key":"a"}']])
  globalThis[CARRIER] = usual
  assert.deepEqual(await ask(weir), ['store'])
  assert.equal(asked.length, 1)
})

const why = globalThis.File ? WHY_NO_RUNTIMES : 'undici is for Node.js 20 or newer'
const skip = RUNTIMES && globalThis.File ? false : (why ?? 'no RUNTIMES')

test('proxies, certificates, mocks and settings of undici hold', { skip }, async () => {
  const undici = createRequire(pathToFileURL(path.join(RUNTIMES, 'x')))('undici')
  const usual = undici.getGlobalDispatcher()
  const agents = []
  const own = await misbehaving((request, response) => {
    agents.push(request.headers['x-team'])
    byFetch ||= 'user-agent' in request.headers
    response.end(ANSWER)
  })
  let byFetch = false
  let tunnels = 0
  const proxy = http.createServer().on('connect', (request, socket) => {
    tunnels++
    const [host, port] = request.url.split(':')
    const there = net.connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      socket.pipe(there).pipe(socket)
    })
    for (const end of [socket, there]) end.on('error', () => {})
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const weir = client(own.url)
  try {
    const through = new undici.ProxyAgent({ uri: `http://127.0.0.1:${proxy.address().port}`, proxyTunnel: true })
    undici.setGlobalDispatcher(through)
    assert.deepEqual(await ask(weir, 2), ['store', 'store'])
    assert.ok(tunnels > 0)

    const mocks = new undici.MockAgent()
    mocks.disableNetConnect()
    mocks.get(own.url).intercept({ path: '/v1/check', method: 'POST' }).reply(200, { allowed: true, source: 'mock' })
    undici.setGlobalDispatcher(mocks)
    assert.deepEqual(await ask(weir, 2), ['mock', 'fallback'])

    const ca = readFileSync(path.join(certificates, 'ca.pem'), 'utf8')
    const words = ['cert', 'key'].flatMap((name) => [
      `--tls-${name}`,
      path.join(certificates, `server.${name === 'key' ? 'key' : 'pem'}`),
    ])
    const secure = await serve({ args: words })
    const url = `https://localhost:${secure.port}`
    assert.deepEqual(await ask(client(url)), ['fallback'])
    undici.setGlobalDispatcher(new undici.Agent({ connect: { ca } }))
    assert.deepEqual(await ask(client(url)), ['store'])
    await secure.stop()

    const adding = new undici.Agent().compose((dispatch) => (options, handler) =>
      dispatch({ ...options, headers: { ...options.headers, 'x-team': 'b' } }, handler),
    )
    undici.setGlobalDispatcher(adding)
    agents.length = 0
    assert.deepEqual(await ask(weir), ['store'])
    undici.setGlobalDispatcher(new undici.Agent())
    assert.deepEqual(await ask(weir), ['store'])
    assert.deepEqual(agents, ['b', undefined])

    let made = 0
    const factory = (origin, options) => (made++, new undici.Pool(origin, options))
    undici.setGlobalDispatcher(new undici.Agent({ factory }))
    assert.deepEqual(await ask(weir), ['store'])
    assert.equal(made, 1)
    assert.equal(byFetch, false)
    await through.close()
  } finally {
    undici.setGlobalDispatcher(usual)
    proxy.closeAllConnections()
    proxy.close()
    own.close()
  }
})

test('tracing that listens to requests of fetch hears of these, and adds its headers', async () => {
  const traces = []
  const own = await misbehaving((request, response) => {
    traces.push(request.headers.traceparent)
    response.end(ANSWER)
  })
  await fetch(own.url, { method: 'POST', body: '{}' }) // makes what carries requests
  const listen = ({ request }) => request.addHeader('traceparent', '00-1-2-01')
  const created = channel('undici:request:create')
  const weir = client(own.url)
  await ask(weir)
  created.subscribe(listen)
  await ask(weir)
  created.unsubscribe(listen)
  await ask(weir)
  assert.deepEqual(traces, [undefined, undefined, '00-1-2-01', undefined])
  own.close()
})

test('a wrapper may change what is sent', async () => {
  const asked = []
  const own = await misbehaving((request, response, body) => {
    asked.push([request.method, request.headers['x-team'], request.headers.host, body.length])
    response.end(ANSWER)
  })
  const host = own.url.slice(7)
  const by = (change) =>
    ask(client(own.url, { fetch: (url, init, underway) => cheap(url, change(init), underway) }))
  const again = (init) => ((init.headers['X-Team'] = `${Number(init.headers['X-Team'] ?? 0) + 1}`), init)
  const repeated = client(own.url, { fetch: (url, init, underway) => cheap(url, again(init), underway) })
  assert.deepEqual(await ask(repeated, 2), ['store', 'store'])
  const headers = new Headers({ 'x-team': 'b' })
  assert.deepEqual(await by((init) => Object.assign(init, { headers })), ['store'])
  assert.deepEqual(await by((init) => Object.assign(init, { headers: [...headers] })), ['store'])
  assert.deepEqual(await by((init) => Object.assign(init, { body: Buffer.from(init.body) })), ['store'])
  assert.deepEqual(await by((init) => ({ ...init, signal: AbortSignal.abort() })), ['fallback'])
  assert.deepEqual(asked, [
    ['POST', '1', host, 27],
    ['POST', '2', host, 27],
    ['POST', 'b', host, 27],
    ['POST', 'b', host, 27],
    ['POST', undefined, host, 27],
  ])
  own.close()
})

test('what is wrong with a URL is said, and a server that is away is asked once more', async () => {
  for (const url of ['http://user:word@127.0.0.1:1', 'ftp://127.0.0.1', 'nonsense']) {
    const { source, error } = await client(url).check('wide', 'a')
    assert.deepEqual([source, error.code], ['fallback', 'unreachable'], url)
  }
  const port = await freePort()
  const answer = client(`http://127.0.0.1:${port}`).check('wide', 'a')
  const own = await serve({ port }).catch(() => undefined)
  const { source, error } = await answer
  assert.ok(source === 'store' || /REFUSED/.test(error.message), `${error}`)
  await own?.stop()
})
