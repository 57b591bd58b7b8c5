// A GraphQL server as applications have it: graphql-yoga over HTTP, graphql-ws over WebSockets. Usage: graphql_server.mjs PACKAGES PORT
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [packages, port] = process.argv.slice(2);
const require = createRequire(`${packages}/node_modules/x.js`);
// What these packages export to `require` and to `import` are two copies; one of `graphql` must do for all.
const { createSchema, createYoga } = require("graphql-yoga");
const { WebSocketServer } = require("ws");
const { useServer } = require("graphql-ws/use/ws");

const pets = [{ id: "1", name: "Ada", age: 3 }, { id: "2", name: "Bo", age: 5 }];
const schema = createSchema({
  typeDefs: (await import("node:fs")).readFileSync(new URL("graphql_schema.graphql", import.meta.url), "utf8"),
  resolvers: {
    Query: { pet: (_, { id }) => pets.find((pet) => pet.id === id), pets: (_, { first }) => pets.slice(0, first) },
    Mutation: { rename: (_, { id, name }) => Object.assign(pets.find((pet) => pet.id === id), { name }) },
    Subscription: {
      ticks: {
        subscribe: async function* (_, { count }) {
          for (let tick = 1; tick <= count; tick++) yield { ticks: tick };
        },
      },
    },
    Pet: { friends: (pet) => pets.filter((other) => other !== pet) },
  },
});
const yoga = createYoga({ schema, logging: false });
const server = createServer(yoga);
useServer({ schema }, new WebSocketServer({ server, path: "/graphql", perMessageDeflate: true }));
server.listen(Number(port), "127.0.0.1", () => console.log(`ready ${pathToFileURL(packages)}`));
