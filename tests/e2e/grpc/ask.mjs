// ask.mjs - calls by gRPC with @grpc/grpc-js, one a line, as ask.py has it.
//
//     node ask.mjs ADDRESS PROTO      PROTO is the folder of .proto files; NODE_PATH leads to the modules
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.env.NODE_PATH}/`);
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const PATIENCE = 30_000; // ms, where a call says nothing
const [address, proto] = process.argv.slice(2);
const files = ["envoy/service/ratelimit/v3/rls.proto", "grpc/health/v1/health.proto", "weir/v1/weir.proto"];
const definition = loader.loadSync(files, { includeDirs: [proto], enums: String, longs: String, oneofs: false });
const credentials = grpc.credentials.createInsecure();
const client = new grpc.Client(address, credentials);

// The loader has no forms of their own for wrappers and durations, as JSON has.
function wrapped(request) {
  for (const descriptor of request.descriptors ?? [])
    if (descriptor.hitsAddend !== undefined) descriptor.hitsAddend = { value: descriptor.hitsAddend };
  return request;
}

function unwrapped(response) {
  for (const status of response.statuses ?? [])
    if (status.durationUntilReset) status.durationUntilReset = `${status.durationUntilReset.seconds ?? 0}s`;
  return response;
}

function ask(call) {
  const [service, name] = call.method.split("/");
  const method = definition[service]?.[name] ?? definition["grpc.health.v1.Health"].Check;
  const metadata = new grpc.Metadata();
  const trailers = {};

  for (const [key, value] of Object.entries(call.metadata ?? {})) metadata.set(key, value);
  return new Promise((resolve) => {
    let answer;
    const options = { deadline: Date.now() + (call.timeout_ms ?? PATIENCE) };
    const made = client.makeUnaryRequest(`/${call.method}`, method.requestSerialize, method.responseDeserialize,
      wrapped(call.request ?? {}), metadata, options, (error, response) => {
        answer = error ? { code: error.code, message: error.details, response: {} }
          : { code: 0, message: "", response: unwrapped(response) };
      });

    made.on("status", (status) => {
      for (const [key, value] of Object.entries(status.metadata.getMap())) trailers[key] = String(value);
      setImmediate(() => resolve({ ...answer, trailers }));
    });
  });
}

for await (const line of createInterface({ input: process.stdin }))
  process.stdout.write(`${JSON.stringify(await ask(JSON.parse(line)))}\n`);
client.close();
