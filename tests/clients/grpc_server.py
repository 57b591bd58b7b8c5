"""A gRPC server of raw bytes with the methods and the command line of go/grpc-server. Prints `listening ADDRESS`."""

import argparse
import concurrent.futures
import signal
import threading
import time

import grpc


def echo(requests, _):
    yield from requests


def collect(requests, _):
    yield str(sum(1 for _ in requests)).encode()


def sleep(requests, context):
    message = next(requests)
    over = threading.Event()
    context.add_callback(over.set)
    over.wait(int(message) / 1000)
    yield message


def feed(requests, _):
    count, milliseconds = map(int, next(requests).split())
    for sent in range(count):
        yield str(sent).encode()
        time.sleep(milliseconds / 1000)


METHODS = {"Unary": echo, "Chat": echo, "Collect": collect, "Sleep": sleep, "Feed": feed}


class Service(grpc.GenericRpcHandler):
    def service(self, call):
        method = METHODS.get(call.method.rsplit("/", 1)[1])
        return method and grpc.stream_stream_rpc_method_handler(method)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-listen", default="127.0.0.1:0")
    arguments = parser.parse_args()
    options = [
        ("grpc.so_reuseport", 0),
        # Clients that are connected directly may ping as often as they do through a proxy.
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),
        ("grpc.http2.max_ping_strikes", 0),
    ]
    # Each call that waits holds a thread.
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(400), handlers=[Service()], options=options)
    port = server.add_insecure_port(arguments.listen)
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(30))
    print(f"listening 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
