"""The keyless protocol in Python, written from its description alone: a second opinion on what our own code says.

The one codec of the tests, for both sides: `client.py` asks with it, `key_server.py` answers. Standard library only. Signatures are verified with
numbers (RSA) or by the openssl program (everything else).
"""

import hashlib
import secrets
import socket
import ssl
import struct
import subprocess

PAYLOAD, SKI, DIGEST, SNI, OPCODE, PADDING = 0x12, 0x04, 0x01, 0x02, 0x11, 0x20
DEADLINE_US, PRIORITY, RETRY_AFTER_US = 0x40, 0x41, 0x42
PING, PONG, RESPONSE, ERROR, CANCEL = 0xF1, 0xF2, 0xF0, 0xFF, 0x40
ALPN = "portunus-keyless/1"
HASHES = ["md5sha1", "sha1", "sha224", "sha256", "sha384", "sha512"]
# What goes before a digest in PKCS#1 v1.5 (RFC 8017 §9.2).
DIGEST_INFO = {
    "md5sha1": b"",
    "sha1": bytes.fromhex("3021300906052b0e03021a05000414"),
    "sha224": bytes.fromhex("302d300d06096086480165030402040500041c"),
    "sha256": bytes.fromhex("3031300d060960864801650304020105000420"),
    "sha384": bytes.fromhex("3041300d060960864801650304020205000430"),
    "sha512": bytes.fromhex("3051300d060960864801650304020305000440"),
}


def digest(name, message):
    if name == "md5sha1":
        return hashlib.md5(message).digest() + hashlib.sha1(message).digest()
    return hashlib.new(name, message).digest()


def item(tag, value):
    return struct.pack(">BH", tag, len(value)) + value


def frame(request_id, items, major=1, pad=True):
    """A whole message; `items` are pairs of tag and value, in that order."""
    body = b"".join(item(tag, value) for tag, value in items)
    if pad and 8 + len(body) < 1024:
        body += item(PADDING, bytes(max(1024 - 8 - 3 - len(body), 0)))
    return struct.pack(">BBHI", major, 0, len(body), request_id) + body


def request(request_id, opcode, payload=b"", ski=None, key_digest=None, more=()):
    items = [(OPCODE, bytes([opcode]))]
    if payload:
        items.append((PAYLOAD, payload))
    if ski is not None:
        items.append((SKI, ski))
    if key_digest is not None:
        items.append((DIGEST, key_digest))
    return frame(request_id, items + list(more))


class Malformed(Exception):
    """Bytes that are no message."""


def body_length(header):
    return struct.unpack(">H", header[2:4])[0]


class Message:
    """A received message."""

    def __init__(self, header, body):
        self.major, self.minor, _, self.id = struct.unpack(">BBHI", header)
        self.size = len(header) + len(body)
        self.items = {}
        if self.major != 1:
            raise Malformed("another version")
        while len(body) >= 3:
            tag, length = struct.unpack(">BH", body[:3])
            if len(body) < 3 + length:
                raise Malformed("an item runs past the body")
            if tag in self.items:
                raise Malformed("an item twice")
            self.items[tag] = body[3:3 + length]
            body = body[3 + length:]
        if body:
            raise Malformed("bytes left over")

    opcode = property(lambda self: self.items.get(OPCODE, b"\0")[0])
    payload = property(lambda self: self.items.get(PAYLOAD, b""))

    @property
    def error(self):
        return self.payload[0] if self.opcode == ERROR else None


def receive_exactly(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            return None
        data += more
    return data


def receive(connection):
    """The next message; none at the end of the connection."""
    header = receive_exactly(connection, 8)
    if header is None:
        return None
    body = receive_exactly(connection, body_length(header))
    return None if body is None else Message(header, body)


def client_context(ca, certificate=None, key=None, maximum=None, alpn=None, ciphers=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    if certificate:
        context.load_cert_chain(certificate, key)
    if maximum:
        context.maximum_version = maximum
    if ciphers:
        context.set_ciphers(ciphers)
    if alpn:
        context.set_alpn_protocols([alpn])
    return context


def connect(address, context, name="localhost"):
    plain = socket.create_connection(address, timeout=60)
    return context.wrap_socket(plain, server_hostname=name)


# --- keys ---

def openssl(*arguments, stdin=None):
    done = subprocess.run(["openssl", *arguments], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, (arguments, done.stderr.decode())
    return done.stdout


def der_element(data):
    """Tag, content and rest of the first element."""
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(data[2:2 + count], "big"), 2 + count
    return tag, data[start:start + length], data[start + length:]


def public_bits(spki):
    _, info, _ = der_element(spki)
    _, _, rest = der_element(info)
    tag, bits, _ = der_element(rest)
    assert tag == 3 and bits[0] == 0
    return bits[1:]


# Object identifiers of algorithms (RFC 8017 A.1, RFC 5480 2.1.1).
RSA_ENCRYPTION = bytes.fromhex("2a864886f70d010101")
EC_PUBLIC_KEY = bytes.fromhex("2a8648ce3d0201")


class PublicKey:
    """The public half of a private key's file, or of a certificate."""

    def __init__(self, key_file=None, passin=None, certificate=None):
        if certificate:
            self.pem = openssl("x509", "-in", certificate, "-noout", "-pubkey")
        else:
            self.pem = openssl("pkey", "-in", key_file, "-pubout", *(["-passin", passin] if passin else []))
        self.digest = None
        self.spki = openssl("pkey", "-pubin", "-outform", "DER", stdin=self.pem)
        bits = public_bits(self.spki)
        self.ski = hashlib.sha1(bits).digest()
        # By the algorithm: a key of Ed25519 may begin with any byte.
        algorithm = self.spki[:32]
        self.is_rsa = RSA_ENCRYPTION in algorithm
        if self.is_rsa:
            _, numbers, _ = der_element(bits)
            _, modulus, rest = der_element(numbers)
            _, exponent, _ = der_element(rest)
            self.n, self.e = int.from_bytes(modulus, "big"), int.from_bytes(exponent, "big")
            self.size = (self.n.bit_length() + 7) // 8
            self.digest = hashlib.sha256(f"{self.n:X}".encode()).digest()
        elif EC_PUBLIC_KEY in algorithm and bits[0] == 4:
            half = (len(bits) - 1) // 2
            compressed = bytes([2 + (bits[-1] & 1)]) + bits[1:1 + half]
            self.digest = hashlib.sha256(compressed.hex().upper().encode()).digest()

    def check_pkcs1(self, name, value, signature):
        block = pow(int.from_bytes(signature, "big"), self.e, self.n).to_bytes(self.size, "big")
        info = DIGEST_INFO[name] + value
        assert len(signature) == self.size
        assert block == b"\0\1" + b"\xff" * (self.size - 3 - len(info)) + b"\0" + info, "PKCS#1"

    def check_pss(self, name, value, signature):
        assert len(signature) == self.size
        block = pow(int.from_bytes(signature, "big"), self.e, self.n).to_bytes(self.size, "big")
        length = len(value)
        assert block[-1] == 0xBC, "trailer"
        masked, seed = block[:-1 - length], block[-1 - length:-1]
        mask = b"".join(hashlib.new(name, seed + struct.pack(">I", i)).digest() for i in range(len(masked) // length + 1))
        data = bytearray(a ^ b for a, b in zip(masked, mask))
        data[0] &= 0xFF >> (8 * self.size - (self.n.bit_length() - 1))
        split = data.index(1)
        salt = bytes(data[split + 1:])
        assert not any(data[:split]) and len(salt) == length, "salt"
        assert hashlib.new(name, bytes(8) + value + salt).digest() == seed, "PSS"

    def check_with_openssl(self, value, signature, folder, raw=False):
        names = [f"{folder}/{secrets.token_hex(8)}" for _ in range(3)]
        for name, content in zip(names, [self.pem, value, signature]):
            with open(name, "wb") as file:
                file.write(content)
        extra = ["-rawin"] if raw else []
        openssl("pkeyutl", "-verify", "-pubin", "-inkey", names[0], "-in", names[1], "-sigfile", names[2], *extra)
