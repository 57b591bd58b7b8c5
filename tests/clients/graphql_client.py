"""Clients of GraphQL in Python: gql over requests, aiohttp and WebSockets. Usage: graphql_client.py PORT. Prints `ok`."""

import asyncio
import sys

from gql import Client, gql
from gql.transport.aiohttp import AIOHTTPTransport
from gql.transport.exceptions import TransportQueryError
from gql.transport.requests import RequestsHTTPTransport
from gql.transport.websockets import WebsocketsTransport

PORT = sys.argv[1]
URL = f"http://127.0.0.1:{PORT}/graphql"
PET = gql("query Pet($id: ID!) { pet(id: $id) { name friends { name } } }")


def rejected(error, code):
    assert code in repr(error) + repr(error.__cause__) + str(getattr(error, "errors", "")), repr(error)


def with_requests():
    client = Client(transport=RequestsHTTPTransport(url=URL))
    PET.variable_values = {"id": "1"}
    assert client.execute(PET)["pet"]["friends"][0]["name"] == "Bo"
    try:
        client.execute(gql("{ pets { nothing } }"))
        raise AssertionError("it passed")
    except TransportQueryError as error:
        rejected(error, "graphql_invalid")


async def with_sockets():
    async with Client(transport=AIOHTTPTransport(url=URL)) as session:
        PET.variable_values = {"id": "2"}
        assert (await session.execute(PET))["pet"]["name"] == "Bo"
    async with Client(transport=WebsocketsTransport(url=f"ws://127.0.0.1:{PORT}/graphql")) as session:
        ticks = [result["ticks"] async for result in session.subscribe(gql("subscription { ticks(count: 4) }"))]
        assert ticks == [1, 2, 3, 4], ticks
        try:
            await session.execute(gql("{ pets { nothing } }"))
            raise AssertionError("it passed")
        except TransportQueryError as error:
            rejected(error, "graphql_invalid")


with_requests()
asyncio.run(with_sockets())
print("ok")
