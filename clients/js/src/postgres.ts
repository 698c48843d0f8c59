/* postgres.ts - limits by plain SQL, for those with no server: pg, postgres.js or supabase-js calls
 * the functions of schema weir. */
import { type Raw, WeirError } from './answer.js'
import type { Transport, Verb } from './transport.js'

/** `query(text, values)`: a Pool or a Client of pg, or what is like it. */
export interface Queries {
  query(text: string, values: unknown[]): Promise<{ rows: any[] }>
}
/** The `sql` of postgres.js. */
export interface Unsafe {
  unsafe(text: string, values: any[]): PromiseLike<any>
}
/** A client of supabase-js; the schema weir must be exposed. */
export interface Rpc {
  schema(name: string): {
    rpc(name: string, parameters: any): PromiseLike<{ data: any; error: any }>
  }
}

/** What the functions take; a check with an id is `check_once`. */
const PARAMETERS: Record<string, string[]> = {
  charge: ['policy', 'attributes', 'key', 'cost', 'costs', 'plan'],
  refund: ['policy', 'attributes', 'key', 'cost', 'costs', 'plan'],
  reset: ['policy', 'attributes', 'key', 'plan'],
  reserve: ['policy', 'attributes', 'key', 'cost', 'costs', 'plan', 'ttl_ms', 'id'],
  check_once: ['id', 'policy', 'attributes', 'key', 'cost', 'costs', 'plan'],
  commit: ['reservation', 'cost', 'costs'],
  release: ['reservation'],
  grow: ['reservation', 'cost', 'costs'],
  extend: ['reservation', 'ttl_ms'],
}

/** For `new Weir({ transport: postgres(pool) })`. The policies are those of `weir policy push`. */
export function postgres(database: Queries | Unsafe | Rpc): Transport {
  async function call(name: string, parameters: Record<string, unknown>): Promise<any[]> {
    if ('schema' in database) {
      const { data, error } = await database.schema('weir').rpc(name, parameters)
      if (error) throw error
      return Array.isArray(data) ? data : [data]
    }
    const named = Object.keys(parameters).map(
      (parameter, i) =>
        `${parameter} => $${i + 1}${/checks|attr|costs/.test(parameter) ? '::text::jsonb' : ''}`,
    )
    const text = `SELECT to_jsonb(a) AS answer FROM weir.${name}(${named}) a`
    const values = Object.values(parameters).map((value) =>
      value && typeof value === 'object' ? JSON.stringify(value) : value,
    )
    const rows =
      'unsafe' in database
        ? await database.unsafe(text, values)
        : (await database.query(text, values)).rows
    return rows.map((row: any) => row.answer)
  }

  async function ask(verb: Verb, requests: any[]): Promise<Raw[]> {
    const once = verb === 'check' && requests.length === 1 && requests[0].id !== undefined
    if (/check|peek/.test(verb) && !once) {
      const checks = requests.map((request) =>
        verb === 'peek' ? { ...request, peek: true } : request,
      )
      return (await call('check_many', { p_checks: checks })).map(tidy)
    }
    const name = once ? 'check_once' : verb
    const answers = []
    for (const request of requests) {
      const parameters: Record<string, unknown> = {}
      for (const member in request) {
        if (!PARAMETERS[name]!.includes(member))
          throw new WeirError(`by SQL, ${verb} has no ${member}`, 'invalid_request')
        parameters[`p_${member}`] = request[member]
      }
      answers.push(tidy((await call(name, parameters))[0]))
    }
    return answers
  }

  return {
    async send(verb, texts, underway) {
      const given = new Promise<never>((_, reject) => {
        underway.drop = () => reject(new WeirError('given up', 'timeout'))
      })
      const requests = texts.map((text) => JSON.parse(text))
      const one = async (request: any): Promise<Raw> => {
        try {
          return (await ask(verb, [request]))[0]!
        } catch (error: any) {
          const wrong = explain(error)
          if (!wrong.status) throw wrong
          return { allowed: false, error: { code: wrong.code, detail: wrong.message } }
        }
      }
      const all = async () => {
        const alone = !/check|peek/.test(verb) || requests.some((request) => request.id !== undefined)
        if (requests.length < 2 || alone) return Promise.all(requests.map(one))
        try {
          return await ask(verb, requests)
        } catch (error) {
          // If one is invalid, the call fails and counts nothing: then each goes alone.
          if (!explain(error).status) throw explain(error)
          return Promise.all(requests.map(one))
        }
      }
      const answers = all()
      answers.catch(() => {})
      given.catch(() => {})
      return Promise.race([answers, given])
    },
  }
}

const RESERVATIONS: Record<number, string> = {
  404: 'no_such_reservation',
  409: 'already_settled',
  410: 'reservation_expired',
  422: 'id_reused',
}

/** SQLSTATEs of weir's own mistakes have a status, as by HTTP. */
function explain(error: any): WeirError {
  if (error instanceof WeirError) return error
  const { code = '', message = String(error) } = error ?? {}
  if (code === '42704') return new WeirError(message, 'no_such_policy', 404)
  if (code === '22023') return new WeirError(message, 'invalid_request', 400)
  if (code === '42501') return new WeirError(message, 'forbidden', 403)
  const status = Number(/^WR(4\d\d)$/.exec(code)?.[1])
  if (RESERVATIONS[status]) return new WeirError(message, RESERVATIONS[status]!, status)
  return new WeirError(
    `${message} ${code}`,
    'unreachable',
    0,
    /ECONNREFUSED/.test(`${code} ${message}`),
  )
}

/** A row as the JSON of HTTP has it. */
function tidy(row: any): Raw {
  const { rules: all, ...rest } = row ?? {}
  const rules = all ?? []
  // Columns that this verb has nothing to say in.
  for (const name of ['expires_in_ms', 'repeated', 'expired', 'over'])
    if (rest[name] === null) delete rest[name]
  const one = rules.length === 1 ? { used: rules[0].used, over: rules[0].over } : {}
  return {
    shadow: rules.some((rule: any) => rule.shadow_denied),
    ...renamed(rest),
    ...(rules.length > 1 ? { rules: rules.map(renamed) } : one.used === undefined ? {} : one),
  } as Raw
}

function renamed({ retry_after_ms, reset_after_ms, delay_ms, ...rest }: any) {
  const [retryAfterMs, resetAfterMs] = [retry_after_ms, reset_after_ms]
  return {
    ...rest,
    retryAfterMs,
    resetAfterMs,
    ...(delay_ms !== undefined && { delayMs: delay_ms }),
  }
}
