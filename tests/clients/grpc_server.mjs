// A gRPC server of raw bytes by grpc-js with the methods of go/grpc-server. Usage: node grpc_server.mjs MODULES -listen HOST:PORT. Prints `listening ADDRESS`.
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";

const [modules, , listen] = process.argv.slice(2);
const grpc = createRequire(modules + "/")("@grpc/grpc-js");

// The message handler may wait; the end comes after all of them.
function read(call, message, end = () => call.end()) {
  let before = Promise.resolve();
  call.on("data", (bytes) => (before = before.then(() => message(bytes))));
  call.on("end", () => before.then(end));
}

const echo = (call) => read(call, (bytes) => call.write(bytes));

const methods = {
  Unary: echo,
  Chat: echo,
  Collect(call) {
    let count = 0;
    const reply = () => {
      call.write(Buffer.from(String(count)));
      call.end();
    };
    read(call, () => count++, reply);
  },
  Sleep(call) {
    call.on("data", async (bytes) => {
      await pause(Number(bytes), undefined, { ref: false });
      if (!call.cancelled) call.write(bytes);
      call.end();
    });
  },
  Feed(call) {
    read(call, async (bytes) => {
      const [count, milliseconds] = bytes.toString().split(" ").map(Number);
      for (let n = 0; n < count; n++) {
        call.write(Buffer.from(String(n)));
        await pause(milliseconds);
      }
    });
  },
};

const raw = (bytes) => bytes;
const stream = { requestStream: true, responseStream: true, requestSerialize: raw, requestDeserialize: raw, responseSerialize: raw, responseDeserialize: raw };
const service = {};
const handlers = {};
for (const [name, method] of Object.entries(methods)) {
  service[name] = { path: "/portunus.test.Echo/" + name, ...stream };
  handlers[name] = method;
}
const server = new grpc.Server();
server.addService(service, handlers);
server.bindAsync(listen, grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log("listening 127.0.0.1:" + port);
});
