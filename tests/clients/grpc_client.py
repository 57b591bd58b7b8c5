"""A gRPC client that does one thing and exits with 0 if it went well; scenarios and command line are those of go/grpc-client."""

import argparse
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

SERVICE = "/portunus.test.Echo/"


class Wrong(Exception):
    pass


class Stream:
    """A bidirectional call; `None` in its queue ends the client's side."""

    def __init__(self, channel, method):
        self.outgoing = queue.Queue()
        self.replies = channel.stream_stream(SERVICE + method)(iter(self.outgoing.get, None))

    def send(self, message):
        self.outgoing.put(message.encode())

    def receive(self):
        return next(self.replies).decode()

    def exchange(self, message):
        self.send(message)
        reply = self.receive()
        if reply != message:
            raise Wrong(f"sent {message}, got {reply}")

    def finish(self):
        self.outgoing.put(None)
        for reply in self.replies:
            raise Wrong(f"the stream did not end but brought {reply}")


def unary(channel, calls, at_once):
    """CALLS AT_ONCE"""
    call = channel.unary_unary(SERVICE + "Unary")
    failures = []

    def one(number):
        message = str(number).encode()
        try:
            if call(message) != message:
                failures.append(f"call {number} brought something else")
        except grpc.RpcError as error:
            failures.append(describe(error))

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, range(calls)))
    if failures:
        raise Wrong(f"{len(failures)} of {calls} calls failed, the first with: {failures[0]}")


def ping_pong(channel, streams, messages, pause):
    """STREAMS MESSAGES PAUSE_MS"""

    def one(_):
        begin = time.monotonic()
        stream = Stream(channel, "Chat")
        for number in range(messages):
            try:
                stream.exchange(str(number))
            except grpc.RpcError as error:
                raise Wrong(f"after {number} messages, {time.monotonic() - begin:.2f} s: {describe(error)}") from None
            time.sleep(pause / 1000)
        stream.finish()

    with ThreadPoolExecutor(streams) as pool:
        list(pool.map(one, range(streams)))


def quiet(channel, seconds):
    """SECONDS: a stream in which nothing moves but keepalive pings."""
    stream = Stream(channel, "Chat")
    stream.exchange("before")
    begin = time.monotonic()
    # The call says by itself when it is cut.
    over = threading.Event()
    stream.replies.add_callback(over.set)
    if over.wait(seconds):
        raise Wrong(f"the stream ended after {time.monotonic() - begin:.1f} s: {stream.replies.code()}")
    stream.exchange("after")
    stream.finish()


def upload(channel, messages, pause):
    """MESSAGES PAUSE_MS: client streaming."""

    def outgoing():
        for number in range(messages):
            yield str(number).encode()
            time.sleep(pause / 1000)

    arrived = channel.stream_unary(SERVICE + "Collect")(outgoing())
    if int(arrived) != messages:
        raise Wrong(f"{arrived} of {messages} messages arrived")


def feed(channel, messages, pause):
    """MESSAGES PAUSE_MS: server streaming."""
    replies = channel.unary_stream(SERVICE + "Feed")(f"{messages} {pause}".encode())
    got = [int(reply) for reply in replies]
    if got != list(range(messages)):
        raise Wrong(f"{len(got)} of {messages} messages arrived in order")


def beside(channel, work):
    """Does the work while a stream is open on the same connection, and exchanges messages in it before and after."""
    stream = Stream(channel, "Chat")
    stream.exchange("before")
    work()
    try:
        stream.exchange("after")
    except grpc.RpcError as error:
        raise Wrong(f"the stream beside: {describe(error)}") from None
    stream.finish()


def cancel(channel, calls):
    """CALLS: begins calls and drops them, beside a stream; then others must be answered."""

    def work():
        sleep = channel.unary_unary(SERVICE + "Sleep")
        for _ in range(calls):
            call = sleep.future(b"60000")
            time.sleep(0.002)
            call.cancel()
        unary(channel, calls, 1)

    beside(channel, work)


def deadlines(channel, calls, pause):
    """CALLS PAUSE_MS: calls that take longer than their deadline of 50 ms allows, beside a stream."""

    def work():
        sleep = channel.unary_unary(SERVICE + "Sleep")
        started = []
        for _ in range(calls):
            started.append(sleep.future(b"60000", timeout=0.05))
            time.sleep(pause / 1000)
        for number, call in enumerate(started):
            if call.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise Wrong(f"call {number}: {call.code()}, {call.details()}")

    beside(channel, work)


def rejected(channel, *numbers):
    """AT_ONCE CODE AT_ONCE CODE ...: for each pair, that many calls of the method Sleep of the service `rN` (N counts pairs), which takes a minute
    where it gets to the server. The first call that ends must end with the code."""
    wrong = []
    for number, (at_once, code) in enumerate(zip(numbers[::2], numbers[1::2])):
        ended = queue.Queue()
        calls = [channel.unary_unary(f"/r{number}/Sleep").future(b"60000", timeout=50) for _ in range(at_once)]
        for call in calls:
            call.add_done_callback(ended.put)
        first = ended.get()
        if first.code().value[0] != code:
            wrong.append(f"r{number}: {describe(first)} instead of code {code}")
        for call in calls:
            call.cancel()
    if wrong:
        raise Wrong("; ".join(wrong))


def describe(error):
    return f"{error.code()}, {error.details()}"


SCENARIOS = {
    "unary": unary,
    "ping-pong": ping_pong,
    "quiet": quiet,
    "upload": upload,
    "feed": feed,
    "cancel": cancel,
    "deadlines": deadlines,
    "rejected": rejected,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-address")
    parser.add_argument("-ca")
    parser.add_argument("scenario")
    parser.add_argument("numbers", nargs="*", type=int)
    arguments = parser.parse_args()
    options = [("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 20_000), ("grpc.http2.max_pings_without_data", 0)]
    if arguments.ca:
        with open(arguments.ca, "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        options += [("grpc.ssl_target_name_override", "localhost"), ("grpc.default_authority", "localhost")]
        channel = grpc.secure_channel(arguments.address, credentials, options)
    else:
        channel = grpc.insecure_channel(arguments.address, options)
    try:
        SCENARIOS[arguments.scenario](channel, *arguments.numbers)
    except Wrong as wrong:
        sys.exit(str(wrong))
    except grpc.RpcError as error:
        sys.exit(describe(error))


if __name__ == "__main__":
    main()
