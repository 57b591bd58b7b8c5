"""HTTP/3 by aioquic, as it should be and as it should not. Usage: http3.py SCENARIO HOST:PORT CA [MORE...]; SCENARIO is a function below. Exits with 0 if all went well."""

import asyncio
import socket
import ssl
import sys
import time

import pylsqpack
from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.buffer import encode_uint_var as varint
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamDataReceived, StreamReset
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Message

PATIENCE = 30

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
NO_ERROR, STREAM_CREATION, CLOSED_CRITICAL, UNEXPECTED, FRAME, LOAD, ID, BAD_SETTINGS, MISSING, INCOMPLETE, MESSAGE = (
    0x100, 0x103, 0x104, 0x105, 0x106, 0x107, 0x108, 0x109, 0x10A, 0x10D, 0x10E)
REQUEST_REJECTED = 0x10B
CONNECTION_REFUSED = 2
DECOMPRESSION, ENCODER, DECODER = 0x200, 0x201, 0x202


def check(fact, what):
    if not fact:
        sys.exit(what)


def frame(kind, payload=b""):
    return varint(kind) + varint(len(payload)) + payload


def section(fields):
    """By another implementation's encoder, without its dynamic table."""
    update, block = pylsqpack.Encoder().encode(0, [(name.encode(), value.encode()) for name, value in fields])
    check(not update, "the encoder wants a table")
    return block


def head(method="GET", path="/echo", *more, authority="localhost"):
    return frame(HEADERS, section([(":method", method), (":scheme", "https"), (":authority", authority), (":path", path), *more]))


GET = head()


class Raw(QuicConnectionProtocol):
    """A connection without an idea of HTTP/3: what is written goes out as it is, what comes is kept by stream."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.streams, self.ended, self.resets, self.stopped, self.code = {}, set(), {}, {}, None
        self.news = asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived):
            self.streams[event.stream_id] = self.streams.get(event.stream_id, b"") + event.data
            if event.end_stream:
                self.ended.add(event.stream_id)
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, StopSendingReceived):
            self.stopped[event.stream_id] = event.error_code
        elif isinstance(event, ConnectionTerminated):
            self.code = event.error_code
        self.news.set()

    async def until(self, done, what):
        async def look():
            while not done():
                self.news.clear()
                await self.news.wait()

        try:
            await asyncio.wait_for(look(), PATIENCE)
        except TimeoutError:
            sys.exit(f"{what}: nothing came; resets {self.resets}, streams {self.streams}, code {self.code}")

    def uni(self, data, end=False):
        stream = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self.send(stream, data, end)
        return stream

    def bidi(self, data, end=True):
        stream = self._quic.get_next_available_stream_id()
        self.send(stream, data, end)
        return stream

    def send(self, stream, data, end=False):
        self._quic.send_stream_data(stream, data, end)
        self.transmit()

    def control(self, data=b""):
        return self.uni(varint(0) + frame(SETTINGS) + data)

    async def response(self, stream, what):
        """The status and the content."""
        await self.until(lambda: stream in self.ended or stream in self.resets or self.code is not None, what)
        check(stream in self.ended, f"{what}: reset {self.resets}, connection {self.code}")
        return read(self.streams[stream])


def number(data, at):
    length = 1 << (data[at] >> 6)
    return int.from_bytes(data[at : at + length], "big") & ((1 << (8 * length - 2)) - 1), at + length


def read(data):
    """Status of the last head, and the content, of what came on a request's stream."""
    at, status, content = 0, None, b""
    while at < len(data):
        kind, at = number(data, at)
        length, at = number(data, at)
        payload, at = data[at : at + length], at + length
        if kind == HEADERS:
            _, fields = pylsqpack.Decoder(0, 0).feed_header(0, payload)
            status = int(dict(fields).get(b":status", status or 0))
        elif kind == DATA:
            content += payload
    return status, content


def configured(ca, name="localhost"):
    # It takes no certificate that has `*.example` among its names; the other clients verify it.
    return QuicConfiguration(
        is_client=True, alpn_protocols=["h3"], server_name=name, idle_timeout=PATIENCE, verify_mode=ssl.CERT_NONE, cafile=ca)


def connected(address, ca, protocol, configuration=None, **more):
    host, port = address.rsplit(":", 1)
    return connect(host, int(port), configuration=configuration or configured(ca), create_protocol=protocol, **more)


class Client(QuicConnectionProtocol):
    """An ordinary one."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self.responses, self.code = {}, None
        self.news = asyncio.Event()

    def quic_event_received(self, event):
        self.news.set()
        if isinstance(event, ConnectionTerminated):
            self.code = event.error_code
            for _, _, done in self.responses.values():
                done.set()
        for event in self.http.handle_event(event):
            if isinstance(event, (HeadersReceived, DataReceived)):
                fields, content, done = self.responses[event.stream_id]
                if isinstance(event, HeadersReceived):
                    fields.append(dict(event.headers))
                else:
                    content.extend(event.data)
                if event.stream_ended:
                    done.set()

    async def until(self, done, what):
        async def look():
            while not done():
                check(self.code is None, f"{what}: the connection ended with {self.code}")
                self.news.clear()
                await self.news.wait()

        try:
            await asyncio.wait_for(look(), PATIENCE)
        except TimeoutError:
            sys.exit(f"{what}: nothing came")

    def begin(self, method, path, *more, content=None, end=True, authority="localhost"):
        stream = self._quic.get_next_available_stream_id()
        self.responses[stream] = ([], bytearray(), asyncio.Event())
        fields = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path), *more]
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in fields], end and content is None)
        if content is not None:
            self.http.send_data(stream, content, True)
        self.transmit()
        return stream

    async def end(self, stream):
        fields, content, done = self.responses[stream]
        await asyncio.wait_for(done.wait(), PATIENCE)
        check(fields, f"no response; the connection ended with {self.code}")
        return fields[-1] if b":status" in fields[-1] else fields[0], bytes(content)

    async def request(self, method, path, *more, **named):
        return await self.end(self.begin(method, path, *more, **named))


async def requests(address, ca):
    async with connected(address, ca, Client) as client:
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "POST"):
            fields, content = await client.request(method, "/echo?a=1&b=%20")
            check(fields[b":status"] == b"200" and f'"method":"{method}"'.encode() in content, f"{method}: {fields} {content}")
        for more in ([], [("content-length", "300000")]):
            fields, content = await client.request("POST", "/echo", *more, content=b"x" * 300_000)
            check(b'"length":300000' in content, f"POST: {fields} {content[:200]}")
        fields, content = await client.request("GET", "/file")
        check(len(content) == 1 << 20, f"/file: {len(content)} bytes")
        cookies = [("cookie", f"c{number}={'v' * 40}") for number in range(50)]
        fields, content = await client.request("GET", "/echo", *cookies)
        check(fields[b":status"] == b"200", f"cookies: {fields}")
        fields, _ = await client.request("GET", "/status?code=204")
        check(fields[b":status"] == b"204", f"204: {fields}")
        await asyncio.wait_for(client.ping(), PATIENCE)
        for number in range(20):
            client._quic.request_key_update()
            fields, content = await client.request("GET", f"/echo?keys={number}")
            check(f"keys={number}".encode() in content, f"behind key update {number}: {fields} {content}")
        streams = [client.begin("GET", f"/echo?n={number}") for number in range(60)]
        for number, stream in enumerate(streams):
            fields, content = await client.end(stream)
            check(fields[b":status"] == b"200" and f"n={number}".encode() in content, f"{number}: {fields} {content}")
        client.change_connection_id()
        for number in range(200):
            fields, _ = await client.request("GET", "/echo")
            check(fields[b":status"] == b"200", f"{number} in a row: {fields}")


# What is said on the client's own streams, and the code that the connection ends with. `False` behind a stream: it does not end.
CONNECTION_ERRORS = {
    "no settings": (lambda raw: raw.uni(varint(0) + frame(0x21)), MISSING),
    "settings twice": (lambda raw: raw.control(frame(SETTINGS)), UNEXPECTED),
    "a setting twice": (lambda raw: raw.uni(varint(0) + frame(SETTINGS, bytes([6, 1, 6, 1]))), BAD_SETTINGS),
    "a setting of HTTP/2": (lambda raw: raw.uni(varint(0) + frame(SETTINGS, bytes([4, 1]))), BAD_SETTINGS),
    "long settings": (lambda raw: raw.uni(varint(0) + frame(SETTINGS, b"\x21\x00" * 2000)), LOAD),
    "data on control": (lambda raw: raw.control(frame(DATA, b"x")), UNEXPECTED),
    "headers on control": (lambda raw: raw.control(GET), UNEXPECTED),
    "push promise on control": (lambda raw: raw.control(frame(PUSH_PROMISE, b"\0")), UNEXPECTED),
    "a frame of HTTP/2": (lambda raw: raw.control(frame(6, bytes(8))), UNEXPECTED),
    "a cut goaway": (lambda raw: raw.control(frame(GOAWAY)), FRAME),
    "a goaway that grows": (lambda raw: raw.control(frame(GOAWAY, b"\0") + frame(GOAWAY, b"\4")), ID),
    "pushes that shrink": (lambda raw: raw.control(frame(MAX_PUSH_ID, b"\4") + frame(MAX_PUSH_ID, b"\3")), ID),
    "no such push": (lambda raw: raw.control(frame(CANCEL_PUSH, b"\0")), ID),
    "control ends": (lambda raw: raw.uni(varint(0) + frame(SETTINGS), True), CLOSED_CRITICAL),
    "two controls": (lambda raw: (raw.control(), raw.control()), STREAM_CREATION),
    "a client that pushes": (lambda raw: raw.uni(varint(1) + varint(0)), STREAM_CREATION),
    "an entry for the table": (lambda raw: raw.uni(varint(2) + bytes.fromhex("c00f7777772e6578616d706c652e636f6d")), ENCODER),
    "a table": (lambda raw: raw.uni(varint(2) + bytes.fromhex("3fe11f")), ENCODER),
    "an acknowledgment of nothing": (lambda raw: raw.uni(varint(3) + b"\x80"), DECODER),
    "an increment of nothing": (lambda raw: raw.uni(varint(3) + b"\x01"), DECODER),
    "encoder ends": (lambda raw: raw.uni(varint(2), True), CLOSED_CRITICAL),
    "data first": (lambda raw: raw.bidi(frame(DATA, b"x") + GET), UNEXPECTED),
    "data behind trailers": (lambda raw: raw.bidi(head("POST") + frame(HEADERS, section([("x", "y")])) + frame(DATA, b"x")), UNEXPECTED),
    "settings on a request": (lambda raw: raw.bidi(head("POST") + frame(SETTINGS), False), UNEXPECTED),
    "push promise on a request": (lambda raw: raw.bidi(frame(PUSH_PROMISE, b"\0")), UNEXPECTED),
    "a priority of HTTP/2": (lambda raw: raw.bidi(frame(2, bytes(5))), UNEXPECTED),
    "a cut frame": (lambda raw: raw.bidi(GET[:-1]), FRAME),
    "no QPACK": (lambda raw: raw.bidi(frame(HEADERS, bytes.fromhex("0000ff24"))), DECOMPRESSION),
    "needs a table": (lambda raw: raw.bidi(frame(HEADERS, bytes.fromhex("020080"))), DECOMPRESSION),
    "below the base": (lambda raw: raw.bidi(frame(HEADERS, bytes.fromhex("0000d110"))), DECOMPRESSION),
    "frames that carry nothing": (lambda raw: raw.bidi(frame(0x21) * 20_000, False), LOAD),
    "empty data": (lambda raw: raw.bidi(head("POST") + frame(DATA) * 20_000, False), LOAD),
    "nothing on control": (lambda raw: raw.control(frame(0x21) * 20_000), LOAD),
}

LOCAL = (":authority", "localhost")
WHOLE = [(":method", "GET"), (":scheme", "https"), LOCAL, (":path", "/echo")]

# What makes one request malformed, and the code that its stream ends with. Others on the connection go on.
STREAM_ERRORS = {
    "no head": (b"", INCOMPLETE),
    "no path": (frame(HEADERS, section(WHOLE[:3])), MESSAGE),
    "no scheme": (frame(HEADERS, section([WHOLE[0], *WHOLE[2:]])), MESSAGE),
    "no method": (frame(HEADERS, section(WHOLE[1:])), MESSAGE),
    "two paths": (frame(HEADERS, section([*WHOLE, (":path", "/admin")])), MESSAGE),
    "a status": (frame(HEADERS, section([*WHOLE, (":status", "200")])), MESSAGE),
    "pseudo behind fields": (frame(HEADERS, section([*WHOLE[:3], ("x", "y"), WHOLE[3]])), MESSAGE),
    "a fragment": (head("GET", "/echo#x"), MESSAGE),
    "a space in the path": (head("GET", "/e cho"), MESSAGE),
    "connection": (head("GET", "/echo", ("connection", "close")), MESSAGE),
    "transfer-encoding": (head("POST", "/echo", ("transfer-encoding", "chunked")), MESSAGE),
    "upgrade": (head("GET", "/echo", ("upgrade", "h2c")), MESSAGE),
    "te": (head("GET", "/echo", ("te", "gzip")), MESSAGE),
    "a capital": (frame(HEADERS, section(WHOLE) + b"\x22Xy\x01z"), MESSAGE),
    "a line break": (head("GET", "/echo", ("x", "y\r\nz: 1")), MESSAGE),
    "a blank in front": (head("GET", "/echo", ("x", " y")), MESSAGE),
    "another Host": (head("GET", "/echo", ("host", "other.example")), MESSAGE),
    "userinfo": (head("GET", "/echo", authority="user@localhost"), MESSAGE),
    "another scheme": (frame(HEADERS, section([WHOLE[0], (":scheme", "ftp"), *WHOLE[2:]])), MESSAGE),
    "two lengths": (head("POST", "/echo", ("content-length", "1"), ("content-length", "1")) + frame(DATA, b"x"), MESSAGE),
    "shorter than it says": (head("POST", "/echo", ("content-length", "9")) + frame(DATA, b"x"), MESSAGE),
    "longer than it says": (head("POST", "/echo", ("content-length", "1")) + frame(DATA, b"xyz"), MESSAGE),
    "longer than nothing": (head("POST", "/echo", ("content-length", "0")) + frame(DATA, b"xyz"), MESSAGE),
    "pseudo in trailers": (head("POST") + frame(DATA, b"x") + frame(HEADERS, section([(":path", "/x")])), MESSAGE),
    "protocol without CONNECT": (frame(HEADERS, section([*WHOLE, (":protocol", "websocket")])), MESSAGE),
    "CONNECT with a path": (head("CONNECT", "/echo"), MESSAGE),
}

# What is rejected with a response.
REJECTED = {
    "dot segments": (head("GET", "/a/../echo"), 400),
    "a large head": (head("GET", "/echo", *[(f"x{number}", "y" * 1000) for number in range(80)]), 431),
    "a head that is announced as endless": (varint(HEADERS) + varint(1 << 40) + b"\0\0" + b"\x27\xff" * 30_000, 431),
    "many fields": (head("GET", "/echo", *[("x", "y")] * 120), 431),
    "a long path": (head("GET", "/" + "a" * 9000), 414),
    "CONNECT": (frame(HEADERS, section([(":method", "CONNECT"), (":authority", "localhost:443")])), 405),
    "TRACE": (head("TRACE"), 405),
    "another expectation": (head("POST", "/echo", ("expect", "200-maybe")) + frame(DATA, b"x"), 417),
}


async def hostile(address, ca):
    for name, (act, code) in CONNECTION_ERRORS.items():
        async with connected(address, ca, Raw) as raw:
            act(raw)
            await raw.until(lambda raw=raw: raw.code is not None, name)
            check(raw.code == code, f"{name}: {raw.code:#x} instead of {code:#x}")
    async with connected(address, ca, Raw) as raw:
        raw.control(frame(0xF0700, b"\0u=1") + frame(0x21, b"abc"))
        raw.uni(varint(2) + b"\x20")
        raw.uni(varint(3) + b"\x44")
        unknown = raw.uni(varint(0x54) + b"data")
        for name, (data, code) in STREAM_ERRORS.items():
            stream = raw.bidi(data)
            await raw.until(lambda stream=stream: stream in raw.resets or stream in raw.ended or raw.code is not None, name)
            check(raw.resets.get(stream) == code, f"{name}: {raw.resets.get(stream)}, {raw.streams.get(stream)}, {raw.code}")
        for name, (data, status) in REJECTED.items():
            stream = raw.bidi(data, not name.endswith("endless"))
            got, _ = await raw.response(stream, name)
            check(got == status, f"{name}: {got}")
        check(raw.stopped.get(unknown) == STREAM_CREATION, f"the unknown stream: {raw.stopped}")
        # Cut anywhere, with what nobody knows in between.
        whole = frame(0x21, b"abc") + head("POST") + frame(DATA, b"hel") + frame(0x42, b"") + frame(DATA, b"lo")
        stream = raw.bidi(b"", False)
        for octet in whole:
            raw.send(stream, bytes([octet]))
            await asyncio.sleep(0)
        raw.send(stream, frame(HEADERS, section([("x-checksum", "1")])), True)
        status, content = await raw.response(stream, "in pieces")
        check(status == 200 and b'"length":5' in content, f"in pieces: {status} {content}")
    await churn(address, ca)


async def churn(address, ca):
    """Requests that are given up at once, again and again, end the connection; others are served meanwhile."""
    async with connected(address, ca, Raw) as raw, connected(address, ca, Raw) as other:
        raw.control()
        other.control()
        for _ in range(4000):
            # aioquic resets streams that it may not open yet, too, which would be another error.
            while raw.code is None and raw._quic.get_next_available_stream_id() // 4 >= raw._quic._remote_max_streams_bidi:
                await asyncio.sleep(0.001)
            if raw.code is not None:
                break
            stream = raw.bidi(head("POST"), False)
            raw._quic.reset_stream(stream, 0x10C)
            raw._quic.stop_stream(stream, 0x10C)
            raw.transmit()
            await asyncio.sleep(0)
        status, _ = await other.response(other.bidi(GET), "beside the churn")
        check(status == 200, f"beside the churn: {status}")
        await raw.until(lambda: raw.code is not None, "the churn")
        check(raw.code == LOAD, f"the churn: {raw.code:#x}")


async def leaving(address, ca):
    """A client that goes on asking when it was told that its connection ends (GOAWAY) gets requests rejected, and cannot put off the end."""
    async with connected(address, ca, Raw) as raw:
        raw.control()
        asked = []
        while raw.code is None and len(asked) < 400:
            asked.append(raw.bidi(GET))
            await asyncio.sleep(0.05)
        await raw.until(lambda: raw.code is not None, "the end")
        check(raw.code == NO_ERROR, f"the end: {raw.code:#x}")
        served = [stream for stream in asked if stream in raw.ended]
        rejected = [stream for stream in asked if raw.resets.get(stream) == REQUEST_REJECTED]
        check(len(served) >= 5 and served == asked[: len(served)], f"served {served} of {asked}")
        check(len(rejected) > 5 and len(asked) < 200, f"{len(asked)} asked, {len(rejected)} rejected")


async def half_open(address, ca):
    """Handshakes that are begun and never ended: nobody new is heard without proof of its address, one address has so many and no more, others are served."""
    host, port = address.rsplit(":", 1)
    begun, refused, proved = [], 0, 0
    for _ in range(260):
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        own.bind(("127.0.0.1", 0))
        own.settimeout(PATIENCE)
        quic = QuicConnection(configuration=configured(ca))
        quic.connect((host, int(port)), now=time.monotonic())
        # Until something of the handshake has come, or its refusal. Nothing responds to that.
        while True:
            for datagram, _ in quic.datagrams_to_send(now=time.monotonic()):
                own.sendto(datagram, (host, int(port)))
            is_retried = quic._retry_count
            quic.receive_datagram(own.recv(2000), (host, int(port)), now=time.monotonic())
            if quic._retry_count == is_retried:
                break
        proved += quic._retry_count
        refused += quic._close_event is not None and quic._close_event.error_code == CONNECTION_REFUSED
        begun.append(own)
    check(proved >= 100, f"{proved} of {len(begun)} had to prove their address")
    check(refused >= 50, f"{refused} of {len(begun)} were refused")
    transport, client = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Client(QuicConnection(configuration=configured(ca))), local_addr=("127.0.0.2", 0))
    client.connect((host, int(port)))
    await client.wait_connected()
    fields, _ = await client.request("GET", "/echo")
    check(fields[b":status"] == b"200", f"beside the handshakes: {fields}")
    transport.close()


async def quiet(address, ca):
    """A response that takes longer than a connection may be without packets."""
    async with connected(address, ca, Client) as client:
        fields, content = await client.request("GET", "/poll?ms=6000")
        check(fields[b":status"] == b"200", f"the quiet response: {fields}")


async def under_way(address, ca, ending, seconds):
    """Requests of that many seconds that are under way while something happens to the program: `served` if they and later ones are to be served on this
    connection, `leaving` if none but them, `handed over` if the connection then ends and a new one serves, `cut off` if it ends before they do."""
    async with connected(address, ca, Client) as client:
        await client.request("GET", "/echo")
        wait = 30_000 if ending == "cut off" else int(float(seconds) * 1000)
        streams = [client.begin("GET", f"/poll?ms={wait}&n={number}") for number in range(20)]
        await client.ping()
        print("under way", flush=True)
        if ending == "cut off":
            await asyncio.wait_for(client.wait_closed(), wait / 2000)
            check(client.code == NO_ERROR, f"the connection ended with {client.code}")
            return
        for stream in streams:
            fields, content = await client.end(stream)
            check((fields[b":status"], content) == (b"200", b"news"), f"under way: {fields} {content}")
        if ending in ("leaving", "handed over"):
            await asyncio.wait_for(client.wait_closed(), PATIENCE)
            check(client.code == NO_ERROR, f"the connection ended with {client.code}")
        if ending == "served":
            fields, _ = await client.request("GET", "/echo")
            check(fields[b":status"] == b"200", f"afterwards: {fields}")
    if ending != "leaving":
        async with connected(address, ca, Client) as client:
            fields, _ = await client.request("GET", "/echo")
            check(fields[b":status"] == b"200", f"on a new connection: {fields}")


class Socket:
    """A WebSocket on a stream (RFC 9220)."""

    def __init__(self, client):
        self.client, self.connection = client, Connection(ConnectionType.CLIENT)
        asked = [(":protocol", "websocket"), ("sec-websocket-version", "13"), ("origin", "https://localhost")]
        self.stream = client.begin("CONNECT", "/socket", *asked, end=False)

    async def opened(self):
        fields, _, _ = self.client.responses[self.stream]
        await self.client.until(lambda: fields, "the WebSocket")
        check(fields[0][b":status"] == b"200" and b"sec-websocket-accept" not in fields[0], f"the WebSocket: {fields}")

    def send(self, event):
        self.client.http.send_data(self.stream, self.connection.send(event), isinstance(event, CloseConnection))
        self.client.transmit()

    async def receive(self):
        text = ""
        while True:
            for event in self.connection.events():
                check(isinstance(event, Message), f"{event}")
                text += event.data
                if event.message_finished:
                    return text
            _, content, _ = self.client.responses[self.stream]
            await self.client.until(lambda: content, "a message")
            self.connection.receive_data(bytes(content))
            content.clear()


async def websocket(address, ca):
    """Several beside each other and beside requests."""
    async with connected(address, ca, Client) as client:
        await client.until(lambda: client.http.received_settings is not None, "settings")
        check(client.http.received_settings.get(8) == 1, f"no extended CONNECT: {client.http.received_settings}")
        sockets = [Socket(client) for _ in range(5)]
        for one in sockets:
            await one.opened()
        for number in range(100):
            text = f"message {number} " + "x" * (number * 200)
            for one in sockets:
                one.send(Message(data=text))
            for one in sockets:
                check(await one.receive() == text, f"message {number} came back otherwise")
        fields, _ = await client.request("GET", "/echo")
        check(fields[b":status"] == b"200", f"beside: {fields}")
        for one in sockets:
            one.send(CloseConnection(code=1000))
            await asyncio.wait_for(client.responses[one.stream][2].wait(), PATIENCE)


SCENARIOS = [requests, hostile, leaving, quiet, half_open, under_way, websocket]

if __name__ == "__main__":
    asyncio.run({scenario.__name__: scenario for scenario in SCENARIOS}[sys.argv[1]](*sys.argv[2:]))
