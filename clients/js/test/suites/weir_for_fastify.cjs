/* weir_for_fastify.cjs - preloaded into the tests of @fastify/rate-limit: its store in memory is
 * that of weir, at the time of the test's clock, which must not move the timers of the client. */
const Module = require('node:module')
const { mock } = require('node:test')
const { timed } = require('./timed.cjs')
const { store } = require(`${process.env.PACKAGE}/cjs/stores/fastify_rate_limit.js`)

const timers = Object.getPrototypeOf(mock.timers)
const { enable } = timers
timers.enable = function (options) {
  return enable.call(this, { ...options, apis: ['Date'] })
}

let stores = 0
class LocalStore {
  constructor(continueExceeding, exponentialBackoff) {
    const Store = store({ weir: timed(), prefix: `${process.pid}.${stores++}:` })
    return new Store({ continueExceeding, exponentialBackoff })
  }
}

const load = Module._load
Module._load = function (name, ...more) {
  return name === './store/LocalStore' ? LocalStore : load.call(this, name, ...more)
}
