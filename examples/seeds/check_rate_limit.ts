// check_rate_limit.ts - limits in Postgres, without a server: checkRateLimit(supabase, identifier,
// endpoint, limit, windowMs), after `weir migrate` and `SELECT weir.expose('public')`.
// upsert_rate_limit is weir's, with the same parameters.

export interface RateLimitResult {
  isAllowed: boolean
  remaining: number
  resetAt: Date
  limit: number
}
export interface SupabaseClient {
  rpc(name: string, parameters: object): PromiseLike<{ data: any; error: any }>
}

export async function checkRateLimit(
  supabase: SupabaseClient,
  identifier: string,
  endpoint: string,
  limit: number,
  windowMs: number,
): Promise<RateLimitResult> {
  const windowStart = new Date(Math.floor(Date.now() / windowMs) * windowMs)
  const resetAt = new Date(windowStart.getTime() + windowMs)
  const { data, error } = await supabase.rpc('upsert_rate_limit', {
    p_identifier: identifier,
    p_endpoint: endpoint,
    p_window_start: windowStart.toISOString(),
    p_window_end: resetAt.toISOString(),
  })
  if (error) throw error
  const { requests_count: count } = Array.isArray(data) ? data[0] : data
  return { isAllowed: count <= limit, remaining: Math.max(0, limit - count), resetAt, limit }
}
