// talk.js - how the programs here talk with the test that runs them: a line of JSON, a line back.
'use strict';
const lines = require('readline').createInterface({ input: process.stdin });

exports.tell = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
exports.told = () => new Promise((resolve) => {
  lines.once('line', resolve);
}).finally(() => lines.close());
