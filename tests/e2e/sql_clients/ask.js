// ask.js - runs the edge functions of examples/postgres on a database, with npm's pg.
//
//     ask.js EXAMPLE URL      a JSON array of addresses on stdin, one of [status, retry] to stdout
//
// What supabase-js sends, PostgREST turns into a transaction of the caller's role: so does rpc().
const { Pool } = require('pg')
const { readFileSync } = require('fs')
const { pathToFileURL } = require('url')

async function rpc(pool, name, named) {
  const client = await pool.connect()
  const names = Object.keys(named).map((n, i) => `"${n}" => $${i + 1}`)
  try {
    await client.query('BEGIN')
    await client.query('SET LOCAL ROLE anon')
    const { rows } = await client.query(
      `SELECT coalesce(json_agg(r), '[]') AS body FROM (SELECT * FROM public."${name}"(${names})) r`, Object.values(named))
    await client.query('COMMIT')
    return { data: rows[0].body, error: null }
  } catch (error) {
    await client.query('ROLLBACK')
    return { data: null, error }
  } finally {
    client.release()
  }
}

async function main([example, url]) {
  const pool = new Pool({ connectionString: url, max: 8 })
  const { answer } = await import(pathToFileURL(example))
  const client = example.includes('supabase') ? { rpc: (name, named) => rpc(pool, name, named) } : pool
  const heard = await Promise.all(JSON.parse(readFileSync(0)).map(async ip => {
    const response = await answer(client, ip)
    return [response.status, Number(response.headers.get('Retry-After'))]
  }))
  console.log(JSON.stringify(heard))
  await pool.end()
}

main(process.argv.slice(2))
