/* weir_for_redis.cjs - preloaded into tests of others that know their Redis by its port: they reach
 * weir instead. weir has no FLUSHALL, so the keys that were used are deleted one by one. */
const net = require('node:net')
const path = require('node:path')
const { createRequire } = require('node:module')

const { REDIS_PEERS, WEIR_PORT } = process.env
const Redis = createRequire(path.join(REDIS_PEERS, 'x'))('ioredis')
const { createConnection } = net
const { sendCommand } = Redis.prototype
const used = new Set()

net.createConnection = (options, ...more) =>
  createConnection(options.port === 6379 ? { ...options, port: Number(WEIR_PORT) } : options, ...more)

Redis.prototype.sendCommand = function (command, ...more) {
  for (const key of command.getKeys()) used.add(String(key))
  return sendCommand.call(this, command, ...more)
}
Redis.prototype.flushall = function () {
  return used.size > 0 ? this.del(...used) : 'OK'
}
