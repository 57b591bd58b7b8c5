"""WebSockets on streams of one HTTP/2 connection (RFC 8441), by `h2` and `wsproto`. Usage: websocket_h2.py HOST:PORT CA SOCKETS MESSAGES.

Exits with 0 if every message came back as it was sent, with an ordinary request beside, and every WebSocket was closed in order.
"""

import socket
import ssl
import sys

import h2.config
import h2.connection
import h2.events
import h2.settings
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Message


class Client:
    def __init__(self, address, ca):
        host, port = address.rsplit(":", 1)
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(["h2"])
        self.socket = context.wrap_socket(socket.create_connection((host, int(port)), 60), server_hostname="localhost")
        check(self.socket.selected_alpn_protocol() == "h2", "no HTTP/2")
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.connection.initiate_connection()
        self.streams = {}
        self.statuses = {}
        self.ended = set()
        self.flush()

    def flush(self):
        self.socket.sendall(self.connection.data_to_send())

    def turn(self):
        """Reads once, and gives the bytes of each stream to who wants them."""
        got = self.socket.recv(65536)
        check(got, "the connection ended")
        for event in self.connection.receive_data(got):
            if isinstance(event, h2.events.ResponseReceived):
                self.statuses[event.stream_id] = dict(event.headers)[b":status"]
                check(b"sec-websocket-accept" not in dict(event.headers), "the proof of HTTP/1.1")
            elif isinstance(event, h2.events.DataReceived):
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.streams[event.stream_id] += event.data
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                sys.exit(f"{event}")
        self.flush()

    def until(self, done):
        while not done():
            self.turn()

    def request(self, headers, end):
        stream = self.connection.get_next_available_stream_id()
        self.streams[stream] = b""
        headers = [(":scheme", "https"), (":authority", "localhost"), *headers]
        self.connection.send_headers(stream, headers, end_stream=end)
        self.flush()
        return stream

    def send(self, stream, data):
        while data:
            room = min(self.connection.local_flow_control_window(stream), self.connection.max_outbound_frame_size)
            if room == 0:
                self.turn()
                continue
            self.connection.send_data(stream, data[:room])
            self.flush()
            data = data[room:]


def check(fact, what):
    if not fact:
        sys.exit(what)


class Socket:
    def __init__(self, client):
        self.client = client
        headers = [(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/socket"), ("sec-websocket-version", "13"), ("origin", "https://localhost")]
        self.stream = client.request(headers, False)
        self.connection = Connection(ConnectionType.CLIENT)

    def opened(self):
        self.client.until(lambda: self.stream in self.client.statuses)
        check(self.client.statuses[self.stream] == b"200", f"status {self.client.statuses[self.stream]}")

    def send(self, text):
        self.client.send(self.stream, self.connection.send(Message(data=text)))

    def receive(self):
        text = ""
        while True:
            for event in self.connection.events():
                check(isinstance(event, Message), f"{event}")
                text += event.data
                if event.message_finished:
                    return text
            self.more()

    def more(self):
        self.client.until(lambda: self.client.streams[self.stream])
        data, self.client.streams[self.stream] = self.client.streams[self.stream], b""
        self.connection.receive_data(data)

    def close(self):
        self.client.send(self.stream, self.connection.send(CloseConnection(code=1000)))
        self.client.connection.end_stream(self.stream)
        self.client.flush()
        self.client.until(lambda: self.stream in self.client.ended)


def main():
    address, ca, sockets, messages = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    client = Client(address, ca)
    announced = h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL
    client.until(lambda: client.connection.remote_settings.get(announced, 0) == 1)
    opened = [Socket(client) for _ in range(sockets)]
    for one in opened:
        one.opened()
    for number in range(messages):
        text = f"message {number} " + "x" * (number % 1000 * 50)
        for one in opened:
            one.send(text)
        for one in opened:
            check(one.receive() == text, f"message {number} came back otherwise")
    beside = client.request([(":method", "GET"), (":path", "/echo")], True)
    client.until(lambda: beside in client.ended)
    check(client.statuses[beside] == b"200", "the request beside")
    for one in opened:
        one.close()


if __name__ == "__main__":
    main()
