/* duration.ts - lengths of time as policies have them. */
import { mistake } from './answer.js'

/** Milliseconds, or a text such as `15m`, `10 s`, `1d`. */
export type Duration = number | string

const UNITS: Record<string, number> = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 }

/** Milliseconds of `15m`, `10 s`, 900000. */
export function ms(duration: Duration): number {
  const [, amount, unit = 'ms'] = /^(\d+) ?(ms|[smhdw])?$/.exec(`${duration}`) ?? []
  if (!amount) throw mistake('not a duration: ' + duration)
  return +amount * UNITS[unit]!
}

export const root = globalThis as any

/** A clock that no administrator sets, where there is one. */
export const clock = () => (root.performance ?? Date).now() as number
