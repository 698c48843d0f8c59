// node_redis.js - asks a server through node-redis.
//
//     node node_redis.js PORT TOKEN RESP
//
// Says in JSON what it heard. Then it waits for a line, in which time the server is restarted, and
// asks again on the same client.
'use strict';
const { createClient } = require('redis');
const { tell, told } = require('./talk.js');

async function main(port, password, RESP) {
  const url = `redis://127.0.0.1:${port}`;
  const client = createClient({ url, password, RESP, socket: { reconnectStrategy: () => 20 } });
  client.on('error', () => {}); // a restart is no surprise
  await client.connect();

  const ask = (...words) => client.sendCommand(words);
  const many = Array.from({ length: 1000 }, () => ask('WEIR.CHECK', 'pipelined', 'a'));
  tell({
    ping: await client.ping(),
    checks: [await ask('WEIR.CHECK', 'login', '192.0.2.1'),
      await ask('WEIR.CHECK', 'login', 'ip=192.0.2.1')],
    throttle: await ask('CL.THROTTLE', 'user123', '15', '30', '60'),
    allowed: (await Promise.all(many)).filter((reply) => reply[0] === 1).length,
    multi: (await client.multi().addCommand(['WEIR.CHECK', 'bulk', 'm'])
      .addCommand(['WEIR.CHECK', 'bulk', 'm', 'COST', '3']).exec()).map((reply) => reply[0]),
    error: await ask('WEIR.CHECK', 'none', 'a').catch((error) => error.message),
  });
  await told();
  tell({ again: await ask('WEIR.CHECK', 'login', '192.0.2.1') });
  await client.quit();

  const stranger = createClient({ url, RESP, socket: { reconnectStrategy: false } });
  stranger.on('error', () => {});
  tell({ stranger: await stranger.connect()
    .then(() => stranger.sendCommand(['WEIR.CHECK', 'login', 'x'])).catch((e) => e.message) });
  process.exit(0);
}

main(Number(process.argv[2]), process.argv[3], Number(process.argv[4]));
