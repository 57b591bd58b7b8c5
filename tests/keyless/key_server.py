"""A key server for the tests, written from the protocol's description alone and in another language than the product.

It serves the private keys of a folder over mutual TLS (or in the clear on a Unix socket) and prints one JSON line per event. It can misbehave in
the ways that an edge must survive: late, out of order, wrong, busy, silent, or closing. For each line that it reads it tells `mark`, so that a
reader knows to have read all that was told before.

    key_server.py --keys FOLDER --ca CA --cert CHAIN --key KEY [--behave a,b=c] [--port N | --unix PATH]

RSA is computed with plain integers here, so that padding is judged by a second implementation; ECDSA and Ed25519 come from `cryptography`.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import ssl
import struct
import sys
import threading

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from wire import (ALPN, CANCEL, DEADLINE_US, DIGEST, DIGEST_INFO, ERROR, HASHES, OPCODE, PADDING, PAYLOAD, PING, PONG, RESPONSE,
                  RETRY_AFTER_US, SKI, SNI, Malformed, Message, PublicKey, body_length, frame)

SIZES = {"md5sha1": 36, "sha1": 20, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}
PREHASHED = {"sha1": hashes.SHA1, "sha224": hashes.SHA224, "sha256": hashes.SHA256, "sha384": hashes.SHA384,
             "sha512": hashes.SHA512}
KNOWN = (OPCODE, PAYLOAD, DIGEST, SKI, SNI, PADDING, DEADLINE_US)


class Refused(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


saying = threading.Lock()


def say(event, **fields):
    with saying:
        print(json.dumps({"event": event, **fields}), flush=True)


def mark():
    for _ in sys.stdin:
        say("mark")


def load(folder):
    keys = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            text = file.read()
        if b"PRIVATE KEY" not in text:
            continue
        key, public = serialization.load_pem_private_key(text, None), PublicKey(path)
        keys[public.ski] = key
        if public.digest:
            keys[public.digest] = key
    return keys


def rsa_raw(key, block):
    numbers = key.private_numbers()
    n = numbers.public_numbers.n
    size = (n.bit_length() + 7) // 8
    return pow(int.from_bytes(block, "big"), numbers.d, n).to_bytes(size, "big")


def mask(name, seed, length):
    out = b"".join(hashlib.new(name, seed + struct.pack(">I", index)).digest() for index in range(length // 20 + 1))
    return out[:length]


def rsa_sign(key, opcode, payload):
    bits = key.key_size
    size = (bits + 7) // 8
    if opcode <= 0x07:
        name = HASHES[opcode - 2]
        content = DIGEST_INFO[name] + payload
        return rsa_raw(key, b"\0\1" + b"\xff" * (size - 3 - len(content)) + b"\0" + content)
    # RSASSA-PSS, RFC 8017 §9.1.1.
    name = HASHES[opcode - 0x32]
    salt = os.urandom(len(payload))
    h = hashlib.new(name, bytes(8) + payload + salt).digest()
    block = bytes(size - len(salt) - len(h) - 2) + b"\1" + salt
    masked = bytearray(a ^ b for a, b in zip(block, mask(name, h, len(block))))
    masked[0] &= 0xFF >> (8 * size - (bits - 1))
    return rsa_raw(key, bytes(masked) + h + b"\xbc")


def operate(key, opcode, payload, behave):
    if opcode == 0x18 and isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(payload)
    if opcode == 0x01 and isinstance(key, rsa.RSAPrivateKey):
        block = rsa_raw(key, payload)
        return block[-48:] if "strip" in behave else block
    for first, last, kind, base in ((0x02, 0x07, rsa.RSAPrivateKey, 0x02), (0x35, 0x37, rsa.RSAPrivateKey, 0x32),
                                    (0x12, 0x17, ec.EllipticCurvePrivateKey, 0x12)):
        if first <= opcode <= last:
            name = HASHES[opcode - base]
            if not isinstance(key, kind) or len(payload) != SIZES[name]:
                raise Refused(1)
            if kind is rsa.RSAPrivateKey:
                return rsa_sign(key, opcode, payload)
            return key.sign(payload, ec.ECDSA(Prehashed(PREHASHED[name]())))
    raise Refused(5)


class Server:
    def __init__(self, options):
        self.behave = dict((part.split("=", 1) + [""])[:2] for part in options.behave.split(",") if part)
        self.keys = load(options.keys)
        self.asked = 0

    def number(self, name, default=0.0):
        return float(self.behave.get(name, default))

    async def serve(self, reader, writer):
        peer = writer.get_extra_info("ssl_object")
        alpn = peer.selected_alpn_protocol() if peer else None
        say("connected", alpn=alpn, tls=peer.version() if peer else None)
        tasks, waiting = set(), []
        try:
            while True:
                idle = self.number("idle") or None
                header = await asyncio.wait_for(reader.readexactly(8), idle)
                message = Message(header, await reader.readexactly(body_length(header)))
                found, number, opcode = message.items, message.id, message.opcode
                if opcode == CANCEL:
                    say("cancel", id=number)
                    continue
                if opcode == PING:
                    say("ping")
                else:
                    say("request", id=number, opcode=opcode, sni=found.get(SNI, b"").decode(), bytes=message.size,
                        ski=found.get(SKI, b"").hex(), deadline=found.get(DEADLINE_US, b"").hex(),
                        unknown=sorted(tag for tag in found if tag not in KNOWN))
                if "shuffle" in self.behave and opcode != PING:
                    # Answered in reverse, once several wait or nothing more comes.
                    waiting.append((number, opcode, found))
                    task = asyncio.ensure_future(self.shuffled(writer, waiting))
                else:
                    task = asyncio.ensure_future(self.answer(writer, number, opcode, found))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        except asyncio.TimeoutError:
            say("idle")
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        except Malformed as error:
            say("malformed", why=str(error))
        for task in tasks:
            task.cancel()
        say("closed")
        writer.close()

    async def shuffled(self, writer, waiting):
        await asyncio.sleep(0.03)
        while waiting:
            await self.answer(writer, *waiting.pop())

    async def answer(self, writer, number, opcode, found):
        if opcode == PING:
            if "deaf" not in self.behave:
                self.write(writer, number, PONG, found.get(PAYLOAD, b""))
            return
        if self.number("delay"):
            await asyncio.sleep(self.number("delay") / 1000)
        if "jitter" in self.behave:
            await asyncio.sleep(random.random() * self.number("jitter") / 1000)
        self.asked += 1
        if "silent" in self.behave or self.number("mute") == self.asked:
            return
        if "garbage" in self.behave:
            writer.write(b"\x01\x00\x00\x04" + struct.pack(">I", number) + b"\x11\xff\xff\x00")
            return
        if "stranger" in self.behave:
            self.write(writer, (number + 1_000_000) & 0xFFFFFFFF, RESPONSE, b"x" * 64)
            return
        if "busy" in self.behave or ("busy_at_first" in self.behave and self.asked <= 3):
            retry_after_ms = int(self.behave.get("busy") or 20)
            self.write(writer, number, ERROR, b"\x40", (RETRY_AFTER_US, struct.pack(">I", 1000 * retry_after_ms)))
            return
        if "close" in self.behave:
            writer.transport.abort()
            return
        try:
            key = self.keys.get(found.get(SKI, b"")) or self.keys.get(found.get(DIGEST, b""))
            if key is None:
                raise Refused(2)
            result = operate(key, opcode, found.get(PAYLOAD, b""), self.behave)
            if "wrong" in self.behave:
                result = result[:-1] + bytes([result[-1] ^ 1])
            self.write(writer, number, RESPONSE, result)
        except Refused as refused:
            self.write(writer, number, ERROR, bytes([refused.code]))

    @staticmethod
    def write(writer, number, opcode, payload=b"", *more):
        message = frame(number, [(OPCODE, bytes([opcode])), *([(PAYLOAD, payload)] if payload else []), *more])
        # Header and body apart, as a well-known server does: two TLS records per message.
        writer.write(message[:8])
        writer.write(message[8:])


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", required=True)
    parser.add_argument("--ca")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--unix")
    parser.add_argument("--behave", default="")
    options = parser.parse_args()
    threading.Thread(target=mark, daemon=True).start()
    server = Server(options)
    if options.unix:
        listening = await asyncio.start_unix_server(server.serve, options.unix)
        say("listening", unix=options.unix)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.cert, options.key)
        context.load_verify_locations(options.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        if "tls12" in server.behave:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384")
        if "alpn" in server.behave:
            context.set_alpn_protocols([ALPN])
        listening = await asyncio.start_server(server.serve, options.host, options.port, ssl=context)
        say("listening", port=listening.sockets[0].getsockname()[1])
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
