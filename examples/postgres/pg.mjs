// pg.mjs - an edge function that checks the pushed policy `login`, with npm's pg.

export async function answer(pool, ip) {
  const { rows: [it] } = await pool.query('SELECT allowed, retry_after_ms FROM weir.check($1, $2)', ['login', { ip }])
  if (!it.allowed) return new Response('slow down', { status: 429, headers: { 'Retry-After': Math.ceil(it.retry_after_ms / 1000) } })
  return new Response('welcome')
}
