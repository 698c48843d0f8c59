// ioredis.js - asks a server through ioredis.
//
//     node ioredis.js PORT TOKEN
//
// Says in JSON what it heard. Then it waits for a line, in which time the server is restarted, and
// asks again on the same client.
'use strict';
const Redis = require('ioredis');
const { tell, told } = require('./talk.js');

async function main(port, password) {
  const client = new Redis({ host: '127.0.0.1', port, password, retryStrategy: () => 20 });
  client.on('error', () => {}); // a restart is no surprise

  const pipeline = client.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.call('WEIR.CHECK', 'pipelined', 'a');
  tell({
    ping: await client.ping(),
    checks: [await client.call('WEIR.CHECK', 'login', '192.0.2.1'),
      await client.call('WEIR.CHECK', 'login', 'ip=192.0.2.1')],
    throttle: await client.call('CL.THROTTLE', 'user123', 15, 30, 60),
    allowed: (await pipeline.exec()).filter(([error, reply]) => !error && reply[0] === 1).length,
    multi: (await client.multi().call('WEIR.CHECK', 'bulk', 'm')
      .call('WEIR.CHECK', 'bulk', 'm', 'COST', 3).exec()).map(([, reply]) => reply[0]),
    error: await client.call('WEIR.CHECK', 'none', 'a').catch((error) => error.message),
  });
  await told();
  tell({ again: await client.call('WEIR.CHECK', 'login', '192.0.2.1') });
  await client.quit();

  const stranger = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: null });
  stranger.on('error', () => {});
  tell({ stranger: await stranger.call('WEIR.CHECK', 'login', 'x').catch((e) => e.message) });
  stranger.disconnect();
}

main(Number(process.argv[2]), process.argv[3]);
