// supabase.mjs - an edge function that checks a limit with supabase-js, after `SELECT weir.expose('public')`.

export async function answer(supabase, ip) {
  const { data, error } = await supabase.rpc('check_rate_limit', { p_key: `login:${ip}`, p_limit: 5, p_window_seconds: 900 })
  if (!error && !data[0].allowed) return new Response('slow down', { status: 429, headers: { 'Retry-After': data[0].retry_after } })
  return new Response('welcome') // also if there is no answer: this one fails open
}
