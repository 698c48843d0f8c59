/* workers.ts - RESP over `connect()` of Cloudflare Workers. A socket belongs to one request: make a
 * client in each. */
import { connection, type ConnectionOptions, type Wire } from './resp.js'
import type { Transport } from './transport.js'

interface WorkerSocket {
  readable: ReadableStream<Uint8Array>
  writable: WritableStream<Uint8Array>
  opened: Promise<unknown>
  close(): Promise<void>
}

export interface WorkerSocketOptions extends ConnectionOptions {
  /** That of `cloudflare:sockets`. */
  connect(
    address: { hostname: string; port: number },
    options?: { secureTransport: 'on' | 'off'; allowHalfOpen: boolean },
  ): WorkerSocket
  hostname: string
  port?: number
  tls?: boolean
}

export function socket({
  connect,
  hostname,
  port = 7878,
  tls,
  ...options
}: WorkerSocketOptions): Transport {
  return connection((heard, ended): Wire => {
    const own = connect(
      { hostname, port },
      { secureTransport: tls ? 'on' : 'off', allowHalfOpen: false },
    )
    const writer = own.writable.getWriter()
    const encoder = new TextEncoder()
    const decoder = new TextDecoder()
    const read = async () => {
      const reader = own.readable.getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) throw new Error('the connection was closed')
        heard(decoder.decode(value, { stream: true }))
      }
    }
    read().catch(ended)
    return {
      write: (text) => void writer.write(encoder.encode(text)).catch(ended),
      close: () => void own.close().catch(() => {}),
      opened: own.opened.then(() => {}),
    }
  }, options)
}
