/* http_answer.test.mjs - answers of HTTP/1.1: whole, cut at every byte, and what is none. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from './support.mjs'

const { readAnswer } = await load('http_answer.js')
const lines = (...all) => all.join('\r\n')
const read = (text, isEnd) => readAnswer(Buffer.from(text), isEnd)
const heard = ({ status, body, keepMs }) => [status, `${body}`, keepMs]

/** Each ends by itself: with its last byte the answer is there. */
const WHOLE = {
  'with its length': [lines('HTTP/1.1 200 OK', 'Content-Length: 7', '', '{"a":1}'), [200, '{"a":1}', 4000]],
  'without a reason': [lines('HTTP/1.1 429', 'content-length:2\t', '', '{}'), [429, '{}', 4000]],
  'with the same length twice': [
    lines('HTTP/1.1 200 OK', 'Content-Length: 2', 'Content-Length: 2', '', '{}'),
    [200, '{}', 4000],
  ],
  'without a body': [lines('HTTP/1.1 204 No Content', '', ''), [204, '', 4000]],
  'not modified, with the length of what is not sent': [
    lines('HTTP/1.1 304 Not Modified', 'Content-Length: 9', '', ''),
    [304, '', 4000],
  ],
  'after others that are not the last': [
    lines('HTTP/1.1 100 Continue', '', 'HTTP/1.1 103 Early Hints', 'Content-Length: 9', '', 'HTTP/1.1 200 OK', 'Content-Length: 2', '', 'ok'),
    [200, 'ok', 4000],
  ],
  'in chunks': [
    lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '', '3', 'ü!', 'A ; name="x"', '0123\r\n6789', '0', '', ''),
    [200, 'ü!0123\r\n6789', 4000],
  ],
  'in chunks, with fields after the last': [
    lines('HTTP/1.1 200 OK', 'transfer-encoding: Chunked', '', '2', 'ok', '000', 'Expires: 0', 'Server-Timing: db', '', ''),
    [200, 'ok', 4000],
  ],
  'in no chunk at all': [lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '', '0', '', ''), [200, '', 4000]],
  'of a server that says for how long it waits': [
    lines('HTTP/1.1 200 OK', 'Keep-Alive: timeout=3, max=100', 'Content-Length: 0', '', ''),
    [200, '', 2000],
  ],
  'of one that waits for longer': [
    lines('HTTP/1.1 200 OK', 'Keep-Alive: timeout=300', 'Content-Length: 0', '', ''),
    [200, '', 4000],
  ],
  'of one that hardly waits': [
    lines('HTTP/1.1 200 OK', 'Keep-Alive: timeout=1', 'Content-Length: 0', '', ''),
    [200, '', 0],
  ],
  'of one that closes': [
    lines('HTTP/1.1 200 OK', 'Connection: Keep-Alive, Close', 'Content-Length: 2', '', 'ok'),
    [200, 'ok', 0],
  ],
  'of an old server': [lines('HTTP/1.0 200 OK', 'Content-Length: 2', '', 'ok'), [200, 'ok', 0]],
}

for (const [name, [text, wanted]] of Object.entries(WHOLE))
  test(`an answer ${name} is read when it is whole, wherever it is cut`, () => {
    const bytes = Buffer.from(text)
    assert.deepEqual(heard(readAnswer(bytes)), wanted)
    for (let cut = 0; cut < bytes.length; cut++) {
      const needed = readAnswer(bytes.subarray(0, cut))
      assert.ok(needed > cut && needed <= bytes.length, `${cut}: ${needed}`)
      assert.equal(typeof readAnswer(bytes.subarray(0, cut), true), 'number', 'a part is no answer')
    }
    // Byte by byte, looking only when it is worth it.
    let needed = 0
    for (let length = 1; typeof needed === 'number'; length++)
      if (length >= needed) needed = readAnswer(bytes.subarray(0, length))
    assert.deepEqual(heard(needed), wanted)
    // What was not asked for follows: the connection is not used again.
    assert.deepEqual(heard(read(text + 'HTTP/1.1 200')), [...wanted.slice(0, 2), 0])
    assert.deepEqual(heard(readAnswer(bytes, true)), [...wanted.slice(0, 2), 0])
  })

test('a body without a length ends with its connection', () => {
  const text = lines('HTTP/1.1 200 OK', 'Content-Type: application/json', '', '{"a":1}')
  for (let cut = 0; cut <= text.length; cut++) assert.ok(read(text.slice(0, cut)) > cut)
  assert.deepEqual(heard(read(text, true)), [200, '{"a":1}', 0])
})

const BAD = {
  'another protocol': '+OK\r\n\r\n',
  'a version that is not known': 'HTTP/2.0 200 OK\r\n\r\n',
  'no status': 'HTTP/1.1 OK\r\n\r\n',
  'a status of four digits': 'HTTP/1.1 2000 OK\r\n\r\n',
  'a status that is none': 'HTTP/1.1 099 OK\r\n\r\n',
  'a change of protocols': 'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  'a length that is no number': 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n{}',
  'a negative length': 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
  'no length where one is announced': 'HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n',
  'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
  'too great a length': 'HTTP/1.1 200 OK\r\nContent-Length: 16777217\r\n\r\n',
  'a length and chunks': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'what is packed': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  'chunks of chunks': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'a chunk without a size': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n',
  'a chunk of a size that is no number': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n',
  'too great a chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n',
  'a chunk that is longer than it says': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n',
  'a head without an end': `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(11_000)}`,
  'a size of a chunk without an end': `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(66_000)}`,
  'fields after the last chunk without an end': `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${'x: y\r\n'.repeat(11_000)}`,
  'a body without an end': `HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(1 << 24)}x`,
  'many chunks without an end': `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${`80000\r\n${'x'.repeat(1 << 19)}\r\n`.repeat(33)}`,
}
for (const [name, text] of Object.entries(BAD))
  test(`${name} is no answer`, () => assert.throws(() => read(text), /not an answer of HTTP/))
