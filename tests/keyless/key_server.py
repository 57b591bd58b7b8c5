"""A key server for the tests, written from the protocol's description alone and in another language than the product.

It serves the private keys of a folder over mutual TLS (or in the clear on a Unix socket) and prints one JSON line per event. It can misbehave in
the ways that an edge must survive: late, out of order, wrong, busy, silent, or closing.

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

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

OPCODE, PAYLOAD, DIGEST, SKI, SNI, DEADLINE, PADDING, RETRY_AFTER = 0x11, 0x12, 0x01, 0x04, 0x02, 0x40, 0x20, 0x42
RESPONSE, PING, PONG, CANCEL, ERROR = 0xF0, 0xF1, 0xF2, 0x40, 0xFF
NAMES = ["md5sha1", "sha1", "sha224", "sha256", "sha384", "sha512"]
SIZES = {"md5sha1": 36, "sha1": 20, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}
HASHES = {"sha1": hashes.SHA1, "sha224": hashes.SHA224, "sha256": hashes.SHA256, "sha384": hashes.SHA384,
          "sha512": hashes.SHA512}
# DigestInfo prefixes of RFC 8017 §9.2.
PREFIXES = {
    "md5sha1": b"",
    "sha1": bytes.fromhex("3021300906052b0e03021a05000414"),
    "sha224": bytes.fromhex("302d300d06096086480165030402040500041c"),
    "sha256": bytes.fromhex("3031300d060960864801650304020105000420"),
    "sha384": bytes.fromhex("3041300d060960864801650304020205000430"),
    "sha512": bytes.fromhex("3051300d060960864801650304020305000440"),
}
ALPN = "portunus-keyless/1"


class Refused(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def item(tag, value):
    return struct.pack(">BH", tag, len(value)) + value


def frame(number, opcode, payload=b"", extra=b""):
    body = item(OPCODE, bytes([opcode])) + (item(PAYLOAD, payload) if payload else b"") + extra
    if len(body) + 8 < 1024:
        body += item(PADDING, bytes(max(0, 1024 - 8 - 3 - len(body))))
    return struct.pack(">BBHI", 1, 0, len(body), number), body


def items(body):
    found, at = {}, 0
    while len(body) - at >= 3:
        tag, length = struct.unpack_from(">BH", body, at)
        value = body[at + 3:at + 3 + length]
        if len(value) != length or tag in found:
            raise ValueError("malformed body")
        found[tag] = value
        at += 3 + length
    return found


def key_bits(public):
    if isinstance(public, rsa.RSAPublicKey):
        return public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.PKCS1)
    if isinstance(public, ec.EllipticCurvePublicKey):
        return public.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    return public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def key_digest(public):
    if isinstance(public, rsa.RSAPublicKey):
        text = "%X" % public.public_numbers().n
    elif isinstance(public, ec.EllipticCurvePublicKey):
        text = public.public_bytes(serialization.Encoding.X962,
                                   serialization.PublicFormat.CompressedPoint).hex().upper()
    else:
        return None
    return hashlib.sha256(text.encode()).digest()


def load(folder):
    keys = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            text = file.read()
        if b"PRIVATE KEY" not in text:
            continue
        key = serialization.load_pem_private_key(text, None)
        keys[hashlib.sha1(key_bits(key.public_key())).digest()] = key
        if key_digest(key.public_key()):
            keys[key_digest(key.public_key())] = key
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
        name = NAMES[opcode - 2]
        content = PREFIXES[name] + payload
        return rsa_raw(key, b"\0\1" + b"\xff" * (size - 3 - len(content)) + b"\0" + content)
    # RSASSA-PSS, RFC 8017 §9.1.1.
    name = NAMES[opcode - 0x32]
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
            name = NAMES[opcode - base]
            if not isinstance(key, kind) or len(payload) != SIZES[name]:
                raise Refused(1)
            if kind is rsa.RSAPrivateKey:
                return rsa_sign(key, opcode, payload)
            return key.sign(payload, ec.ECDSA(Prehashed(HASHES[name]())))
    raise Refused(5)


class Server:
    def __init__(self, options):
        self.behave = dict((part.split("=", 1) + [""])[:2] for part in options.behave.split(",") if part)
        self.keys = load(options.keys)

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
                major, _, length, number = struct.unpack(">BBHI", header)
                body = await reader.readexactly(length)
                if major != 1:
                    raise ValueError("another version")
                found = items(body)
                opcode = found.get(OPCODE, b"\0")[0]
                if opcode == CANCEL:
                    say("cancel", id=number)
                    continue
                if opcode != PING:
                    say("request", id=number, opcode=opcode, sni=found.get(SNI, b"").decode(), bytes=length + 8,
                        ski=found.get(SKI, b"").hex(), deadline=found.get(DEADLINE, b"").hex(), unknown=sorted(
                            tag for tag in found if tag not in (OPCODE, PAYLOAD, DIGEST, SKI, SNI, PADDING, DEADLINE)))
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
        except ValueError as error:
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
                self.write(writer, frame(number, PONG, found.get(PAYLOAD, b"")))
            return
        if self.number("delay"):
            await asyncio.sleep(self.number("delay") / 1000)
        if "jitter" in self.behave:
            await asyncio.sleep(random.random() * self.number("jitter") / 1000)
        if "silent" in self.behave:
            return
        if "garbage" in self.behave:
            writer.write(b"\x01\x00\x00\x04" + struct.pack(">I", number) + b"\x11\xff\xff\x00")
            return
        if "stranger" in self.behave:
            self.write(writer, frame((number + 1_000_000) & 0xFFFFFFFF, RESPONSE, b"x" * 64))
            return
        if "busy" in self.behave:
            self.write(writer, frame(number, ERROR, b"\x40", item(RETRY_AFTER, struct.pack(">I", 20_000))))
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
            self.write(writer, frame(number, RESPONSE, result))
        except Refused as refused:
            self.write(writer, frame(number, ERROR, bytes([refused.code])))

    @staticmethod
    def write(writer, parts):
        # Header and body apart, as a well-known server does: two TLS records per message.
        for part in parts:
            writer.write(part)


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
