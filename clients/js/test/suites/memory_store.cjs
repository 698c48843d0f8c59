/* memory_store.cjs - in the place of the module with the memory store of express-rate-limit or of
 * hono-rate-limiter. */
const { randomUUID } = require('node:crypto')
const { timed } = require('./timed.cjs')
const { WeirStore } = require(`${process.env.PACKAGE}/cjs/stores/express_rate_limit.js`)

exports.MemoryStore = class extends WeirStore {
  constructor() {
    super({ weir: timed(), prefix: randomUUID() })
  }
}
