"use strict";
/* test.js - the installed package: its program, start() and stop().
 *
 *   node test.js FOLDER      a folder with node_modules/weir-server */
const assert = require("assert");
const { execFileSync, spawn, spawnSync } = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");
const { pathToFileURL } = require("url");

const folder = path.resolve(process.argv[2]);
const place = path.join(folder, "node_modules", "weir-server");
const { binary, start } = require(place);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "weir-"));
const tests = [];
const test = (name, run) => tests.push({ name, run });

async function check(server, body, headers = {}) {
  const response = await fetch(`${server.url}/v1/check`, { method: "POST", body: JSON.stringify(body), headers });
  return { status: response.status, ...(await response.json()) };
}
const limit = { limit: 2, window_ms: 3600000, key: "bob" };

test("the program is whole", () => {
  const { version } = JSON.parse(fs.readFileSync(path.join(place, "package.json"), "utf8"));
  assert.strictEqual(execFileSync(binary, ["--version"], { encoding: "utf8" }), `weir ${version}\n`);
  for (const file of JSON.parse(fs.readFileSync(path.join(place, "package.json"), "utf8")).files)
    assert.ok(fs.existsSync(path.join(place, file)), file);
});

test("it can be imported as a module, too", async () => {
  const module = await import(pathToFileURL(path.join(place, "index.js")));
  assert.strictEqual(module.start, start);
  assert.strictEqual(module.binary, binary);
});

test("a server is ready when start() resolves, and stops", async () => {
  const server = await start();
  assert.ok(server.port > 0 && server.url === `http://127.0.0.1:${server.port}`, server.url);
  const answers = [await check(server, limit), await check(server, limit), await check(server, limit)];
  assert.deepStrictEqual(answers.map((a) => a.allowed), [true, true, false]);
  assert.strictEqual(await server.stop(), 0);
  await assert.rejects(fetch(server.url));
});

test("two servers share nothing", async () => {
  const [one, two] = await Promise.all([start(), start()]);
  for (const server of [one, two]) assert.strictEqual((await check(server, limit)).remaining, 1);
  assert.deepStrictEqual(await Promise.all([one.stop(), two.stop()]), [0, 0]);
});

test("a policy file, options and variables are used, and the shell's are not", async () => {
  const config = path.join(scratch, "weir.yaml");
  fs.writeFileSync(config, "version: 1\npolicies: {login: {limit: 5 per 15m, by: ip}}\n");
  process.env.WEIR_TOKEN = "0123456789abcdef-of-the-shell";
  const lines = [];
  const server = await start({ config, args: ["--threads", "1"], env: { WEIR_MAX_KEYS: "1000" }, onLog: (l) => lines.push(l) });
  delete process.env.WEIR_TOKEN;
  const answer = await check(server, { policy: "login", key: "203.0.113.7" });
  assert.strictEqual(answer.limit, 5, JSON.stringify(answer));
  assert.match(lines.join("\n"), /with 1 thread,/);
  assert.strictEqual(await server.stop(), 0);
});

test("limits in files outlive a restart", async () => {
  const store = `file:${path.join(scratch, "data")}`;
  for (const allowed of [[true, true], [false, false]]) {
    const server = await start({ store });
    assert.deepStrictEqual([(await check(server, limit)).allowed, (await check(server, limit)).allowed], allowed);
    await server.stop();
  }
});

test("what is wrong is in the error", async () => {
  await assert.rejects(start({ args: ["--thread", "1"] }), /ended with 2\n.*did you mean --threads\?/);
  await assert.rejects(start({ host: "0.0.0.0" }), /without a token/);
});

test("a server that is not stopped ends with the process, which ends by itself", () => {
  const script = `require(${JSON.stringify(place)}).start().then((s) => console.log(s.pid))`;
  const done = spawnSync(process.execPath, ["-e", script], { encoding: "utf8", timeout: 60000 });
  assert.strictEqual(done.status, 0, done.stderr);
  assert.ok(Number(done.stdout) > 1, done.stdout);
  const runs = () => fs.existsSync(`/proc/${Number(done.stdout)}/exe`); /* not if it waits for its parent alone */
  for (const end = Date.now() + 60000; runs() && Date.now() < end; );
  assert.ok(!runs());
});

test("weir-server is weir serve, and passes signals and statuses on", async () => {
  const bin = (name, ...words) => [path.join(place, "bin", `${name}.js`), ...words];
  const run = (...words) => spawnSync(process.execPath, words, { encoding: "utf8", timeout: 60000 });
  assert.match(run(...bin("weir-server", "--help")).stdout, /^usage: weir serve/);
  assert.match(run(...bin("weir-server", "--version")).stdout, /^weir \d/);
  assert.strictEqual(run(...bin("weir", "check", "--limit", "0", "bob")).status, 1);
  assert.strictEqual(run(...bin("weir", "chekc")).status, 2);
  const socket = path.join(scratch, "socket");
  const child = spawn(process.execPath, bin("weir-server", "--store", "memory:", "--listen", `unix:${socket}`), { stdio: "ignore" });
  for (let i = 0; i < 200 && run(...bin("weir", "health", "--ready", `unix:${socket}`)).status !== 0; i++);
  assert.strictEqual(run(...bin("weir", "health", "--ready", `unix:${socket}`)).status, 0);
  child.kill("SIGTERM");
  assert.strictEqual(await new Promise((resolve) => child.once("close", resolve)), 0);
});

test("a program that lost its permission to run is run", async () => {
  fs.chmodSync(binary, 0o644);
  fs.chmodSync(path.join(place, "linux-x64/lib/weir-ld.so"), 0o644);
  assert.strictEqual(await (await start()).stop(), 0);
});

(async () => {
  let failed = 0;
  for (const [i, { name, run }] of tests.entries()) {
    try {
      await run();
      console.log(`ok ${i + 1} - ${name}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${i + 1} - ${name}\n${String(error.stack).replace(/^/gm, "# ")}`);
    }
  }
  fs.rmSync(scratch, { recursive: true });
  console.log(`1..${tests.length}`);
  process.exitCode = failed > 0 ? 1 : 0;
})();
