// WebSockets on streams of one HTTP/2 connection (RFC 8441), by Node's http2. Usage: websocket_h2.mjs URL SOCKETS MESSAGES; the CA comes by
// NODE_EXTRA_CA_CERTS. Exits with 0 if every message came back as it was sent.

import { randomBytes } from "node:crypto";
import { connect, constants } from "node:http2";

const [url, sockets, messages] = [process.argv[2], ...process.argv.slice(3).map(Number)];

const check = (fact, what) => {
  if (!fact) throw new Error(what);
};

// A frame of a client, masked (RFC 6455 §5.2).
function frame(opcode, payload) {
  const mask = randomBytes(4);
  const length = payload.length;
  let head = Buffer.from([0x80 | opcode, 0x80 | length]);
  if (length > 125) {
    head = Buffer.alloc(4);
    head[0] = 0x80 | opcode;
    head[1] = 0xfe;
    head.writeUInt16BE(length, 2);
  }
  return Buffer.concat([head, mask, payload.map((byte, at) => byte ^ mask[at % 4])]);
}

class Socket {
  constructor(session) {
    this.held = Buffer.alloc(0);
    this.stream = session.request({ ":method": "CONNECT", ":protocol": "websocket", ":path": "/socket", "sec-websocket-version": "13", origin: url });
    this.stream.on("data", (piece) => {
      this.held = Buffer.concat([this.held, piece]);
      this.wake?.();
    });
    this.status = new Promise((resolve, reject) => {
      this.stream.on("response", (head) => resolve(head[":status"]));
      this.stream.on("error", reject);
    });
    this.ended = new Promise((resolve) => this.stream.on("close", () => resolve(this.stream.rstCode)));
  }

  async take(count) {
    while (this.held.length < count) await new Promise((resolve) => (this.wake = resolve));
    const taken = this.held.subarray(0, count);
    this.held = this.held.subarray(count);
    return taken;
  }

  // The payload of one frame of the server.
  async next() {
    const [first, second] = await this.take(2);
    const length = second === 126 ? (await this.take(2)).readUInt16BE(0) : second;
    return { opcode: first & 15, payload: await this.take(length) };
  }

  async talk() {
    check((await this.status) === 200, `status ${await this.status}`);
    for (let number = 0; number < messages; number++) {
      const text = `message ${number} ` + "x".repeat((number % 1000) * 50);
      this.stream.write(frame(1, Buffer.from(text)));
      const got = await this.next();
      check(got.opcode === 1 && got.payload.toString() === text, `message ${number} came back otherwise`);
    }
    this.stream.end(frame(8, Buffer.from([3, 232])));
    check((await this.ended) === constants.NGHTTP2_NO_ERROR, `closed with ${await this.ended}`);
  }
}

const session = connect(url);
await new Promise((resolve, reject) => {
  session.on("remoteSettings", resolve);
  session.on("error", reject);
});
check(session.remoteSettings.enableConnectProtocol, "not announced");
await Promise.all([...Array(sockets)].map(() => new Socket(session).talk()));
session.close();
