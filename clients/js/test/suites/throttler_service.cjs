/* throttler_service.cjs - in the place of the module with the memory storage of @nestjs/throttler. */
const { randomUUID } = require('node:crypto')
const { timed } = require('./timed.cjs')
const { WeirStorage } = require(`${process.env.PACKAGE}/cjs/stores/nestjs_throttler.js`)

exports.ThrottlerStorageService = class extends WeirStorage {
  constructor() {
    super({ weir: timed(), prefix: randomUUID() })
  }
}
