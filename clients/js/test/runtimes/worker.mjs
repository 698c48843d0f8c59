/* worker.mjs - a worker with one client for all of its requests, and one by connect() in each. */
import { connect } from 'cloudflare:sockets'
import { Weir } from 'weir-client'
import { limited } from 'weir-client/fetch'
import { socket } from 'weir-client/workers'
import { LIMIT } from './limit.mjs'

let weir
export default {
  async fetch(request, env, context) {
    const { pathname } = new URL(request.url)
    weir ??= new Weir({ url: env.WEIR_URL, timeout: 20_000 })
    if (pathname === '/socket') {
      const { hostname, port } = new URL(env.WEIR_URL)
      const own = new Weir({
        transport: socket({ connect, hostname, port: Number(port) }),
        timeout: 20_000,
      })
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, i) => own.check('wide', `w${i}`)),
      )
      own.close()
      return Response.json(answers.map((answer) => answer.source))
    }
    if (pathname === '/storm') {
      const id = new URL(request.url).searchParams.get('id')
      return Response.json(await weir.check(LIMIT, 'all', { id }))
    }
    if (pathname === '/many') {
      const answers = await weir.checkMany(
        Array.from({ length: 50 }, (_, i) => ({ policy: 'wide', who: `m${i}` })),
      )
      return Response.json(answers.map((answer) => answer.source))
    }
    return limited(
      weir,
      'login',
      { address: { header: 'cf-connecting-ip' } },
      () => new Response('hello'),
    )(request, env, context)
  },
}
