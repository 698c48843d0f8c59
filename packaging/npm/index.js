"use strict";
/* index.js - where the program is, and a server for tests: started, ready, stopped. */
const { spawn } = require("child_process");
const fs = require("fs");
const path = require("path");
const readline = require("readline");

const supported = process.platform === "linux" && process.arch === "x64";
const binary = path.join(__dirname, "linux-x64", "weir");

function problem() {
  if (!supported)
    return `weir-server has a program for linux-x64 only, not for ${process.platform}-${process.arch}: run weir in a container`;
  return fs.existsSync(binary) ? null : `${binary} is missing: install weir-server again`;
}

/* Some tools that unpack packages drop the permission to run a file. */
function program() {
  const why = problem();
  if (why) throw new Error(why);
  for (const file of [binary, path.join(__dirname, "linux-x64", "lib", "weir-ld.so")]) {
    try {
      fs.accessSync(file, fs.constants.X_OK);
    } catch {
      fs.chmodSync(file, 0o755);
    }
  }
  return binary;
}

/* What the shell of a developer has must not decide a test. */
function environment(more) {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("WEIR_"));
  return { ...Object.fromEntries(kept), ...more };
}

/* The address in a line of the log, once the server is ready. */
function addressReader() {
  let address = null;
  return (line) => {
    let event;
    try {
      event = JSON.parse(line);
    } catch {
      return null;
    }
    if (event.event === "listening" && address === null) address = event.address;
    return event.event === "ready" ? address : null;
  };
}

async function start(options = {}) {
  const { port = 0, host = "127.0.0.1", store = "memory:", config, args = [], env = {}, timeout = 10000, onLog } = options;
  const words = ["serve", "--listen", `${host.includes(":") ? `[${host}]` : host}:${port}`, "--store", store,
    "--log-format", "json", ...(config === undefined ? [] : ["--config", config]), ...args];
  const child = spawn(program(), words, { env: environment(env), stdio: ["ignore", "ignore", "pipe"] });
  const kill = () => child.kill("SIGKILL");
  const exited = new Promise((resolve) => {
    child.once("error", (error) => resolve(error));
    child.once("close", (status, signal) => resolve(status === null ? signal : status));
  });
  process.once("exit", kill);
  exited.then(() => process.removeListener("exit", kill));

  const said = [];
  const addressOf = addressReader();
  const lines = readline.createInterface({ input: child.stderr });
  const ready = new Promise((resolve) => {
    lines.on("line", (line) => {
      if (onLog) onLog(line);
      if (said.length < 50) said.push(line);
      const address = addressOf(line);
      if (address !== null) resolve({ address });
    });
  });
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, timeout, { why: `is not ready after ${timeout} ms` });
  });
  const ended = exited.then((status) => ({ why: status instanceof Error ? status.message : `ended with ${status}` }));
  const first = await Promise.race([ready, ended, late]);
  clearTimeout(timer);
  if (first.why) {
    kill();
    await exited;
    throw new Error([`weir ${first.why}`, ...said].join("\n"));
  }

  /* Only what is awaited keeps this process alive. */
  child.unref();
  child.stderr.unref();
  const bound = Number(first.address.slice(first.address.lastIndexOf(":") + 1));
  const stop = () => {
    child.ref();
    child.kill("SIGTERM");
    return exited;
  };
  return {
    url: `http://${first.address}`,
    host,
    port: bound,
    pid: child.pid,
    stop,
    ...(Symbol.asyncDispose ? { [Symbol.asyncDispose]: stop } : {}),
  };
}

/* For bin/: run the program in the place of this process, as far as Node.js can. */
function run(words) {
  const why = problem();
  if (why) {
    console.error(`weir: ${why}`);
    process.exit(2);
  }
  const child = spawn(program(), words, { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.on(signal, () => {
      /* A terminal sends ^C to both. */
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    });
  child.on("error", (error) => {
    console.error(`weir: ${error.message}`);
    process.exit(2);
  });
  child.on("close", (status, signal) => {
    if (status !== null) process.exit(status);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

module.exports = { binary, start };
Object.defineProperty(module.exports, "run", { value: run, enumerable: false });
