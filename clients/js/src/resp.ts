/* resp.ts - requests and answers as RESP, over a wire that the runtime provides. */
import { type Raw, WeirError } from './answer.js'
import type { Transport, Verb, WireRequest } from './transport.js'

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

const encoder = new TextEncoder()
const size = (text: string) =>
  /^[\x00-\x7f]*$/.test(text) ? text.length : encoder.encode(text).length

const bulk = (word: unknown) => {
  const text = `${word}`
  return `$${size(text)}\r\n${text}\r\n`
}

const command = (words: unknown[]) => `*${words.length}\r\n${words.map(bulk).join('')}`

const OPTIONS: [member: string, word: string][] = [
  ['cost', 'COST'],
  ['plan', 'PLAN'],
  ['burst', 'BURST'],
  ['precision_ms', 'PRECISION'],
  ['name', 'NAME'],
  ['on_error', 'ON_ERROR'],
  ['now', 'NOW'],
  ['id', 'ID'],
  ['ttl_ms', 'TTL'],
]

/** The words of a request. Those that RESP has no command for are an error. */
export function words(verb: Verb, request: WireRequest): unknown[] {
  const {
    policy,
    policies,
    key,
    attributes,
    limit,
    window_ms,
    algorithm = 'sliding_window',
    peek,
    exempt,
    tag,
    reservation,
    costs,
  } = request as any
  const out: unknown[] = []
  if (reservation) out.push(`WEIR.${verb.toUpperCase()}`, reservation)
  else if (window_ms !== undefined) {
    if (!/check|peek/.test(verb))
      throw new WeirError(
        `${verb} of a limit that comes with the request is by HTTP`,
        'invalid_request',
      )
    out.push('WEIR.LIMIT', key ?? '', algorithm, limit, window_ms)
    if (verb === 'peek') out.push('PEEK')
  } else {
    const [first, ...others] = policies ?? [policy]
    out.push(`WEIR.${verb.toUpperCase()}`, first)
    if (attributes) for (const name in attributes) out.push(`${name}=${attributes[name]}`)
    else out.push(key ?? '')
    for (const other of others) out.push('POLICY', other)
  }
  if (peek) out.push('PEEK')
  if (exempt) out.push('EXEMPT')
  for (const [member, word] of OPTIONS)
    if (request[member] !== undefined) out.push(word, request[member])
  for (const name in costs) out.push('COST', name, costs[name])
  out.push(tag ? 'TAG' : 'FULL')
  return out
}

/** Of RESP2: a value and where it ends; undefined: more bytes are needed. */
export function parse(text: string, at: number): [value: any, next: number] | undefined {
  const end = text.indexOf('\r\n', at)
  if (end < 0) return
  const head = text.slice(at + 1, end)
  switch (text[at]) {
    case '+':
      return [head, end + 2]
    case '-':
      return [new WeirError(head.replace(/^\S+ /, ''), head.split(' ')[0]!.toLowerCase()), end + 2]
    case ':':
      return [Number(head), end + 2]
    case '$': {
      if (head === '-1') return [null, end + 2]
      // Lengths are of bytes; names of policies may have other characters.
      let length = Number(head)
      let stop = end + 2 + length
      if (text.length < end + 2) return
      const inside = text.slice(end + 2, stop)
      if (!/^[\x00-\x7f]*$/.test(inside)) {
        stop = end + 2
        for (let bytes = 0; bytes < length; stop++) {
          const code = text.codePointAt(stop)
          if (code === undefined) return
          bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : (stop++, 4)
        }
      }
      return text.length < stop + 2 ? undefined : [text.slice(end + 2, stop), stop + 2]
    }
    case '*': {
      const values = []
      let next = end + 2
      for (let i = Number(head); i > 0; i--) {
        const found = parse(text, next)
        if (!found) return
        values.push(found[0])
        next = found[1]
      }
      return [values, next]
    }
    default:
      throw new WeirError('not RESP', 'bad_answer')
  }
}

const NAMES: Record<string, string> = {
  retry_after_ms: 'retryAfterMs',
  reset_after_ms: 'resetAfterMs',
  delay_ms: 'delayMs',
}
const FLAGS = /^(allowed|shadow|shadow_denied|repeated|expired)$/

/**
 * Names and values in turn, as the JSON of HTTP has them: of rules, false flags and the name of the
 * only policy are left out.
 */
function toRaw(list: any): any {
  if (list instanceof WeirError) return { error: { code: list.code, detail: list.message } }
  const raw: Record<string, any> = {}
  let rules: any[] = []
  for (let i = 0; i + 1 < (list?.length ?? 0); i += 2) {
    const name = list[i]
    const value = list[i + 1]
    if (name === 'rules') rules = value
    else if (name !== 'override' || value)
      raw[NAMES[name] ?? name] = FLAGS.test(name) ? value === 1 : value
  }
  if (rules.length < 2) return raw
  rules = rules.map(toRaw)
  const several = rules.some((rule) => rule.policy !== rules[0].policy)
  raw.rules = rules.map(({ policy, window_ms, delayMs, shadow, shadow_denied, ...rest }) => ({
    ...(several && { policy }),
    ...rest,
    ...(shadow && { shadow }),
    ...(shadow_denied && { shadow_denied }),
  }))
  return raw
}

/** A transport over connections that `open` makes, one at a time, when they are needed. */
export function connection(open: Open, { token }: ConnectionOptions): Transport {
  interface Waiting {
    left: number
    answers: Raw[]
    done(answers: Raw[]): void
    fail(error: Error): void
  }
  let wire: Wire | undefined

  /** `ask` returns whether anything was heard since. */
  function connect(): Wire & { ask(texts: string[], waiting: Waiting): () => boolean } {
    let queue: Waiting[] = []
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
      for (const waiting of queue) waiting.fail(failure)
      queue = []
    }
    const heard = (text: string) => {
      heardSo++
      rest += text
      let at = 0
      try {
        for (let found; at < rest.length && (found = parse(rest, at)); at = found[1]) {
          const first = queue[0]
          if (!first) throw new WeirError('an answer without a question', 'bad_answer')
          first.answers.push(toRaw(found[0]))
          if (!--first.left) {
            queue.shift()
            first.done(first.answers)
          }
        }
      } catch (error) {
        return ended(error as Error)
      }
      rest = rest.slice(at)
      if (!queue.length) own.wait?.(false)
    }
    const made = open(heard, ended)
    void made.opened.then(() => (isOpen = true), ended)
    const own = {
      ...made,
      ask(texts: string[], waiting: Waiting) {
        const before = heardSo
        if (failure) waiting.fail(failure)
        else {
          queue.push(waiting)
          made.wait?.(true)
          made.write(texts.join(''))
        }
        return () => heardSo > before
      },
    }
    if (token)
      own.ask([command(['AUTH', token])], {
        left: 1,
        answers: [],
        done: ([answer]) =>
          answer?.error && ended(new WeirError(answer.error.detail, 'unauthorized', 401)),
        fail() {},
      })
    wire = own
    return own
  }

  return {
    encode: (verb, request) => command(words(verb, request)),
    send(_, texts, signal) {
      const own = (wire as ReturnType<typeof connect> | undefined) ?? connect()
      return new Promise((done, fail) => {
        const heardSince = own.ask(texts, { left: texts.length, answers: [], done, fail })
        signal.addEventListener('abort', () => {
          fail(signal.reason)
          if (heardSince()) return
          // It hangs: what comes after this would wait for nothing.
          if (wire === own) wire = undefined
          own.close()
        })
      })
    },
    close: () => wire?.close(),
  }
}
