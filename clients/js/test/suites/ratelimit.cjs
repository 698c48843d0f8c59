/* ratelimit.cjs - in the place of the modules with the limiters and the durations of
 * @upstash/ratelimit. Its tests make clients of Redis, too: of these evalsha is looked up before each
 * request, as tests count it, and one that a test wrote itself is waited for. */
const { Redis } = require('@upstash/redis')
const { ms } = require(`${process.env.PACKAGE}/cjs/duration.js`)
const { Weir } = require(`${process.env.PACKAGE}/cjs/node.js`)
const upstash = require(`${process.env.PACKAGE}/cjs/upstash.js`)

for (const region of ['', 'EU2_', 'APN_', 'US1_']) {
  process.env[`${region}UPSTASH_REDIS_REST_URL`] = 'http://127.0.0.1:1'
  process.env[`${region}UPSTASH_REDIS_REST_TOKEN`] = 'unused'
}

class Ratelimit extends upstash.Ratelimit {
  constructor({ redis, ...config }) {
    const through = async (...request) => {
      const { evalsha } = redis
      if (!(redis instanceof Redis)) await evalsha()
      return fetch(...request)
    }
    super({ ...config, weir: new Weir({ fetch: through, onError: 'allow' }) })
  }
}

module.exports = { ms, Ratelimit, RegionRatelimit: Ratelimit, MultiRegionRatelimit: Ratelimit }
