// The smallest application of Node, with its own keep-alive of five seconds. Prints `listening PORT`.
import http from "node:http";

const server = http.createServer((request, response) => {
  request.resume().on("end", () => response.end("hello"));
});
server.listen(0, "127.0.0.1", () => console.log("listening " + server.address().port));
