/* bun_test.cjs - what tests import from bun:test, by jest. There are no regions, so tests of many
 * are left out. */
const globals = require('@jest/globals')

const describe = (name, run) => name !== 'multiRegion' && globals.describe(name, run)
function test(name, run, limits) {
  if (limits?.retry) globals.jest.retryTimes(limits.retry)
  globals.test(name, run, limits?.timeout ?? limits)
}
module.exports = { ...globals, describe, test, it: test }
