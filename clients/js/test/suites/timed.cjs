/* timed.cjs - a client whose requests are at the time of Date, which tests of others move. */
const { Weir } = require(`${process.env.PACKAGE}/cjs/index.js`)

exports.timed = () => {
  const weir = new Weir({ url: process.env.WEIR_URL, timeout: 30_000, denyCache: false })
  const at = (verb) => (limit, key, options) =>
    weir[verb](limit, key, { ...options, now: 1 + Date.now() }) // a clock may begin at 0
  return { check: at('check'), charge: at('charge'), refund: at('refund'), reset: at('reset') }
}
