"""Asks a key server as foreign clients do, and judges every answer. `client.py GROUP FOLDER PORT`: exits with 0 if all is as it should be."""

import os
import secrets
import signal
import socket
import ssl
import struct
import sys
import time

from wire import (ALPN, CANCEL, DEADLINE_US, ERROR, HASHES, OPCODE, PAYLOAD, PING, PONG, RESPONSE, SKI, PublicKey, client_context,
                  connect, digest, frame, item, receive, request)

FOLDER = sys.argv[2]
ADDRESS = ("127.0.0.1", int(sys.argv[3]))
MESSAGE = b"a message to be signed"


def path(name):
    return os.path.join(FOLDER, name)


def dial(alpn=None, who="edge/client", **more):
    context = client_context(path("ca.pem"), path(f"{who}.pem"), path(f"{who}.key"), alpn=alpn, **more)
    return connect(ADDRESS, context)


def ask(connection, *arguments, **more):
    connection.sendall(request(*arguments, **more))
    answer = receive(connection)
    assert answer is not None, "the connection ended"
    assert answer.id == arguments[0] and (answer.major, answer.minor) == (1, 0)
    assert answer.size == 1024, answer.size
    return answer


def key(name):
    return PublicKey(path(f"key-server/{name}.key"))


RSA, P256 = "keys/site-1.example", "keys/site-2.example"


def operations():
    connection = dial()
    rsa, legacy = key(RSA), key("legacy/rsa")
    for index, name in enumerate(HASHES):
        value = digest(name, MESSAGE)
        holder = legacy if index < 2 else rsa
        answer = ask(connection, index, 0x02 + index, value, ski=holder.ski)
        assert answer.opcode == RESPONSE, (name, answer.error)
        holder.check_pkcs1(name, value, answer.payload)
    for opcode, name in [(0x35, "sha256"), (0x36, "sha384"), (0x37, "sha512")]:
        value = digest(name, MESSAGE)
        answer = ask(connection, 100 + opcode, opcode, value, ski=rsa.ski)
        assert answer.opcode == RESPONSE, (name, answer.error)
        rsa.check_pss(name, value, answer.payload)
    for holder in [key(P256), key("more/p384"), key("more/p521")]:
        for index, name in list(enumerate(HASHES))[2:]:
            value = digest(name, MESSAGE)
            answer = ask(connection, 200 + index, 0x12 + index, value, ski=holder.ski)
            assert answer.opcode == RESPONSE, (name, answer.error)
            holder.check_with_openssl(value, answer.payload, FOLDER)
    holder = key("more/ed25519")
    answer = ask(connection, 300, 0x18, MESSAGE, ski=holder.ski)
    assert answer.opcode == RESPONSE and len(answer.payload) == 64
    holder.check_with_openssl(MESSAGE, answer.payload, FOLDER, raw=True)
    answer = ask(connection, 301, PING, b"echo")
    assert answer.opcode == PONG and answer.payload == b"echo"


def selection():
    connection = dial()
    value = digest("sha256", MESSAGE)
    for holder, opcode in [(key(RSA), 0x05), (key(P256), 0x15)]:
        answer = ask(connection, 1, opcode, value, key_digest=holder.digest)
        assert answer.opcode == RESPONSE, answer.error
        # The identifier counts, whatever the digest says.
        answer = ask(connection, 2, opcode, value, ski=secrets.token_bytes(20), key_digest=holder.digest)
        assert answer.error == 2
        # A selector of a wrong length is as good as absent.
        answer = ask(connection, 3, opcode, value, ski=holder.ski[:19], key_digest=holder.digest)
        assert answer.opcode == RESPONSE, answer.error
    encrypted = PublicKey(path("key-server/locked/encrypted.key"), passin="pass:secret")
    answer = ask(connection, 4, 0x15, value, ski=encrypted.ski)
    assert answer.opcode == RESPONSE, answer.error
    encrypted.check_with_openssl(value, answer.payload, FOLDER)
    container = PublicKey(path("container.key"))
    answer = ask(connection, 5, 0x15, value, ski=container.ski)
    assert answer.opcode == RESPONSE, answer.error
    container.check_with_openssl(value, answer.payload, FOLDER)
    java = PublicKey(certificate=path("two.pem"))
    answer = ask(connection, 6, 0x05, value, ski=java.ski)
    assert answer.opcode == RESPONSE, answer.error
    java.check_pkcs1("sha256", value, answer.payload)


def errors():
    connection = dial()
    rsa, p256, forbidden = key(RSA), key(P256), key("forbidden/secret")
    value = digest("sha256", MESSAGE)
    cases = [
        (8, 0x15, value, None),
        (2, 0x15, value, bytes(20)),
        (2, 0x15, value, forbidden.ski),
        (1, 0x15, value[:31], p256.ski),
        (1, 0x15, value + b"x", p256.ski),
        (1, 0x15, b"", p256.ski),
        (1, 0x05, value, p256.ski),
        (1, 0x15, value, rsa.ski),
        (1, 0x18, MESSAGE, rsa.ski),
        (5, 0x02, bytes(36), rsa.ski),
        (5, 0x03, bytes(20), rsa.ski),
        (5, 0x01, bytes(256), rsa.ski),
        (5, 0x08, bytes(256), rsa.ski),
        (5, 0x20, b"", p256.ski),
        (5, 0x21, b"x", p256.ski),
        (5, 0x24, b"x", p256.ski),
        (5, 0x00, value, p256.ski),
        (5, 0x40, b"", None),
        (6, RESPONSE, value, p256.ski),
        (6, PONG, b"", None),
        (6, ERROR, b"\1", None),
    ]
    for number, (code, opcode, payload, ski) in enumerate(cases):
        answer = ask(connection, number, opcode, payload, ski=ski)
        assert answer.error == code and len(answer.payload) == 1, (hex(opcode), code, answer.error)
        assert set(answer.items) == {OPCODE, PAYLOAD, 0x20}
    # MD5SHA1 where it is allowed: exactly 36 bytes.
    legacy = key("legacy/rsa")
    for length in [0, 16, 20, 32, 35, 37]:
        answer = ask(connection, 1000 + length, 0x02, bytes(length), ski=legacy.ski)
        assert answer.error == 1, length


def pipelining():
    connection = dial()
    rsa, p256 = key(RSA), key(P256)
    value = digest("sha256", MESSAGE)
    kinds = {}
    batch = b""
    for number in range(1024):
        kinds[number] = [(0x05, rsa), (0x15, p256), (PING, None)][number % 3]
        opcode, holder = kinds[number]
        batch += request(number, opcode, value, ski=holder and holder.ski)
    connection.sendall(batch)
    order = []
    while len(order) < 1024:
        answer = receive(connection)
        opcode, holder = kinds.pop(answer.id)
        order.append(answer.id)
        if opcode == PING:
            assert answer.opcode == PONG and answer.payload == value
        elif opcode == 0x05:
            rsa.check_pkcs1("sha256", value, answer.payload)
        else:
            assert answer.opcode == RESPONSE and answer.payload[0] == 0x30
    assert order != sorted(order), "RSA held up everything else"
    # One id for many requests: as many answers.
    connection.sendall(b"".join(request(7, 0x15, value, ski=p256.ski) for _ in range(50)))
    assert [receive(connection).id for _ in range(50)] == [7] * 50
    # More than may be outstanding: the server reads the rest later.
    connection.settimeout(60)
    count = 3000
    sent = 0
    received = 0
    while received < count:
        while sent < count and sent - received < 1500:
            connection.sendall(request(sent, PING, b"x"))
            sent += 1
        assert receive(connection).opcode == PONG
        received += 1


def framing():
    value = digest("sha256", MESSAGE)
    p256 = key(P256)
    connection = dial()
    # Header and body apart, then byte by byte.
    message = request(1, 0x15, value, ski=p256.ski)
    connection.sendall(message[:8])
    connection.sendall(message[8:])
    assert receive(connection).opcode == RESPONSE
    for byte in frame(2, [(OPCODE, b"\x15"), (PAYLOAD, value), (SKI, p256.ski)], pad=False):
        connection.sendall(bytes([byte]))
    assert receive(connection).opcode == RESPONSE
    # The longest frame there is, and unknown items before it.
    echo = secrets.token_bytes(65535 - 4 - 3 - 4)
    connection.sendall(frame(3, [(0x99, b"x"), (OPCODE, bytes([PING])), (PAYLOAD, echo)]))
    answer = receive(connection)
    assert answer.opcode == PONG and answer.payload == echo
    # Items in any order, bytes left over.
    body = item(SKI, p256.ski) + item(PAYLOAD, value) + item(OPCODE, b"\x15") + b"\0\0"
    connection.sendall(struct.pack(">BBHI", 1, 7, len(body), 4) + body)
    assert receive(connection).opcode == RESPONSE
    malformed = [
        struct.pack(">BBHI", 1, 0, 4, 1) + b"\x11\0\2\x15",
        frame(1, [(OPCODE, b"\x15"), (OPCODE, b"\x15")]),
        frame(1, [(OPCODE, b"\x15\x15")]),
        frame(1, [(OPCODE, b"\x15"), (0x03, b"12345")]),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">BBHI", 2, 0, 0, 77),
    ]
    for bad in malformed:
        other = dial()
        other.sendall(request(5, PING, b"before") + bad + request(6, PING, b"after"))
        assert receive(other).payload == b"before"
        answer = receive(other)
        if bad[0] != 1:
            assert answer.error == 4
            answer = receive(other)
        assert answer is None, "what follows a malformed frame must not be read"
        # Only its own connection ends.
        assert ask(connection, 8, PING, b"still here").opcode == PONG


def tls():
    value = digest("sha256", MESSAGE)
    p256 = key(P256)
    # As foreign clients come: TLS 1.2, one suite, no ALPN.
    for suite in ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"]:
        connection = dial(maximum=ssl.TLSVersion.TLSv1_2, ciphers=suite)
        assert connection.version() == "TLSv1.2" and connection.selected_alpn_protocol() is None
        assert ask(connection, 1, 0x15, value, ski=p256.ski).opcode == RESPONSE
        # Nothing of the extension: a deadline that has passed is an unknown item, and CANCEL no opcode.
        answer = ask(connection, 2, 0x05, value, ski=key(RSA).ski, more=[(DEADLINE_US, bytes(4))])
        assert answer.opcode == RESPONSE
        assert ask(connection, 3, CANCEL).error == 5
    connection = dial()
    assert connection.version() == "TLSv1.3"
    connection = dial(alpn=ALPN)
    assert connection.selected_alpn_protocol() == ALPN
    refused = [
        client_context(path("ca.pem")),
        client_context(path("ca.pem"), path("stranger/client.pem"), path("stranger/client.key")),
        client_context(path("ca.pem"), path("key-server/server.pem"), path("key-server/server.key")),
    ]
    for context in refused:
        try:
            connection = connect(ADDRESS, context)
            connection.sendall(request(1, PING, b"x"))
            assert receive(connection) is None, "answered without a client certificate"
        except (ssl.SSLError, ConnectionError, BrokenPipeError):
            pass


def extension():
    """To be asked of a server that is patient: one that is BUSY answers what was to be cancelled."""
    connection = dial(alpn=ALPN)
    rsa, value = key("slow/rsa"), digest("sha256", MESSAGE)
    # A deadline that has passed when its turn comes.
    answer = ask(connection, 1, 0x05, value, ski=rsa.ski, more=[(DEADLINE_US, struct.pack(">I", 1))])
    assert answer.error in (0x40, 0x41), answer.error
    # What is cancelled in time is not answered, everything else is.
    count = 40
    batch = b"".join(request(100 + number, 0x05, value, ski=rsa.ski) for number in range(count))
    batch += b"".join(request(100 + number, CANCEL) for number in range(count // 2, count))
    batch += request(999, PING, b"end")
    connection.sendall(batch)
    answered = set()
    while not answered >= {999, *range(100, 100 + count // 2)}:
        answer = receive(connection)
        assert answer.error in (None, 0x40), answer.error
        assert answer.id not in answered
        answered.add(answer.id)
    assert len(answered) < count + 1, "nothing was cancelled"


def busy():
    """Far more than can be done in time: some are refused at once, and told when to come again."""
    connection = dial(alpn=ALPN)
    rsa, value = key("slow/rsa"), digest("sha256", MESSAGE)
    connection.sendall(b"".join(request(5000 + number, 0x05, value, ski=rsa.ski) for number in range(600)))
    refused = [answer for answer in (receive(connection) for _ in range(600)) if answer.error == 0x40]
    assert refused and all(len(answer.items[0x42]) == 4 for answer in refused)


def decryption():
    connection = dial()
    holder = key("decrypt/rsa")

    def encrypt(block):
        return pow(int.from_bytes(block, "big"), holder.e, holder.n).to_bytes(holder.size, "big")

    def decrypted(number, ciphertext):
        answer = ask(connection, number, 0x01, ciphertext, ski=holder.ski)
        assert answer.opcode == RESPONSE, answer.error
        block = answer.payload
        assert len(block) == holder.size and block[:2] == b"\0\2" and block[-49] == 0 and 0 not in block[2:-49]
        return block[-48:]

    secret = b"\3\3" + secrets.token_bytes(46)
    padding = bytes(1 + byte % 255 for byte in secrets.token_bytes(holder.size - 51))
    good = b"\0\2" + padding + b"\0" + secret
    assert decrypted(1, encrypt(good)) == secret
    bad = [
        b"\0\1" + good[2:],
        b"\1\2" + good[2:],
        good[:2] + b"\0" + good[3:],
        good[:100] + b"\0" + good[101:],
        good[:-49] + b"\1" + good[-48:],
        b"\0\2" + padding[1:] + b"\0" + secret + b"x",
    ]
    for number, block in enumerate(bad):
        ciphertext = encrypt(block)
        substitute = decrypted(10 + number, ciphertext)
        assert substitute not in (secret, block[-48:])
        assert decrypted(20 + number, ciphertext) == substitute, "asking twice tells something"
    assert ask(connection, 90, 0x01, bytes(holder.size - 1), ski=holder.ski).error == 1
    assert ask(connection, 91, 0x01, b"\xff" * holder.size, ski=holder.ski).error == 1


def mixed():
    """The compatibility switch: ECDSA opcodes on RSA keys mean PKCS#1."""
    connection = dial()
    rsa = key(RSA)
    value = digest("sha256", MESSAGE)
    answer = ask(connection, 1, 0x15, value, ski=rsa.ski)
    assert answer.opcode == RESPONSE, answer.error
    rsa.check_pkcs1("sha256", value, answer.payload)
    assert ask(connection, 2, 0x15, value[:31], ski=rsa.ski).error == 1
    assert ask(connection, 3, 0x18, value, ski=rsa.ski).error == 1


def no_decryption():
    """Off unless it was asked for."""
    connection = dial()
    for name in [RSA, "legacy/rsa"]:
        assert ask(connection, 1, 0x01, bytes(256), ski=key(name).ski).error == 5


def deaf():
    """A peer that asks and never listens stalls only itself."""
    p256, value = key(P256), digest("sha256", MESSAGE)
    silent = dial()
    silent.settimeout(2)
    batch = b"".join(request(number, 0x15, value, ski=p256.ski) for number in range(256))
    try:
        for _ in range(200):
            silent.sendall(batch)
        raise AssertionError("the server reads what it cannot answer")
    except TimeoutError:
        pass
    other = dial()
    for number in range(20):
        assert ask(other, number, 0x15, value, ski=p256.ski).opcode == RESPONSE


def let_go():
    """A peer that asks and never listens is let go after `write_timeout`."""
    p256, value = key(P256), digest("sha256", MESSAGE)
    silent = dial()
    batch = b"".join(request(number, 0x15, value, ski=p256.ski) for number in range(256))
    try:
        while True:
            silent.sendall(batch)
    except (ssl.SSLError, ConnectionError):
        pass
    assert ask(dial(), 1, 0x15, value, ski=p256.ski).opcode == RESPONSE


def drain():
    """What was sent before the drain began is answered, also what the server had not read yet."""
    rsa, value = key("slow/rsa"), digest("sha256", MESSAGE)
    count = 200
    connections = [(alpn, dial(alpn=alpn)) for alpn in (None, ALPN)]
    for _, connection in connections:
        connection.sendall(b"".join(request(1 + number, 0x05, value, ski=rsa.ski) for number in range(count)))
    # It has everything, and can have begun with a few only.
    for _, connection in connections:
        receive(connection)
    with open(path("key-server/server.pid")) as file:
        os.kill(int(file.read()), signal.SIGTERM)
    for alpn, connection in connections:
        connection.settimeout(120)
        errors = [answer.error for answer in (receive(connection) for _ in range(count - 1))]
        assert set(errors) <= ({None, 0x40} if alpn else {None}), errors
        assert receive(connection) is None, "it ends when all are answered"


def rate():
    """Five a second for the edge's rule: shed to those who understand, read later from those who do not, and nothing of it to another rule."""
    p256, value = key(P256), digest("sha256", MESSAGE)
    batch = b"".join(request(number, 0x15, value, ski=p256.ski) for number in range(200))
    plain = dial()
    plain.sendall(batch)
    local = socket.socket(socket.AF_UNIX)
    local.settimeout(60)
    local.connect(path("key-server/keys.sock"))
    local.sendall(batch)
    assert {receive(local).opcode for _ in range(200)} == {RESPONSE}, "another rule has its own rate"
    # None is refused to a peer that would not understand, and they come in order.
    for number in range(8):
        answer = receive(plain)
        assert answer.opcode == RESPONSE and answer.id == number, (answer.id, answer.error)
    plain.close()
    # All connections of the rule share it.
    extended = dial(alpn=ALPN)
    extended.sendall(batch)
    answers = [receive(extended) for _ in range(200)]
    busy = [answer for answer in answers if answer.error == 0x40]
    assert all(answer.error in (None, 0x40) for answer in answers)
    assert busy and all(len(answer.items[0x42]) == 4 and answer.size == 1024 for answer in busy)


def slow_frames():
    """Whoever does not finish a frame is cut off, however many bytes still come; others are served."""
    p256, value = key(P256), digest("sha256", MESSAGE)
    other = dial()
    message = request(1, 0x15, value, ski=p256.ski)
    stuck = dial()
    stuck.sendall(message + message[:8])
    assert receive(stuck).opcode == RESPONSE
    dripping = dial()
    dripping.sendall(frame(1, [(OPCODE, bytes([PING])), (PAYLOAD, bytes(60_000))])[:100])
    dripping.settimeout(0.1)
    number = 0
    while True:
        number += 1
        assert ask(other, number, 0x15, value, ski=p256.ski).opcode == RESPONSE
        # 60,000 bytes at ten a second: never whole while this test has patience.
        assert number < 300, "it may go on for ever"
        try:
            dripping.sendall(b"\0")
            if not dripping.recv(1):
                break
        except TimeoutError:
            pass
        except (ssl.SSLError, ConnectionError):
            break
    assert receive(stuck) is None
    assert ask(other, 999, 0x15, value, ski=p256.ski).opcode == RESPONSE


def probing():
    """Unknown and forbidden keys: the same answer, and about the same time."""
    connection = dial()
    forbidden, value = key("forbidden/secret").ski, digest("sha256", MESSAGE)
    times = {False: [], True: []}
    for number in range(400):
        known = bool(number % 2)
        started = time.perf_counter()
        answer = ask(connection, number, 0x15, value, ski=forbidden if known else secrets.token_bytes(20))
        times[known].append(time.perf_counter() - started)
        assert answer.error == 2
    medians = {known: sorted(values)[len(values) // 2] for known, values in times.items()}
    # Told, not judged: what is judged is that both take the same path.
    print(f"unknown {medians[False] * 1e6:.0f} us, forbidden {medians[True] * 1e6:.0f} us")


GROUPS = [operations, selection, errors, pipelining, framing, tls, extension, busy, decryption, mixed, no_decryption, deaf, let_go, drain, rate,
          slow_frames, probing]
{group.__name__: group for group in GROUPS}[sys.argv[1]]()
