/* http_answer.ts - an answer of HTTP/1.1, read from bytes. No socket, no state. */

/** A connection that is not used is kept for so long, unless the server keeps it for less. */
export const IDLE_MS = 4000
const SPARE_MS = 1000 // a server closes while a request is on its way to it
const MOST_HEAD = 1 << 16
const MOST_BODY = 1 << 24

export interface HttpAnswer {
  status: number
  body: Buffer
  /** For how long its connection may be used again; 0: it may not. */
  keepMs: number
}

interface Head {
  status: number
  /** Undefined: the body ends where the connection does. */
  size?: number
  isChunked?: boolean
  keepMs: number
}

const bad = (what: string) => new Error('not an answer of HTTP: ' + what)

const STATUS = /^HTTP\/1\.([01]) ([1-5]\d\d)[ \r]/
const FIELDS = /\r\n(content-length|transfer-encoding|connection|keep-alive):[ \t]*([^\r\n]*)/gi

/** `text` ends with the line break of its last line. */
function readHead(text: string): Head {
  const [, minor, status] = STATUS.exec(text) ?? []
  if (!status) throw bad('its first line')
  const head: Head = { status: Number(status), keepMs: minor === '1' ? IDLE_MS : 0 }
  FIELDS.lastIndex = 0
  for (let field; (field = FIELDS.exec(text)); ) {
    const value = field[2]!.trimEnd()
    switch (field[1]!.toLowerCase()) {
      case 'content-length': {
        const size = /^\d{1,9}$/.test(value) ? Number(value) : Infinity
        if (size > MOST_BODY || size !== (head.size ?? size)) throw bad('content-length')
        head.size = size
        break
      }
      case 'transfer-encoding':
        if (head.isChunked || !/^chunked$/i.test(value)) throw bad('transfer-encoding')
        head.isChunked = true
        break
      case 'connection':
        if (/\bclose\b/i.test(value)) head.keepMs = 0
        break
      case 'keep-alive': {
        const seconds = /\btimeout=(\d{1,9})\b/i.exec(value)?.[1]
        if (seconds) head.keepMs = Math.max(0, Math.min(head.keepMs, Number(seconds) * 1000 - SPARE_MS))
      }
    }
  }
  if (head.isChunked && head.size !== undefined) throw bad('content-length and transfer-encoding')
  if (head.status === 204 || head.status === 304) Object.assign(head, { size: 0, isChunked: false })
  return head
}

/** The body from `at` on and where it ends, or how many bytes there must be to look again. */
function readChunks(bytes: Buffer, at: number): { body: Buffer; end: number } | number {
  const parts: Buffer[] = []
  let left = MOST_BODY
  for (;;) {
    const from = bytes.indexOf('\r\n', at) + 2
    if (from < 2) {
      if (bytes.length - at > MOST_HEAD) throw bad('a chunk')
      return bytes.length + 1
    }
    const digits = /^([\da-f]{1,7})[ \t]*(;|\r)/i.exec(bytes.toString('latin1', at, from))?.[1]
    const size = digits ? parseInt(digits, 16) : Infinity
    if ((left -= size) < 0) throw bad('a chunk')
    at = from + size
    if (!size) break
    if (bytes.length < at + 2) return at + 2
    if (bytes[at] !== 13 || bytes[at + 1] !== 10) throw bad('the end of a chunk')
    parts.push(bytes.subarray(from, at))
    at += 2
  }
  // Fields may follow, which mean nothing here, and an empty line.
  const end = bytes.indexOf('\r\n\r\n', at - 2) + 4
  if (end > 3) return { body: Buffer.concat(parts), end }
  if (bytes.length - at > MOST_HEAD) throw bad('what follows the last chunk')
  return bytes.length + 1
}

/**
 * The answer that these bytes are, or how many there must be to look again. `isEnd`: no more will
 * come.
 */
export function readAnswer(bytes: Buffer, isEnd = false): HttpAnswer | number {
  for (let begin = 0; ; ) {
    const from = bytes.indexOf('\r\n\r\n', begin) + 4
    if (from < 4) {
      if (bytes.length - begin > MOST_HEAD) throw bad('a head without an end')
      return bytes.length + 1
    }
    const { status, size, isChunked, keepMs } = readHead(bytes.toString('latin1', begin, from - 2))
    begin = from
    if (status === 101) throw bad('another protocol')
    if (status < 200) continue

    let body: Buffer
    let end = bytes.length
    if (isChunked) {
      const read = readChunks(bytes, from)
      if (typeof read === 'number') return read
      ;({ body, end } = read)
    } else if (size !== undefined) {
      end = from + size
      if (bytes.length < end) return end
      body = bytes.subarray(from, end)
    } else {
      if (end - from > MOST_BODY) throw bad('too long')
      if (!isEnd) return end + 1
      body = bytes.subarray(from)
    }
    const isKept = !isEnd && end === bytes.length
    return { status, body, keepMs: isKept ? keepMs : 0 }
  }
}
