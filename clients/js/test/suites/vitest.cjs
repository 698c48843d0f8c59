/* vitest.cjs - what tests import from vitest, by jest. */
const globals = require('@jest/globals')

module.exports = { ...globals, vi: globals.jest }
