/* fastify_rate_limit.ts - a store for @fastify/rate-limit: `register(rateLimit, { store: store({
 * weir }) })`. */
import { Weir } from '../node.js'
import { Counter, type StoreOptions } from './counter.js'

type Done = (error: unknown, result?: { current: number; ttl: number }) => void
interface Parameters {
  exponentialBackoff?: boolean
  timeWindow?: unknown
  routeInfo?: { method?: unknown; url?: string }
}

/** The class that the plugin wants. */
export function store({ weir = new Weir(), policy, prefix = 'fastify:' }: StoreOptions = {}) {
  const counter = new Counter(weir, policy)

  return class WeirStore {
    constructor(
      readonly parameters: Parameters = {},
      readonly own = prefix,
    ) {}

    incr(key: string, done: Done, timeWindow = 60_000, max = 1000): void {
      this.ask(key, 1, timeWindow, max).then((result) => done(null, result), done)
    }

    read(key: string, done: Done, timeWindow = 60_000, max = 1000): void {
      this.ask(key, 0, timeWindow, max).then((result) => done(null, result), done)
    }

    child(parameters: Parameters) {
      const { method, url } = parameters.routeInfo ?? {}
      return new WeirStore(
        { ...this.parameters, ...parameters },
        `${prefix}${method ?? ''}${url ?? ''}:`,
      )
    }

    async ask(key: string, cost: number, timeWindow: number, max: number) {
      const numbers = { window: timeWindow, limit: max }
      const { used, left } = await counter.add(this.own + key, numbers, cost)
      const longer =
        this.parameters.exponentialBackoff && used > max ? timeWindow * 2 ** (used - max - 1) : left
      return { current: used, ttl: Math.min(longer, Number.MAX_SAFE_INTEGER) }
    }
  }
}
