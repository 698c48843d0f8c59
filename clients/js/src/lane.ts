/* lane.ts - checks on their way: those of one tick leave in one request.
 *
 * RULES
 *   L1  What is pushed in one turn of the event loop leaves in one request, at most `max` of them
 *       and 256 Ki characters.
 *   L2  What comes while a request is under way leaves together when it returns, or after 2 ms, or
 *       when there are `max`; at once if requests cost little. At most `inFlight` are under way.
 *   L3  Each call is settled once: by its answer, or by its deadline, which runs from the push.
 *   L4  What may have been sent is sent again only if it is safe: it changes nothing when done
 *       twice. Once, after 20 ms.
 *
 * WHY NOT one timer for each call: a timer costs as much as the rest of a call. Those of one tick
 * share one. */
import { type Raw, WeirError } from './answer.js'
import type { Transport, Underway, Verb } from './transport.js'

const MOST_CHARACTERS = 1 << 18
const GATHER_MS = 2
const RETRY_MS = 20

export type Settle = (result: Raw | WeirError) => void

/** Calls with one end: of a deadline, or of a request. */
interface Group extends Underway {
  open: number
}

export interface Call {
  text: string
  /** It changes nothing when done twice. */
  safe: boolean
  /** Taken away when it is settled. */
  settle?: Settle
  /** The lane's own. */
  groups?: Group[]
}

/** Returns what gives the call up, without an answer. */
export type Push = (call: Call, timeout: number) => () => void

const isAnswer = (raw?: Raw) => raw?.error || typeof raw?.allowed === 'boolean'

/** `report` hears of each request that fails, once, and of each that does not. */
export function lane(
  verb: Verb,
  transport: Transport,
  max: number,
  inFlight: number,
  report: (error?: WeirError) => void,
): Push {
  const eager = transport.eager || inFlight === Infinity
  let queue: Call[] = []
  let tick: (Group & { timeout: number; calls: Call[] }) | undefined
  let gathering: any
  let underWay = 0

  function settle(call: Call, result?: Raw | WeirError) {
    const { settle } = call
    if (!settle) return
    call.settle = undefined
    for (const group of call.groups!) if (!--group.open) group.drop?.()
    if (result) settle(result)
  }

  const open = (calls: Call[]) => calls.filter((call) => call.settle)

  function fail(calls: Call[], error: WeirError) {
    calls = open(calls)
    if (calls[0]) report(error)
    for (const call of calls) settle(call, error)
  }

  function flush(late?: boolean) {
    while (
      underWay < inFlight &&
      (late || eager || !underWay || queue.length >= max) &&
      (queue = open(queue))[0]
    ) {
      let size = 0
      let taken = 0
      for (const { text } of queue)
        if (taken === max || ((size += text.length) > MOST_CHARACTERS && taken)) break
        else taken++
      void send(queue.splice(0, taken))
    }
    if (!queue[0]) gathering = clearTimeout(gathering)
    else gathering ??= setTimeout(() => ((gathering = void 0), flush(true)), GATHER_MS)
  }

  async function send(batch: Call[], again?: boolean) {
    const under: Group = { open: batch.length }
    for (const call of batch) call.groups![1] = under
    underWay++
    try {
      const results = await transport.send(
        verb,
        batch.map((call) => call.text),
        under,
      )
      if (results?.length !== batch.length || !results.every(isAnswer))
        throw new WeirError('not an answer', 'bad_answer')
      under.drop = undefined
      report()
      batch.forEach((call, i) => settle(call, results[i]))
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

  return (call, timeout) => {
    if (tick?.timeout !== timeout) {
      if (!tick)
        queueMicrotask(() => {
          tick = undefined
          flush()
        })
      const calls: Call[] = []
      const timer = setTimeout(
        () => fail(calls, new WeirError(`no answer in ${timeout} ms`, 'timeout')),
        timeout,
      )
      tick = { timeout, calls, open: 0, drop: () => clearTimeout(timer) }
    }
    call.groups = [tick!]
    tick!.open++
    tick!.calls.push(call)
    queue.push(call)
    return () => settle(call)
  }
}
