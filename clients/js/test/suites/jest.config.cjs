/* jest.config.cjs - of the tests of others: theirs in CHECKOUT, with our modules in the place of
 * those in REPLACED. Of the timers that tests fake, those run that sockets need. */
const path = require('node:path')

const { CHECKOUT, SUITE_MODULES, FILES, REPLACED } = process.env
const own = Object.entries(JSON.parse(REPLACED)).map(([name, file]) => [name, path.join(__dirname, file)])

module.exports = {
  rootDir: CHECKOUT,
  modulePaths: [SUITE_MODULES],
  testRegex: FILES,
  testTimeout: 60_000,
  moduleNameMapper: Object.fromEntries([...own, ['^(\\.{1,2}/.*)\\.js$', '$1']]),
  fakeTimers: {
    doNotFake: [
      'hrtime',
      'nextTick',
      'performance',
      'queueMicrotask',
      'setImmediate',
      'clearImmediate',
      'setInterval',
      'clearInterval',
    ],
  },
  transform: {
    '\\.ts$': [
      path.join(SUITE_MODULES, '@swc/jest'),
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
        module: { type: 'commonjs' },
      },
    ],
  },
}
