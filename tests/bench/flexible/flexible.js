// flexible.js - rate-limiter-flexible under load: callers that each ask, wait and ask again.
//
//     node flexible.js PORT CALLERS KEYS SECONDS POINTS     one JSON object
const Redis = require('ioredis');
const { RateLimiterRedis } = require('rate-limiter-flexible');

const [port, callers, keys, seconds, points] = process.argv.slice(2).map(Number);
const client = new Redis({ port, enableOfflineQueue: true, enableAutoPipelining: true });
const limiter = new RateLimiterRedis({ storeClient: client, keyPrefix: 'flexible', points, duration: 86400 });
const took = [];
let allowed = 0;
let denied = 0;

async function ask(until) {
  while (process.hrtime.bigint() < until) {
    const begin = process.hrtime.bigint();
    try {
      await limiter.consume(`key:${Math.floor(Math.random() * keys)}`);
      allowed++;
    } catch (refusal) {
      if (refusal instanceof Error) throw refusal;
      denied++;
    }
    took.push(Number(process.hrtime.bigint() - begin) / 1000);
  }
}

async function main() {
  await client.ping();
  const begin = process.hrtime.bigint();
  const until = begin + BigInt(seconds * 1e9);
  await Promise.all(Array.from({ length: callers }, () => ask(until)));
  const elapsed = Number(process.hrtime.bigint() - begin) / 1e9;
  took.sort((a, b) => a - b);
  console.log(JSON.stringify({
    per_second: took.length / elapsed,
    p50: took[Math.floor(took.length / 2)],
    p99: took[Math.floor(took.length * 0.99)],
    allowed,
    denied,
  }));
  client.disconnect();
}

main();
