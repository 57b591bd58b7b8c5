"""Packets under HTTP/3, by aioquic: that come from elsewhere, that nobody should send, that come too often. Usage: http3_packets.py SCENARIO HOST:PORT CA; SCENARIO is a function below. Exits with 0 if all went well."""

import asyncio
import contextlib
import resource
import signal
import socket
import sys
import time

from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicFrameType
from aioquic.tls import Epoch
from http3 import DATA, NO_ERROR, PATIENCE, UNEXPECTED, Client, Raw, check, configured, connected, frame, head, varint

CONNECTION_ID_LIMIT = 9
CLIENTS, AT_ONCE, MOVES = 200, 25, 3
PACKETS = 3000
ATTEMPTS = 2000


class Passing(asyncio.DatagramProtocol):
    """Another socket of the same client."""

    def __init__(self, client):
        self.client = client

    def datagram_received(self, data, addr):
        self.client.datagram_received(data, addr)


async def move(client):
    """Goes on from another port, without a word, as behind a NAT that has forgotten."""
    own = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    own.bind(("::", 0))
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: Passing(client), sock=own)
    old, client._transport = client._transport, transport
    old.close()
    # Until it sends something, nobody can know where it is.
    client._quic.send_ping(id(transport))
    client.transmit()


async def moving(address, ca):
    """Many clients, each of which goes on from other ports while a request is under way and between two. So many at once that none of them rests for
    long, however slow the machine is."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(number):
        async with at_once, connected(address, ca, Client) as client:
            await client.request("GET", f"/echo?n={number}")
            for _ in range(MOVES):
                stream = client.begin("GET", f"/poll?ms=300&n={number}")
                await client.ping()
                await move(client)
                fields, content = await client.end(stream)
                check((fields[b":status"], content) == (b"200", b"news"), f"client {number}: {fields}")
                await move(client)
                fields, content = await client.request("POST", f"/echo?n={number}", content=b"x" * 5000)
                check(fields[b":status"] == b"200" and b'"length":5000' in content, f"client {number}: {fields}")

    await asyncio.gather(*(one(number) for number in range(CLIENTS)))


class Counting(Raw):
    """Counts the bytes both ways, and keeps what came last."""

    sent = received = 0
    last = b""

    def datagram_received(self, data, addr):
        self.received += len(data)
        self.last = data
        super().datagram_received(data, addr)

    def sealed(self, payload):
        """A packet of these frames, made behind the protocol's back."""
        quic = self._quic
        crypto, number = quic._cryptos[Epoch.ONE_RTT], quic._packet_number
        quic._packet_number += 1
        header = bytes([0x41 | crypto.key_phase << 2]) + quic._peer_cid.cid + (number & 0xFFFF).to_bytes(2, "big")
        return crypto.encrypt_packet(header, payload.ljust(4, b"\0"), number)

    async def flood(self, packets):
        """Whatever is said meanwhile."""
        for number, packet in enumerate(packets):
            self.sent += len(packet)
            self._transport.sendto(packet, self._quic._network_paths[0].addr)
            if number % 20 == 19:
                await asyncio.sleep(0.001)


def new_connection_id(sequence, retired):
    return varint(QuicFrameType.NEW_CONNECTION_ID) + varint(sequence) + varint(retired) + b"\x08" + sequence.to_bytes(8, "big") + bytes(16)


CHALLENGES = b"".join(bytes([QuicFrameType.PATH_CHALLENGE]) + number.to_bytes(8, "big") for number in range(120))

# Packets that a client sends again and again, and the code that its connection ends with; none if it lives.
FLOODS = {
    "PATH_CHALLENGE": (lambda: (CHALLENGES for _ in range(PACKETS)), None),
    "NEW_CONNECTION_ID": (lambda: (new_connection_id(number, 0) for number in range(100, 100 + PACKETS)), CONNECTION_ID_LIMIT),
    "NEW_CONNECTION_ID that retires all": (lambda: (new_connection_id(number, number) for number in range(100, 100 + PACKETS)), None),
    "empty STREAM": (lambda: ((b"\x0a\x00\x00" * 300) for _ in range(PACKETS)), None),
    "CONNECTION_CLOSE": (lambda: (b"\x1d" + varint(NO_ERROR) + b"\0" for _ in range(PACKETS)), 0),
}


async def floods(address, ca):
    """What is sent too often costs the client its connection, or nothing but its own turn: no more comes back than was sent, and others are served."""
    async with connected(address, ca, Client) as other:
        for name, (payloads, code) in FLOODS.items():
            async with connected(address, ca, Counting) as raw:
                raw.control()
                raw.bidi(head("POST"), False)
                await raw.ping()
                raw.received = 0
                # Ahead: at the end of the connection its keys are gone.
                packets = [raw.sealed(payload) for payload in payloads()]
                flood = asyncio.create_task(raw.flood(packets))
                while not flood.done():
                    fields, _ = await other.request("GET", "/echo")
                    check(fields[b":status"] == b"200", f"beside {name}: {fields}")
                    await asyncio.sleep(0.01)
                await flood
                if code is not None:
                    await raw.until(lambda raw=raw: raw.code is not None, name)
                check(raw.code == code, f"{name}: {raw.code} instead of {code}")
                check(raw.received <= raw.sent, f"{name}: {raw.received} bytes for {raw.sent}")
                # Whoever has closed hears nothing more, and must not wait for it.
                raw._closed.set()
        await heedless(address, ca)
        fields, _ = await other.request("GET", "/echo")
        check(fields[b":status"] == b"200", f"afterwards: {fields}")


async def heedless(address, ca):
    """A client that was told that its connection is closed, and goes on."""
    async with connected(address, ca, Counting) as raw:
        await raw.ping()
        packets = [raw.sealed(b"\x01") for _ in range(PACKETS)]
        raw.control(frame(DATA, b"x"))
        await raw.until(lambda: raw.code is not None, "the end")
        check(raw.code == UNEXPECTED, f"the end: {raw.code}")
        raw.received = 0
        await raw.flood(packets)
        await asyncio.sleep(0.2)
        check(raw.received <= raw.sent, f"{raw.received} bytes for {raw.sent} after the end")


async def churn(address, ca):
    """Streams that are opened for nothing, again and again."""
    async with connected(address, ca, Raw) as raw, connected(address, ca, Client) as other:
        raw.control()
        for _ in range(4000):
            while raw.code is None and raw._quic.get_next_available_stream_id(is_unidirectional=True) // 4 >= raw._quic._remote_max_streams_uni:
                await asyncio.sleep(0.001)
            if raw.code is not None:
                break
            raw.uni(varint(0x54), True)
            await asyncio.sleep(0)
        await raw.until(lambda: raw.code is not None, "the churn")
        check(raw.code == 0x107, f"the churn: {raw.code:#x}")
        fields, _ = await other.request("GET", "/echo")
        check(fields[b":status"] == b"200", f"beside the churn: {fields}")


async def attempts(address, ca):
    """First packets of many ports, behind none of which anybody listens: no more comes back than three times what was sent, and others are served."""
    host, port = address.rsplit(":", 1)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, ATTEMPTS + 100), most))
    sent, forged = 0, []
    for _ in range(ATTEMPTS):
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        own.bind(("127.0.0.1", 0))
        own.setblocking(False)
        quic = QuicConnection(configuration=configured(ca))
        quic.connect((host, int(port)), now=time.monotonic())
        for datagram, _ in quic.datagrams_to_send(now=time.monotonic()):
            sent += own.sendto(datagram, (host, int(port)))
        forged.append(own)
    async with connected(address, ca, Client) as client:
        for _ in range(50):
            fields, _ = await client.request("GET", "/echo")
            check(fields[b":status"] == b"200", f"beside the attempts: {fields}")
    # Until handshakes have been given up: what was to come has come again by then.
    await asyncio.sleep(3)
    came = 0
    for own in forged:
        with contextlib.suppress(BlockingIOError):
            while True:
                came += len(own.recv(2000))
    check(came <= 3 * sent, f"{came} bytes for {sent}")


async def forgotten(address, ca):
    """A connection that the program knows nothing of, as it was started anew: it says so at once (stateless reset)."""
    again = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, again.set)
    async with connected(address, ca, Counting) as raw:
        raw.control()
        await raw.ping()
        token = raw._quic._peer_cid.stateless_reset_token
        check(len(token) == 16, f"no token: {token}")
        print("connected", flush=True)
        await asyncio.wait_for(again.wait(), PATIENCE)
        await raw.flood([raw.sealed(b"\x01".ljust(100, b"\0"))])
        for _ in range(PATIENCE * 100):
            if raw.last.endswith(token):
                break
            await asyncio.sleep(0.01)
        check(raw.last.endswith(token), "no reset came")
        raw._closed.set()


SCENARIOS = [moving, floods, churn, attempts, forgotten]

if __name__ == "__main__":
    asyncio.run({scenario.__name__: scenario for scenario in SCENARIOS}[sys.argv[1]](*sys.argv[2:]))
