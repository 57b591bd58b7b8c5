"""What a handshake decides for HTTP/3, by aioquic. Usage: http3_tls.py SCENARIO HOST:PORT CA [MORE...]; SCENARIO is a function below. Exits with 0 if all went well."""

import asyncio
import sys

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.quic.events import ConnectionTerminated
from http3 import PATIENCE, Client, check, configured, connected

# RFC 9001 §4.8: an alert of TLS as an error of the connection.
UNKNOWN_CA, CERTIFICATE_REQUIRED = 0x100 + 48, 0x100 + 116

# That early data is accepted, in a ticket (RFC 9001 §4.6.1).
MAX_EARLY_DATA = 0xFFFFFFFF


class Deaf(QuicConnectionProtocol):
    """Only how the connection ends matters."""

    code = None

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.code = event.error_code


def showing(ca, name, certificate):
    configuration = configured(ca, name)
    if certificate:
        configuration.load_cert_chain(certificate, certificate)
    return configuration


async def certificates(address, ca, good, stranger):
    """`required.example` wants a certificate of the CA, `optional.example` takes one, `localhost` does not ask."""

    async def served(name, certificate, is_told):
        async with connected(address, ca, Client, showing(ca, name, certificate)) as client:
            fields, content = await client.request("GET", "/echo", authority=name)
            check(fields[b":status"] == b"200", f"{name} with {certificate}: {fields}")
            check((b"X-Client-Cert-Verified" in content) == is_told, f"{name} with {certificate}: {content}")

    async def rejected(name, certificate, code):
        async with connected(address, ca, Deaf, showing(ca, name, certificate), wait_connected=False) as deaf:
            # For a client the handshake is done before its certificate has been looked at.
            deaf.transmit()
            await asyncio.wait_for(deaf.wait_closed(), PATIENCE)
            check(deaf.code == code, f"{name} with {certificate}: {deaf.code} instead of {code}")

    await served("localhost", None, False)
    await served("localhost", good, False)
    await served("optional.example", None, False)
    await served("optional.example", good, True)
    await served("required.example", good, True)
    await rejected("required.example", None, CERTIFICATE_REQUIRED)
    await rejected("required.example", stranger, UNKNOWN_CA)
    await rejected("optional.example", stranger, UNKNOWN_CA)
    await misdirected(address, ca, good)


async def misdirected(address, ca, good):
    """A host under another rule than the name that the connection was made for is asked for elsewhere."""
    for name, certificate, answers in (
        ("localhost", None, {"localhost": b"200", "www.example": b"200", "required.example": b"421", "optional.example": b"421"}),
        ("required.example", good, {"required.example": b"200", "localhost": b"421", "optional.example": b"421"}),
    ):
        async with connected(address, ca, Client, showing(ca, name, certificate)) as client:
            for authority, status in answers.items():
                fields, _ = await client.request("GET", "/echo", authority=authority)
                check(fields[b":status"] == status, f"{authority} on a connection for {name}: {fields}")


async def early(address, ca):
    """A request in early data (0-RTT) is not read; it is served when it comes again, once."""
    tickets = []
    async with connected(address, ca, Client, session_ticket_handler=tickets.append) as client:
        await client.request("GET", "/echo?first")
        await client.until(lambda: tickets, "a ticket")
    ticket = tickets[0]
    check(ticket.max_early_data_size is None, "early data is offered")
    # As if it were.
    ticket.max_early_data_size = MAX_EARLY_DATA
    configuration = configured(ca)
    configuration.session_ticket = ticket
    async with connected(address, ca, Client, configuration, wait_connected=False) as client:
        stream = client.begin("POST", "/echo?early", content=b"once")
        fields, content = await client.end(stream)
        check(fields[b":status"] == b"200" and b'"length":4' in content, f"early: {fields} {content}")
        check(client._quic.tls.session_resumed, "the session was not resumed")
        check(not client._quic.tls.early_data_accepted, "early data was accepted")


SCENARIOS = [certificates, early]

if __name__ == "__main__":
    asyncio.run({scenario.__name__: scenario for scenario in SCENARIOS}[sys.argv[1]](*sys.argv[2:]))
