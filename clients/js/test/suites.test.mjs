/* suites.test.mjs - the tests of other limiters, unchanged, with our store in the place of theirs in
 * memory. They sleep, and count what passes within a second, so only `./dev peers` runs them.
 *
 * suites.json has, for each, where its tests are from, how many there are, and which of them fail
 * and why. They are of its commit; or of its tag, the release before it, where that commit is not to be
 * had. Any other result is a failure here, also that a test passes that is listed; except of those that
 * fail only at times. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import dns from 'node:dns/promises'
import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { scratch, serve } from './support.mjs'

const { PEERS, WHY_NO_PEERS, SUITE_MODULES, WHY_NO_SUITE_MODULES, SUITES } = process.env
const CHECKOUTS = JSON.parse(process.env.CHECKOUTS ?? '{}')
const beside = (name) => new URL(`suites/${name}`, import.meta.url).pathname
const suites = JSON.parse(readFileSync(beside('suites.json'), 'utf8'))
const unless = (found, why) => (!SUITES ? './dev peers runs it' : found ? false : (why ?? 'not fetched'))

/** The texts of what a program says, with a server of its own that takes the time of its clients. */
async function run(args, env) {
  const server = await serve({ args: ['--trust-client-clock'] })
  const child = spawn(process.execPath, args, {
    env: { ...process.env, NODE_TEST_CONTEXT: '', WEIR_URL: server.url, ...env },
  })
  const said = []
  const ended = [child.stdout, child.stderr].map(async (stream, i) => {
    for await (const piece of stream) said[i] = (said[i] ?? '') + piece
  })
  await Promise.all(ended)
  await server.stop()
  return said
}

/** `results`: what became of each test, by its name. */
async function compare(name, results, said) {
  const { tests, skipped = [], different, different_without_ipv6 } = suites[name]
  const { different_at_times = {} } = suites[name]
  const addresses = await dns.lookup('localhost', { all: true })
  const hasIpv6 = addresses.some(({ address }) => address === '::1')
  const expected = { ...different, ...(!hasIpv6 && different_without_ipv6) }
  const those = (became) =>
    results
      .filter(([test, status]) => status === became && !(test in different_at_times))
      .map(([test]) => test)
  assert.deepEqual(those('failed').sort(), Object.keys(expected).sort(), said)
  assert.deepEqual(those('pending').sort(), skipped.sort(), said)
  assert.equal(results.length, tests, said)
}

for (const [name, { repository, files, replaced }] of Object.entries(suites)) {
  if (!repository) continue
  const { folder, at, why } = CHECKOUTS[name] ?? {}
  const skip = unless(SUITE_MODULES && folder, WHY_NO_SUITE_MODULES ?? why)
  test(`the tests of ${name}${at ? `, at ${at}` : ''}`, { skip }, async () => {
    const report = scratch('report.json')
    const jest = path.join(SUITE_MODULES, 'jest/bin/jest.js')
    const said = await run(
      [jest, '--config', beside('jest.config.cjs'), '--runInBand', '--json', '--outputFile', report],
      {
        CHECKOUT: folder,
        FILES: files,
        REPLACED: JSON.stringify(replaced),
        NODE_OPTIONS: '--dns-result-order=ipv6first',
      },
    )
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'))
    const results = testResults.flatMap(({ name: file, message, assertionResults }) =>
      assertionResults.length > 0
        ? assertionResults.map(({ fullName, status }) => [fullName, status])
        : [[`${file} ${message}`, 'failed']],
    )
    await compare(name, results, said.join('\n'))
  })
}

const fastify = '@fastify/rate-limit'
test(`the tests of ${fastify}`, { skip: unless(PEERS, WHY_NO_PEERS) }, async () => {
  const folder = path.join(PEERS, fastify, 'test')
  const files = readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.test.js') && !name.includes('redis'))
    .map((name) => path.join(folder, name))
  const results = []
  let all = ''
  for (const file of files) {
    let found
    // Some ask a thousand times within 10 s: on a busy machine they need more than one try.
    for (let tries = 0; tries < 3; tries++) {
      const [said] = await run(['--require', beside('weir_for_fastify.cjs'), '--test-reporter=tap', file])
      all += said
      found = [...said.matchAll(/^(not )?ok \d+ - (.*)$/gm)].map(([, not, name]) => [
        name.replaceAll('\\', ''),
        not ? 'failed' : 'passed',
      ])
      if (found.every(([name, became]) => became === 'passed' || name in suites[fastify].different)) break
    }
    results.push(...found)
  }
  await compare(fastify, results, all)
})

test('the documentation has each difference and its reason', () => {
  const page = readFileSync('docs/javascript-peers.md', 'utf8')
  for (const [name, suite] of Object.entries(suites)) {
    const [, section] = page.split(`\n## ${name}\n`)
    assert.ok(section, name)
    const listed = [...section.split('\n## ')[0].matchAll(/^\| (.*) \| (.*) \|$/gm)].slice(1)
    assert.deepEqual(
      listed.map(([, test, why]) => [test, why]),
      Object.entries({
        ...suite.different,
        ...suite.different_without_ipv6,
        ...Object.fromEntries(
          Object.entries(suite.different_at_times ?? {}).map(([test, why]) => [test, `at times: ${why}`]),
        ),
      }),
    )
  }
})
