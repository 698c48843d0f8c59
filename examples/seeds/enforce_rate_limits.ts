// enforce_rate_limits.ts - three tiers decided as one: enforceRateLimits(email, ipAddress). null if
// the request may pass. The policy:
//
//   cleanup:
//     retry_after: soonest
//     rules:
//       global: {limit: 1000 per 60s}
//       ip: {limit: 5 per 60s, by: ip_hash}
//       email: {limit: 3 per 60m, by: email_hash}
import { Weir } from 'weir-client'
import { rateLimitHeaders } from 'weir-client/http'

export interface RateLimitResult {
  allowed: boolean
  limit: number
  currentCount: number
  retryAfter: number
  headers: Record<string, string>
}

async function hash(text: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

let weir: Weir | undefined

export async function enforceRateLimits(
  email: string,
  ipAddress: string,
): Promise<RateLimitResult | null> {
  weir ??= new Weir({ onError: 'allow' })
  const [email_hash, ip_hash] = await Promise.all([
    hash(email.trim().toLowerCase()),
    hash(ipAddress.trim()),
  ])
  const answer = await weir.check('cleanup', { email_hash, ip_hash })
  if (answer.allowed) return null
  const { limit, remaining, retryAfterMs } = answer
  return {
    allowed: false,
    limit,
    currentCount: limit - remaining,
    retryAfter: Math.ceil(retryAfterMs / 1000),
    headers: rateLimitHeaders(answer),
  }
}

export async function cleanup(email: string, ipAddress: string): Promise<Response> {
  const denied = await enforceRateLimits(email, ipAddress)
  if (!denied) return new Response('a code is on its way')
  const error = {
    code: 'ORPHAN_CLEANUP_003',
    message: 'Rate limit exceeded. Please try again later.',
  }
  return Response.json({ error }, { status: 429, headers: denied.headers })
}
