"""GraphQL under a contract: a server and clients as applications have them, by POST, GET, persisted queries and WebSockets."""

import os

from rows import row
from stage import HERE, Failed, Process, Settings, folder, free_port, run, tool, until_connectable

CONFIG = """
listeners:
  - {{ name: web, bind: "127.0.0.1:{port}", contract: graph }}
upstreams:
  app: {{ servers: ["127.0.0.1:{backend}"] }}
contracts:
  graph:
    graphql: {{ schema: {schema}, websocket: true }}
routes:
  - {{ path: /graphql, upstream: app, upgrades: [websocket] }}
"""


def script(name):
    return os.path.join(HERE, name)


@row(ways=("portunus",), needs=("graphql", "node"), seconds=15)
def graphql_clients(_way):
    packages, backend, port = tool("graphql"), free_port(), free_port()
    place = os.path.join(folder("graphql"), "portunus.yaml")
    with open(place, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(port=port, backend=backend, schema=script("graphql_schema.graphql")))
    with Process("node", script("graphql_server.mjs"), packages, str(backend)) as server:
        until_connectable(backend, server)
        with Process(Settings.portunus, "run", place) as gate:
            until_connectable(port, gate)
            for words in (
                ("node", script("graphql_client.mjs"), packages, str(port)),
                (tool("graphql/python/bin/python"), script("graphql_client.py"), str(port)),
            ):
                said = run(*words, seconds=60)
                if "ok" not in said.split():
                    raise Failed(f"{words[1]}: {said}")
