/* ratelimit.cjs - in the place of the modules with the limiters and the durations of
 * @upstash/ratelimit. Its tests make clients of Redis, too, which are not used. */
const { ms } = require(`${process.env.PACKAGE}/cjs/duration.js`)
const { Ratelimit } = require(`${process.env.PACKAGE}/cjs/upstash.js`)

for (const region of ['', 'EU2_', 'APN_', 'US1_']) {
  process.env[`${region}UPSTASH_REDIS_REST_URL`] = 'http://127.0.0.1:1'
  process.env[`${region}UPSTASH_REDIS_REST_TOKEN`] = 'unused'
}

module.exports = { ms, Ratelimit, RegionRatelimit: Ratelimit, MultiRegionRatelimit: Ratelimit }
