// A gRPC client of raw bytes by grpc-js, Node's own implementation of gRPC. Usage: node grpc_client.mjs MODULES -address HOST:PORT [-ca FILE] SCENARIO
// [NUMBER...]; scenarios are some of those of go/grpc-client, and it exits with 0 if all went well.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";

const [modules, ...words] = process.argv.slice(2);
const grpc = createRequire(modules + "/")("@grpc/grpc-js");
const options = {};
while (words[0].startsWith("-")) options[words.shift().slice(1)] = words.shift();
const [scenario, ...texts] = words;
const numbers = texts.map(Number);

const credentials = options.ca ? grpc.credentials.createSsl(readFileSync(options.ca)) : grpc.credentials.createInsecure();
const client = new grpc.Client(options.address, credentials, {
  "grpc.ssl_target_name_override": "localhost",
  "grpc.default_authority": "localhost",
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 20_000,
});
const raw = (bytes) => Buffer.from(bytes);
const path = (method) => "/portunus.test.Echo/" + method;

function call(method, message, deadline = Infinity) {
  return new Promise((done, failed) => {
    client.makeUnaryRequest(path(method), raw, raw, raw(message), new grpc.Metadata(), { deadline }, (error, reply) =>
      error ? failed(error) : done(reply.toString()),
    );
  });
}

// A bidirectional call, read by one `await` for each message.
function chat() {
  const stream = client.makeBidiStreamRequest(path("Chat"), raw, raw);
  const replies = stream[Symbol.asyncIterator]();
  return {
    async exchange(message) {
      stream.write(raw(message));
      const { value, done } = await replies.next();
      if (done || value.toString() !== message) throw new Error(`sent ${message}, got ${value}`);
    },
    async finish() {
      stream.end();
      if (!(await replies.next()).done) throw new Error("the stream did not end");
    },
  };
}

const inParallel = (count, work) => Promise.all(Array.from({ length: count }, (_, n) => work(n)));

const scenarios = {
  async unary(calls, atOnce) {
    let next = 0;
    await inParallel(atOnce, async () => {
      while (next < calls) {
        const message = String(next++);
        if ((await call("Unary", message)) !== message) throw new Error("another reply than the message");
      }
    });
  },
  async "ping-pong"(streams, messages, milliseconds) {
    await inParallel(streams, async () => {
      const stream = chat();
      for (let n = 0; n < messages; n++) {
        await stream.exchange(String(n));
        if (milliseconds) await pause(milliseconds);
      }
      await stream.finish();
    });
  },
  async upload(messages, milliseconds) {
    const count = await new Promise((done, failed) => {
      const stream = client.makeClientStreamRequest(path("Collect"), raw, raw, (error, reply) => (error ? failed(error) : done(Number(reply))));
      (async () => {
        for (let n = 0; n < messages; n++) {
          stream.write(raw(String(n)));
          await pause(milliseconds);
        }
        stream.end();
      })();
    });
    if (count !== messages) throw new Error(`${count} of ${messages} messages arrived`);
  },
  async feed(messages, milliseconds) {
    let next = 0;
    for await (const message of client.makeServerStreamRequest(path("Feed"), raw, raw, raw(`${messages} ${milliseconds}`))) {
      if (message.toString() !== String(next++)) throw new Error(`message ${next} is ${message}`);
    }
    if (next !== messages) throw new Error(`${next} of ${messages} messages arrived`);
  },
  // Calls that take longer than their deadline of 50 ms allows, beside a stream.
  async deadlines(calls, milliseconds) {
    const stream = chat();
    await stream.exchange("before");
    await inParallel(calls, async (n) => {
      await pause(n * milliseconds);
      const code = await call("Sleep", "60000", Date.now() + 50).then(() => "none", (error) => error.code);
      if (code !== grpc.status.DEADLINE_EXCEEDED) throw new Error(`call ${n}: ${code}`);
    });
    await stream.exchange("after");
    await stream.finish();
  },
};

scenarios[scenario](...numbers).then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
