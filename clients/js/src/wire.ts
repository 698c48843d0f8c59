/* wire.ts - HTTP/1.1 over kept sockets of Node.js, for small requests and answers.
 *
 * RULES
 *   W1  A connection has one request under way. There are at most 64 of them to a server; a request
 *       that finds none waits, in order.
 *   W2  A connection is kept if the answer was whole, nothing followed it, the request had left, and
 *       the server does not close it. A byte that was not asked for ends it.
 *   W3  A connection that was not used for a while is looked at first: for a turn of the event loop,
 *       in which its end is heard if the server has closed it, also while this process slept.
 *   W4  A request goes by another connection if that of before was kept, and ended before it took
 *       the whole request: no server has acted on it. Else it fails with its connection.
 *   W5  No connection keeps the process alive. The deadline of a call does.
 *
 * WHY NOT node:http or the carrier of fetch: for one caller they take two to four times as much
 * of a processor as the rest of a check, for streams, signals and parsers that have no use here. */
import type { Socket } from 'node:net'
import { dial, hostOf, type Place } from './dial.js'
import { type HttpAnswer, IDLE_MS, readAnswer } from './http_answer.js'

const MOST_CONNECTIONS = 64
const LOOK_MS = 5 // not used for longer: it is looked at first

/** Connections to one server. */
export interface Wire {
  /** Returns what gives the request up. `done` is called once, unless it was given up. */
  send(bytes: string, done: Done): () => void
}

type Done = (error: Error | undefined, answer?: HttpAnswer) => void

interface Request {
  bytes: string
  done: Done
  connection?: Connection
}

interface Connection {
  socket: Socket
  /** Under way. */
  request?: Request
  isWritten: boolean
  /** What was heard of its answer, and how many bytes there must be to look at it again. */
  parts: Buffer[]
  length: number
  needed: number
  /** Since when it was kept, and for how long; 0: it is new. */
  keptAt: number
  keepMs: number
}

/** The first of the two may be in the turn of now, after sockets were heard. */
const afterTurn = (then: () => void) => setImmediate(() => setImmediate(then))

const CLOSED = new Error('the connection was closed')

export function wire(url: URL): Wire {
  const secure = url.protocol === 'https:'
  const place: Place = { host: hostOf(url.hostname), port: Number(url.port || (secure ? 443 : 80)) }
  const connections = new Set<Connection>()
  let idle: Connection[] = []
  let waiting: Request[] = []

  function open(): Connection {
    // An address after the first one has a handle of its own.
    const socket: Socket = dial(place, secure, () => socket.unref())
    const own: Connection = {
      socket,
      isWritten: false,
      parts: [],
      length: 0,
      needed: 0,
      keptAt: 0,
      keepMs: 0,
    }
    connections.add(own)
    socket.on('data', (bytes: Buffer) => hear(own, bytes))
    socket.on('end', () => hear(own))
    socket.on('close', () => hear(own))
    socket.on('error', (error) => end(own, error))
    socket.setTimeout(IDLE_MS, () => own.request || end(own))
    return own
  }

  /** An idle one. The last one that was used is the least likely to be closed. */
  function take(now: number): Connection | undefined {
    for (let own; (own = idle.pop()); ) {
      if (own.socket.writable && now - own.keptAt < own.keepMs) return own
      end(own)
    }
    return
  }

  function write(own: Connection) {
    own.isWritten = true
    own.socket.write(own.request!.bytes)
  }

  function start(request: Request) {
    const now = performance.now()
    const kept = take(now)
    if (!kept && connections.size >= MOST_CONNECTIONS) return void waiting.push(request)
    const own = (request.connection = kept ?? open())
    own.request = request
    if (kept && now - kept.keptAt > LOOK_MS) afterTurn(() => own.request === request && write(own))
    else write(own)
  }

  /** After a connection was kept or ended. */
  const startNext = () =>
    waiting[0] && (idle[0] || connections.size < MOST_CONNECTIONS) && start(waiting.shift()!)

  function end(own: Connection, error: Error & { syscall?: string } = CLOSED) {
    if (!connections.delete(own)) return
    const { request, isWritten, keptAt, socket } = own
    own.request = undefined
    idle = idle.filter((other) => other !== own)
    socket.destroy()
    // By TLS, what could not be written may be something else.
    if (request && keptAt && (!isWritten || (error.syscall === 'write' && !secure))) start(request)
    else request?.done(error)
    startNext()
  }

  /** No bytes: no more will come. */
  function hear(own: Connection, bytes?: Buffer) {
    const { request, parts } = own
    if (!request || !own.isWritten) return end(own)
    if (bytes) {
      parts.push(bytes)
      own.length += bytes.length
      if (own.length < own.needed) return
    }
    const all = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
    let read
    try {
      read = readAnswer(all, !bytes)
    } catch (error: any) {
      return end(own, error)
    }
    if (typeof read === 'number') {
      if (!bytes) return end(own)
      own.parts = [all]
      own.needed = read
      return
    }
    const isKept = read.keepMs > 0 && !own.socket.writableLength
    own.request = undefined
    request.done(undefined, read)
    if (!isKept) return end(own)
    own.isWritten = false
    own.parts = []
    own.length = own.needed = 0
    own.keptAt = performance.now()
    own.keepMs = read.keepMs
    idle.push(own)
    startNext()
  }

  return {
    send(bytes, done) {
      const request: Request = { bytes, done }
      start(request)
      return () => {
        const own = request.connection
        request.done = () => {}
        waiting = waiting.filter((other) => other !== request)
        // What was sent may still be answered, and none would wait for that.
        if (own?.request !== request) return
        own.request = undefined
        end(own)
      }
    },
  }
}
