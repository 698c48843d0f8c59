/* resp.ts - requests and answers by RESP, over a wire that the runtime provides.
 *
 * Requests are the JSON of HTTP, in the command WEIR.JSON: engines of JavaScript write and read that
 * faster than any code in JavaScript could. Its text has no line breaks, so answers are told apart by
 * those alone, and no bytes are counted. */
import { type Raw, WeirError } from './answer.js'
import { parsePlain } from './plain.js'
import { many, type Transport, type Verb } from './transport.js'

/** A connection: what is heard goes to the functions that made it. */
export interface Wire {
  write(text: string): void
  close(): void
  /** Whether answers are waited for. */
  wait?(waiting: boolean): void
  opened: Promise<void>
}

export interface ConnectionOptions {
  token?: string
}

type Open = (heard: (text: string) => void, ended: (error: Error) => void) => Wire

/** Of one command: with 3 bytes each, below what weir takes from a client that it does not know. */
const MOST_CHARACTERS = 5000

/** Requests of one write: weir decides them while this process asks the next ones. */
const ENOUGH = 64

const encoder = new TextEncoder()
const size = (text: string) =>
  /^[\x00-\x7f]*$/.test(text) ? text.length : encoder.encode(text).length

const command = (...words: string[]) =>
  `*${words.length}\r\n${words.map((word) => `$${size(word)}\r\n${word}\r\n`).join('')}`

/** Commands for these requests, and how many of them each is for. */
function commands(verb: Verb, requests: string[]): [text: string, counts: number[]] {
  const counts: number[] = []
  let text = ''
  for (let at = 0; at < requests.length; ) {
    const from = at
    for (let length = 0; at < requests.length; at++)
      if ((length += requests[at]!.length) > MOST_CHARACTERS && at > from) break
    counts.push(at - from)
    text += command('WEIR.JSON', verb, many(requests.slice(from, at)))
  }
  return [text, counts]
}

/** What one command of so many requests is answered. An error of all is one for each. */
function read(line: string, count: number): Raw[] {
  if (line[0] !== '-') {
    const body = parsePlain(line)
    return count < 2 ? [body] : body.answers
  }
  const code = line.slice(1, line.indexOf(' ')).toLowerCase()
  return Array(count).fill({ error: { code, detail: line.slice(code.length + 2) } })
}

/** A transport over connections that `open` makes, one at a time, when they are needed. */
export function connection(open: Open, { token }: ConnectionOptions): Transport {
  interface Waiting {
    counts: number[]
    answers: Raw[]
    done(answers: Raw[]): void
    fail(error: Error): void
  }
  let wire: Wire | undefined

  /** `ask` returns whether anything was heard since. */
  function connect(): Wire & { ask(text: string, waiting: Waiting): () => boolean } {
    const queue: Waiting[] = []
    let rest = ''
    let isOpen = false
    let heardSo = 0
    let failure: WeirError | undefined
    const ended = (error: Error) => {
      if (failure) return
      failure =
        error instanceof WeirError
          ? error
          : new WeirError(`cannot reach weir: ${error.message}`, 'unreachable', 0, !isOpen)
      if (wire === own) wire = undefined
      own?.close()
      for (const waiting of queue.splice(0)) waiting.fail(failure)
    }
    const answer = (line: string) => {
      const first = queue[0]
      if (!first) throw new WeirError('an answer without a question', 'bad_answer')
      const next = read(line, first.counts.shift()!)
      first.answers = first.answers.length ? first.answers.concat(next) : next
      if (first.counts.length) return
      queue.shift()
      first.done(first.answers)
    }
    const heard = (text: string) => {
      heardSo++
      rest += text
      let at = 0
      try {
        for (let end; (end = rest.indexOf('\r\n', at)) >= 0; ) {
          const kind = rest[at]
          if (kind === '$') {
            const last = rest.indexOf('\r\n', end + 2)
            if (last < 0) break
            answer(rest.slice(end + 2, last))
            at = last + 2
          } else if (kind === '-' || kind === '+') {
            answer(kind === '-' ? rest.slice(at, end) : '{}')
            at = end + 2
          } else throw 0
        }
      } catch (error) {
        return ended(
          error instanceof WeirError ? error : new WeirError('not an answer', 'bad_answer'),
        )
      }
      rest = rest.slice(at)
      if (!queue.length) own.wait?.(false)
    }
    const made = open(heard, ended)
    void made.opened.then(() => (isOpen = true), ended)
    const own = {
      ...made,
      ask(text: string, waiting: Waiting) {
        const before = heardSo
        if (failure) waiting.fail(failure)
        else {
          queue.push(waiting)
          made.wait?.(true)
          made.write(text)
        }
        return () => heardSo > before
      },
    }
    if (token)
      own.ask(command('AUTH', token), {
        counts: [1],
        answers: [],
        done: ([answer]) =>
          answer?.error && ended(new WeirError(answer.error.detail, 'unauthorized', 401)),
        fail() {},
      })
    wire = own
    return own
  }

  return {
    enough: ENOUGH,
    eager: true,
    send(verb, requests, underway) {
      const own = (wire as ReturnType<typeof connect> | undefined) ?? connect()
      const [text, counts] = commands(verb, requests)
      return new Promise((done, fail) => {
        const heardSince = own.ask(text, { counts, answers: [], done, fail })
        underway.drop = () => {
          fail(new WeirError('given up', 'timeout'))
          if (heardSince()) return
          // It hangs: what comes after this would wait for nothing.
          if (wire === own) wire = undefined
          own.close()
        }
      })
    },
    close: () => wire?.close(),
  }
}
