/* lane.ts - checks on their way: those of one tick leave in one request.
 *
 * RULES
 *   L1  What is pushed in one turn of the event loop leaves in one request, at most `max` of them
 *       and 256 Ki characters. If requests cost little, the first ones leave when they are enough
 *       for one, so that weir decides them while this process asks the rest.
 *   L2  What comes while a request is under way leaves together when it returns, or after 2 ms, or
 *       when there are `max`; at once if requests cost little. At most `inFlight` are under way.
 *   L3  Each call is settled once: by its answer, or by its deadline, which runs from the push.
 *   L4  What may have been sent is sent again only if it is safe: it changes nothing when done
 *       twice. Once, after 20 ms.
 *
 * WHY NOT one timer for each call: a timer costs as much as the rest of a call. Those of one tick
 * share one. */
import { type Answer, type Raw, WeirError } from './answer.js'
import type { Transport, Underway, Verb } from './transport.js'

const MOST_CHARACTERS = 1 << 18
const GATHER_MS = 2
const RETRY_MS = 20

export type Settle = (result: Answer | WeirError) => void

/** Calls with one end: of a deadline, or of a request. */
interface Group extends Underway {
  open: number
}

export interface Call {
  text: string
  /** It changes nothing when done twice, whatever the verb. */
  safe: unknown
  /** Taken away when it is settled. */
  settle?: Settle
  /** The lane's own. */
  groups?: Group[]
}

/** Returns what gives the call up, without an answer. */
export type Push = (call: Call, timeout: number) => () => void

/** Done twice, these change nothing more: peek, reset, commit, release, extend. */
const SAFE = /pe|set|com|rel|ext/

const isAnswer = (raw?: Raw) => raw?.error || typeof raw?.allowed === 'boolean'

/** `report` hears of each request that fails, once, and of each that does not. */
export function lane(
  verb: Verb,
  transport: Transport,
  max: number,
  inFlight: number,
  report: (error?: WeirError) => void,
): Push {
  const { enough = max, eager = inFlight === Infinity } = transport
  let queue: Call[] = []
  let tick: (Group & { timeout: number; calls: Call[] }) | undefined
  let gathering: any
  let underWay = 0

  function settle(call: Call, result?: Answer | WeirError) {
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
      (late || eager || !underWay || queue.length >= enough) &&
      (queue = open(queue))[0]
    ) {
      let left = MOST_CHARACTERS
      let taken = 0
      while (taken < max && (left -= queue[taken]?.text.length!) > 0) taken++
      void send(queue.splice(0, taken || 1))
    }
    if (!queue[0]) gathering &&= clearTimeout(gathering)
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
      results.forEach((raw, i) =>
        settle(
          batch[i]!,
          raw.error ? new WeirError(raw.error.detail, raw.error.code) : (raw as Answer),
        ),
      )
    } catch (error) {
      const failure = error instanceof WeirError ? error : new WeirError(`${error}`, 'unreachable')
      batch = open(batch)
      if (!again && (failure.unsent || (!failure.status && (SAFE.test(verb) || batch.every((call) => call.safe)))))
        setTimeout(() => (batch = open(batch))[0] && send(batch, true), RETRY_MS)
      else fail(batch, failure)
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
    if (queue.push(call) >= enough) flush()
    return () => settle(call)
  }
}
