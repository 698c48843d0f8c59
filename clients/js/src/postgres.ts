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

const LIMIT: [parameter: string, member: string][] = [
  ['p_policy', 'policy'],
  ['p_attributes', 'attributes'],
  ['p_key', 'key'],
  ['p_cost', 'cost'],
  ['p_plan', 'plan'],
]

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
        `${parameter} => $${i + 1}${/check|attr/.test(parameter) ? '::text::jsonb' : ''}`,
    )
    const text = `SELECT to_jsonb(a) AS answer FROM weir.${name}(${named}) a`
    const values = Object.values(parameters).map((value) =>
      typeof value === 'object' ? JSON.stringify(value) : value,
    )
    const rows =
      'unsafe' in database
        ? await database.unsafe(text, values)
        : (await database.query(text, values)).rows
    return rows.map((row: any) => row.answer)
  }

  async function ask(verb: Verb, requests: any[]): Promise<Raw[]> {
    if (/check|peek/.test(verb)) {
      const checks = requests.map((request) =>
        verb === 'peek' ? { ...request, peek: true } : request,
      )
      return (await call('check_many', { p_checks: checks })).map(tidy)
    }
    if (!/charge|refund|reset/.test(verb))
      throw new WeirError(`${verb} is by HTTP or RESP`, 'invalid_request')
    const answers = []
    for (const request of requests) {
      if (request.window_ms || request.policies)
        throw new WeirError(`by SQL, ${verb} is for one policy`, 'invalid_request')
      const parameters = Object.fromEntries(
        LIMIT.filter(
          ([, member]) => request[member] !== undefined && (member !== 'cost' || verb !== 'reset'),
        ).map(([parameter, member]) => [parameter, request[member]]),
      )
      answers.push(tidy((await call(verb, parameters))[0]))
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
        if (requests.length < 2 || !/check|peek/.test(verb)) return Promise.all(requests.map(one))
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

/** SQLSTATEs of weir's own mistakes have a status, as by HTTP. */
function explain(error: any): WeirError {
  if (error instanceof WeirError) return error
  const { code = '', message = String(error) } = error ?? {}
  if (code === '42704') return new WeirError(message, 'no_such_policy', 404)
  if (code === '22023') return new WeirError(message, 'invalid_request', 400)
  return new WeirError(
    `${message} ${code}`,
    'unreachable',
    0,
    /ECONNREFUSED/.test(`${code} ${message}`),
  )
}

/** A row as the JSON of HTTP has it. */
function tidy(row: any): Raw {
  const { rules = [], ...rest } = row ?? {}
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
