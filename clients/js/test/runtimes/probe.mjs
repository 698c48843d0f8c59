/* probe.mjs - what a runtime must be able to do, in one program that each of them runs.
 *
 *   probe.mjs PACKAGE URL AWAY       prints JSON: how many of 334 checks at once are allowed, and
 *   what else it heard */
const [folder, url, away] = (globalThis.process ?? globalThis.Deno).argv?.slice(2) ?? Deno.args
const { Weir, localLimiter } = await import(`file://${folder}/index.js`)
const { socket } = await import(`file://${folder}/socket.js`)
const { limited } = await import(`file://${folder}/middleware/fetch.js`)
const timeout = 20_000
const weir = new Weir({ url, timeout })
const all = await Promise.all(
  Array.from({ length: 334 }, () => weir.check('login', '198.51.100.1')),
)

const lost = new Weir({
  url: away,
  timeout,
  onError: 'local',
  local: localLimiter({ login: { limit: 1, window: '1h' } }),
  on: { error() {} },
})
const fallbacks = [await lost.check('login', 'x'), await lost.check('login', 'x')].map((a) => [
  a.source,
  a.allowed,
  a.error.code,
])

const kept = new Weir({ transport: socket({ url: url.replace('http', 'weir') }), timeout })
const many = await Promise.all(Array.from({ length: 100 }, (_, i) => kept.check('wide', `k${i}`)))
kept.close()

const handler = limited(weir, 'login', { address: { hops: 1 } }, () => new Response('hello'))
const request = () =>
  new Request('http://example.com/', { headers: { 'x-forwarded-for': '6.6.6.6, 198.51.100.1' } })
let response = await handler(request())
while (response.status === 200) response = await handler(request())

console.log(
  JSON.stringify({
    allowed: all.filter((a) => a.allowed).length,
    fallbacks,
    bySocket: many.filter((a) => a.source === 'store').length,
    status: response.status,
    retry: Number(response.headers.get('retry-after')) > 800,
  }),
)
