/* suites.test.mjs - the tests of other limiters, unchanged, with our store in the place of theirs in
 * memory. They sleep, and count what passes within a second, so only `./dev peers` runs them. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { serve } from './support.mjs'

const { PEERS, WHY_NO_PEERS, SUITES } = process.env
const skip = !SUITES ? './dev peers runs it' : PEERS ? false : (WHY_NO_PEERS ?? 'no PEERS')

/** Those that fail, and why: docs/javascript.md has the list. */
const DIFFERENT = {
  'With { increment: false } and continueExceeding the peek mirrors the active window':
    'continueExceeding',
  'With { increment: false } and exponentialBackoff the peek reports the base window without escalating it':
    'the test before it leaves its clock behind',
  'issue #207 - when continueExceeding is true and the store is local then it should reset the rate-limit':
    'continueExceeding',
}

test('the tests of @fastify/rate-limit', { skip }, async () => {
  const folder = path.join(PEERS, '@fastify/rate-limit/test')
  const files = readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.test.js') && !name.includes('redis'))
    .map((name) => path.join(folder, name))
  const server = await serve({ args: ['--trust-client-clock'] })
  const preload = new URL('suites/weir_for_fastify.cjs', import.meta.url).pathname
  let said = ''
  for (const file of files) {
    const node = spawn(process.execPath, ['--require', preload, '--test-reporter=tap', file], {
      env: { ...process.env, NODE_TEST_CONTEXT: '', WEIR_URL: server.url },
    })
    for await (const piece of node.stdout) said += piece
  }
  await server.stop()
  const failed = [...said.matchAll(/^not ok \d+ - (.*)$/gm)].map(([, name]) => name.replaceAll('\\', ''))
  assert.deepEqual(failed.sort(), Object.keys(DIFFERENT).sort(), said)
  assert.equal(said.match(/^ok /gm).length, 95)
})
