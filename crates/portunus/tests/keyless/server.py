"""A key server as foreign ones are: TLS 1.2, no ALPN, raw RSA decryption. `server.py CA CERTIFICATE KEY [--idle SECONDS] KEYFILE...`

Prints its port, then serves until killed. RSA and ECDSA P-256 keys, with numbers only; slow, and in its answers right.
"""

import hashlib
import secrets
import socket
import ssl
import struct
import sys
import threading

from wire import (DIGEST_INFO, ERROR, HASHES, OPCODE, PAYLOAD, PING, PONG, RESPONSE, SKI, PublicKey, der_element, frame,
                  openssl, receive)

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
     0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    if a == b:
        slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, P)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P)
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiply(scalar, point):
    total = None
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


def der_integer(number):
    content = number.to_bytes(number.bit_length() // 8 + 1, "big")
    return b"\x02" + bytes([len(content)]) + content


class Key:
    def __init__(self, file):
        self.public = PublicKey(file)
        if self.public.is_rsa:
            # PKCS#1: version, n, e, d, ...
            _, numbers, _ = der_element(openssl("rsa", "-in", file, "-traditional", "-outform", "DER"))
            values = []
            while numbers:
                _, value, numbers = der_element(numbers)
                values.append(int.from_bytes(value, "big"))
            self.d = values[3]
        else:
            # SEC1: version, private key, ...
            _, parts, _ = der_element(openssl("ec", "-in", file, "-outform", "DER"))
            _, _, parts = der_element(parts)
            _, secret, _ = der_element(parts)
            self.d = int.from_bytes(secret, "big")

    def power(self, block):
        return pow(int.from_bytes(block, "big"), self.d, self.public.n).to_bytes(self.public.size, "big")

    def pkcs1(self, name, value):
        info = DIGEST_INFO[name] + value
        return self.power(b"\0\1" + b"\xff" * (self.public.size - 3 - len(info)) + b"\0" + info)

    def pss(self, name, value):
        salt, length = secrets.token_bytes(len(value)), len(value)
        seed = hashlib.new(name, bytes(8) + value + salt).digest()
        size = self.public.size - length - 1
        data = bytes(size - length - 1) + b"\1" + salt
        mask = b"".join(hashlib.new(name, seed + struct.pack(">I", i)).digest() for i in range(size // length + 1))
        masked = bytearray(a ^ b for a, b in zip(data, mask))
        masked[0] &= 0xFF >> (8 * self.public.size - (self.public.n.bit_length() - 1))
        return self.power(bytes(masked) + seed + b"\xbc")

    def ecdsa(self, value):
        number = int.from_bytes(value[:32], "big")
        nonce = 1 + secrets.randbelow(N - 1)
        r = multiply(nonce, G)[0] % N
        s = pow(nonce, -1, N) * (number + r * self.d) % N
        body = der_integer(r) + der_integer(s)
        return b"\x30" + bytes([len(body)]) + body


def work(keys, opcode, payload, ski):
    """Opcode and payload of the answer."""
    if opcode == PING:
        return PONG, payload
    if ski is None:
        return ERROR, b"\x08"
    key = keys.get(ski)
    if key is None:
        return ERROR, b"\x02"
    if opcode == 0x01 and key.public.is_rsa:
        return RESPONSE, key.power(payload)
    if 0x02 <= opcode <= 0x07 and key.public.is_rsa:
        return RESPONSE, key.pkcs1(HASHES[opcode - 2], payload)
    if 0x35 <= opcode <= 0x37 and key.public.is_rsa:
        return RESPONSE, key.pss(HASHES[opcode - 0x32], payload)
    if 0x12 <= opcode <= 0x17 and not key.public.is_rsa:
        return RESPONSE, key.ecdsa(payload)
    return ERROR, b"\x05"


def serve(connection, keys, idle):
    connection.settimeout(idle)
    try:
        connection.do_handshake()
        while (message := receive(connection)) is not None:
            opcode, payload = work(keys, message.opcode, message.payload, message.items.get(SKI))
            answer = frame(message.id, [(OPCODE, bytes([opcode])), (PAYLOAD, payload)])
            # Two writes, and so two records, as some peers do.
            connection.sendall(answer[:8])
            connection.sendall(answer[8:])
    except (OSError, ssl.SSLError):
        pass
    connection.close()


def main():
    arguments, idle = sys.argv[1:], None
    if "--idle" in arguments:
        at = arguments.index("--idle")
        idle = float(arguments[at + 1])
        del arguments[at:at + 2]
    ca, certificate, key, *files = arguments
    keys = {loaded.public.ski: loaded for loaded in map(Key, files)}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        plain, _ = listener.accept()
        wrapped = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=serve, args=(wrapped, keys, idle), daemon=True).start()


main()
