/* lane.ts - checks on their way: those of one tick leave in one request.
 *
 * RULES
 *   L1  What is pushed in one turn of the event loop leaves in one request, at most `max` of them
 *       and 256 Ki characters.
 *   L2  At most `inFlight` requests are under way; what comes meanwhile leaves together when one
 *       returns.
 *   L3  Each call is settled once: by its answer, or by its deadline, which runs from the push.
 *   L4  What may have been sent is sent again only if it is safe: it changes nothing when done
 *       twice. Once, after 20 ms.
 *
 * WHY NOT one timer for each call: a timer costs as much as the rest of a call. Those of one tick
 * share one. */
import { type Raw, WeirError } from './answer.js'
import type { Transport, Verb } from './transport.js'

const MOST_CHARACTERS = 1 << 18
const RETRY_MS = 20

export type Settle = (result: Raw | WeirError) => void

/** Calls with one end: of a deadline, or of a request. */
interface Group {
  open: number
  end(): void
}

interface Call {
  text: string
  safe: boolean
  settle: Settle
  done?: boolean
  groups: Group[]
}

/** Returns what gives the call up, without an answer. */
export type Push = (text: string, safe: boolean, timeout: number, settle: Settle) => () => void

/** `report` hears of each request that fails, once, and of each that does not. */
export function lane(
  verb: Verb,
  transport: Transport,
  max: number,
  inFlight: number,
  report: (error?: WeirError) => void,
): Push {
  let queue: Call[] = []
  let tick: (Group & { timeout: number; calls: Call[] }) | undefined
  let scheduled = false
  let underWay = 0

  function settle(call: Call, result?: Raw | WeirError) {
    if (call.done) return
    call.done = true
    if (result) call.settle(result)
    for (const group of call.groups) if (!--group.open) group.end()
  }

  const open = (calls: Call[]) => calls.filter((call) => !call.done)

  function fail(calls: Call[], error: WeirError) {
    calls = open(calls)
    if (calls[0]) report(error)
    for (const call of calls) settle(call, error)
  }

  function flush() {
    while (underWay < inFlight && (queue = open(queue))[0]) {
      let size = 0
      let taken = 0
      for (const { text } of queue)
        if (taken === max || ((size += text.length) > MOST_CHARACTERS && taken)) break
        else taken++
      void send(queue.splice(0, taken))
    }
  }

  async function send(batch: Call[], again?: boolean) {
    const controller = new AbortController()
    const group = { open: batch.length, end: () => controller.abort() }
    for (const call of batch) call.groups[1] = group
    underWay++
    try {
      const results = await transport.send(
        verb,
        batch.map((call) => call.text),
        controller.signal,
      )
      if (results?.length !== batch.length) throw new WeirError('not an answer', 'bad_answer')
      group.end = report
      batch.forEach((call, i) => settle(call, results[i] ?? ({} as Raw)))
    } catch (error) {
      const failure = error instanceof WeirError ? error : new WeirError(`${error}`, 'unreachable')
      const left = open(batch)
      if (!again && (failure.unsent || (!failure.status && left.every((call) => call.safe))))
        setTimeout(() => (batch = open(left))[0] && send(batch, true), RETRY_MS)
      else fail(left, failure)
    }
    underWay--
    flush()
  }

  return (text, safe, timeout, settled) => {
    if (!scheduled) {
      scheduled = true
      queueMicrotask(() => {
        tick = void (scheduled = false)
        flush()
      })
    }
    if (tick?.timeout !== timeout) {
      const calls: Call[] = []
      const timer = setTimeout(
        () => fail(calls, new WeirError(`no answer in ${timeout} ms`, 'timeout')),
        timeout,
      )
      tick = { timeout, calls, open: 0, end: () => clearTimeout(timer) }
    }
    const call = { text, safe, settle: settled, groups: [tick!] }
    tick!.open++
    tick!.calls.push(call)
    queue.push(call)
    return () => settle(call)
  }
}
