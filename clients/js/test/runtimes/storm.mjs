/* storm.mjs - an instance that goes on asking, whatever happens to the server.
 *
 *   node storm.mjs PACKAGE URL NAME     until its input ends; prints `began` and `lost` when they
 *                                       happen, and at last how many were asked and allowed */
import process from 'node:process'
import { LIMIT } from './limit.mjs'

const WORKERS = 8
const LEAST = 334
const BEGAN = 100

/**
 * `ask(id)` until told to stop and until it is denied. What has no answer of the store is asked
 * again with the same id, so that it is counted once.
 */
export async function storm(ask, stopped, said = () => {}) {
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
  const heard = new Set()
  const say = (word) => heard.has(word) || (heard.add(word), said(word))
  let asked = 0
  let allowed = 0
  await Promise.all(
    Array.from({ length: WORKERS }, async (_, worker) => {
      for (let answer; asked < LEAST || !stopped() || answer?.allowed; ) {
        const id = `${worker}-${asked++}`
        while ((answer = await ask(id)).source !== 'store') (say('lost'), await pause(10))
        if (answer.allowed) allowed++
        if (asked >= BEGAN) say('began')
        if (!stopped()) await pause(10)
      }
    }),
  )
  return { asked, allowed }
}

const [, script, folder, url, name] = process.argv
if (script.endsWith('storm.mjs')) {
  const { Weir } = await import(`file://${folder}/index.js`)
  const { socket } = await import(`file://${folder}/socket.js`)
  const way = url.startsWith('weir:') ? { transport: socket({ url }) } : { url }
  const weir = new Weir({ ...way, timeout: 20_000, on: { error() {} } })
  let isOver = false
  process.stdin.on('end', () => (isOver = true)).resume()
  const found = await storm(
    (id) => weir.check(LIMIT, 'all', { id: `${name}-${id}` }),
    () => isOver,
    (word) => console.log(word),
  )
  console.log(JSON.stringify(found))
  weir.close()
}
