// Clients of GraphQL that applications use: Apollo Client (POST, GET, automatic persisted queries), and graphql-ws over a WebSocket.
// Usage: graphql_client.mjs PACKAGES PORT. Prints `ok`, or fails with what went wrong.
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";

const [packages, port] = process.argv.slice(2);
const require = createRequire(`${packages}/node_modules/x.js`);
const { ApolloClient, HttpLink, InMemoryCache, gql } = require("@apollo/client/core");
const { createPersistedQueryLink } = require("@apollo/client/link/persisted-queries");
const { createClient } = require("graphql-ws");
const WebSocket = require("ws");

const uri = `http://127.0.0.1:${port}/graphql`;
const PET = gql`
  query Pet($id: ID!) {
    pet(id: $id) { ...Parts friends { ...Parts } }
  }
  fragment Parts on Pet { id name age }
`;
const apollo = (link) => new ApolloClient({ link, cache: new InMemoryCache(), defaultOptions: { query: { fetchPolicy: "no-cache" } } });
const sha256 = (query) => createHash("sha256").update(query).digest("hex");
const links = {
  post: new HttpLink({ uri }),
  get: new HttpLink({ uri, useGETForQueries: true }),
  persisted: createPersistedQueryLink({ sha256 }).concat(new HttpLink({ uri })),
};
for (const [name, link] of Object.entries(links)) {
  const client = apollo(link);
  const { data } = await client.query({ query: PET, variables: { id: "1" } });
  assert.equal(data.pet.friends[0].name, "Bo", name);
  const renamed = await client.mutate({ mutation: gql`mutation R($name: String!) { rename(id: 1, name: $name) { name } }`, variables: { name: "Ada" } });
  assert.equal(renamed.data.rename.name, "Ada", name);
  const wrong = await client.query({ query: gql`{ pets { nothing } }`, errorPolicy: "all" }).catch((error) => error);
  assert.match(JSON.stringify(wrong), /graphql_invalid/, name);
  const deep = gql(`{ pets ${"{ friends ".repeat(20)} { id } ${"}".repeat(20)} }`);
  assert.match(JSON.stringify(await client.query({ query: deep }).catch((error) => error)), /graphql_depth/, name);
}

const socket = createClient({ url: `ws://127.0.0.1:${port}/graphql`, webSocketImpl: WebSocket, retryAttempts: 0 });
const all = async (query, variables) => {
  const found = [];
  for await (const result of socket.iterate({ query, variables })) found.push(result);
  return found;
};
assert.deepEqual(await all("subscription T($count: Int!) { ticks(count: $count) }", { count: 3 }), [1, 2, 3].map((ticks) => ({ data: { ticks } })));
assert.equal((await all("{ pet(id: 2) { name } }"))[0].data.pet.name, "Bo");
const rejected = await all("{ __schema { types { name } } }").then(() => "it passed", (errors) => JSON.stringify(errors));
assert.match(rejected, /graphql_introspection/);
// The connection goes on.
assert.equal((await all("subscription { ticks(count: 1) }")).length, 1);
await socket.dispose();
console.log("ok");
process.exit(0);
