//! Bounds that a peer can reach and that no file sets: where each stands, what it bounds, its value and the reason. They are part of the reference.
//!
//! A test of `portunus` (`tests/bounds.rs`) compares this list with the numeric constants of the data path, so none is missing and no value differs.

mod authorities;
mod enrolment;
mod fleet;
mod graphql;
mod http3;
mod reports;
mod requests;
mod stores;

use reports::REPORTS;
use requests::REQUESTS;

/// A bound that is the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedBound {
    /// The file under `crates/` and the constant.
    pub place: (&'static str, &'static str),
    /// What it bounds.
    pub name: &'static str,
    /// Its value with its unit.
    pub value: &'static str,
    /// Why it is there, or why it is as it is.
    pub reason: &'static str,
}

const fn bound(
    file: &'static str,
    constant: &'static str,
    name: &'static str,
    value: &'static str,
    reason: &'static str,
) -> FixedBound {
    FixedBound { place: (file, constant), name, value, reason }
}

/// A group of bounds, under the side that can reach them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedBounds {
    /// Who can reach them.
    pub peer: &'static str,
    /// The bounds.
    pub bounds: &'static [FixedBound],
}

/// All of them.
pub const FIXED: &[FixedBounds] = &[
    FixedBounds { peer: "Clients: HTTP/1", bounds: CLIENTS_HTTP_1 },
    FixedBounds { peer: "Clients: HTTP/2", bounds: CLIENTS_HTTP_2 },
    FixedBounds { peer: "Clients: HTTP/3", bounds: http3::CLIENTS_HTTP_3 },
    FixedBounds { peer: "Clients: QUIC", bounds: CLIENTS_QUIC },
    FixedBounds { peer: "Clients: TLS, PROXY headers and addresses", bounds: CLIENTS_BELOW },
    FixedBounds { peer: "Clients: requests, contracts and tokens", bounds: REQUESTS },
    FixedBounds { peer: "Clients: GraphQL", bounds: graphql::GRAPHQL },
    FixedBounds { peer: "Tunnels and datagrams", bounds: TUNNELS },
    FixedBounds { peer: "Upstream servers and name servers", bounds: UPSTREAMS },
    FixedBounds { peer: "Directories of servers (Consul, Docker, etcd)", bounds: stores::DIRECTORIES },
    FixedBounds { peer: "Stores of rates (Valkey, Redis)", bounds: stores::STORES },
    FixedBounds { peer: "Key servers, and the edges that ask them", bounds: KEYS },
    FixedBounds { peer: "Enrolment at key servers", bounds: enrolment::ENROLMENT },
    FixedBounds { peer: "Certificate authorities", bounds: authorities::AUTHORITIES },
    FixedBounds { peer: "The store of a fleet (etcd)", bounds: fleet::FLEET },
    FixedBounds { peer: "Proxies that ask for validation", bounds: ASKING_PROXIES },
    FixedBounds { peer: "What peers can put into logs and metrics", bounds: REPORTS },
];

const CLIENTS_HTTP_1: &[FixedBound] = &[
    bound(
        "wire/src/http/head.rs",
        "MAX_METHOD_BYTES",
        "Method of a request",
        "32 bytes",
        "No registered method is longer than 17.",
    ),
    bound(
        "wire/src/http/target.rs",
        "MAX_HOST_BYTES",
        "Host of a request",
        "253 bytes",
        "The longest name that DNS has.",
    ),
    bound(
        "wire/src/http/http1/framing.rs",
        "MAX_LENGTH_DIGITS",
        "Digits of Content-Length",
        "18",
        "The number never overflows.",
    ),
    bound("wire/src/http/chunked.rs", "MAX_SIZE_DIGITS", "Digits of a chunk size", "16", "The number never overflows."),
    bound(
        "wire/src/http/chunked.rs",
        "MAX_EXTENSION_BYTES",
        "Chunk extensions of one body",
        "4096 bytes",
        "Nobody needs any; they cost work without counting as data.",
    ),
    bound(
        "wire/src/http/chunked.rs",
        "MAX_TRAILER_FIELDS",
        "Trailer fields",
        "32",
        "gRPC, the common user of trailers, needs three.",
    ),
    bound(
        "wire/src/http/chunked.rs",
        "MAX_TRAILER_BYTES",
        "Trailer section",
        "8192 bytes",
        "As much as a usual header.",
    ),
    bound(
        "proxy/src/http/h1.rs",
        "LINGER",
        "Time to end a connection whose client has the last response, or was rejected",
        "2s",
        "A reset would discard what the client has not read yet. A response that is still on its way is waited for under `client_idle_timeout` and `min_body_rate`.",
    ),
    bound(
        "proxy/src/http/h1.rs",
        "LINGER_BYTES",
        "Bytes read and discarded in that time",
        "1MiB",
        "A client that keeps sending does not get more.",
    ),
    bound(
        "proxy/src/http/h1.rs",
        "FIRST_REQUEST",
        "Time for a first request when a shutdown begins",
        "1s",
        "The client may be about to send one.",
    ),
];

const CLIENTS_HTTP_2: &[FixedBound] = &[
    bound(
        "proxy/src/http/h2.rs",
        "STREAM_WINDOW",
        "First flow-control window of a stream",
        "256KiB",
        "What a client may send ahead of its upstream on one stream. It grows with what the upstream takes in a round trip, up to a quarter of `max_receive_window`.",
    ),
    bound(
        "proxy/src/http/h2.rs",
        "CONNECTION_WINDOW",
        "First flow-control window of a connection",
        "1MiB",
        "The same for all its streams, and always four times as much. Each open WebSocket adds the window of its stream, so that those whose servers do not read take nothing from others.",
    ),
    bound(
        "proxy/src/http2/windows.rs",
        "MOST_WINDOW",
        "The same with all its WebSockets",
        "2147483647",
        "RFC 9113 §6.9.1. `h2_max_streams` of 128 takes 33 MiB at first.",
    ),
    bound(
        "proxy/src/http/h2.rs",
        "SMALL_FRAMES",
        "Bookkeeping of small DATA frames that wait",
        "4MiB",
        "A full window of messages of 16 bytes, which a gRPC client sends while its upstream is busy.",
    ),
    bound(
        "proxy/src/http/h2.rs",
        "LINGER",
        "Time in which the rest of a body is dropped that nobody reads",
        "1s",
        "Then, or behind `max_drain_bytes`, the stream is reset, which old clients take for a failure.",
    ),
    bound(
        "proxy/src/http/h2.rs",
        "SEND_BUFFER",
        "Response bytes held for one stream",
        "128KiB",
        "What a client that does not read can have held.",
    ),
    bound(
        "proxy/src/http/h2.rs",
        "FAREWELL",
        "Time to acknowledge GOAWAY on a connection without streams",
        "1s",
        "A client that is there does so within a round trip.",
    ),
    bound(
        "proxy/src/http2/outbox.rs",
        "MOST_QUEUED",
        "Response bytes of all streams waiting for the socket",
        "256KiB",
        "Streams cannot add up their buffers while the client does not read.",
    ),
    bound(
        "proxy/src/http2/frames.rs",
        "MAX_FRAME",
        "Frame",
        "16KiB",
        "The least that RFC 9113 demands, and what is advertised.",
    ),
    bound(
        "proxy/src/http2/frames.rs",
        "MAX_MARKS",
        "Streams with a malformed header that are remembered",
        "1024",
        "More than may be open at once by default.",
    ),
    bound(
        "proxy/src/http2/frames.rs",
        "MAX_PATHS",
        "Bytes of paths that are remembered beside the library",
        "128KiB",
        "Paths that are no URI wait here for their request.",
    ),
    bound(
        "proxy/src/http2/blocks.rs",
        "MAX_BLOCK",
        "Header block in several frames",
        "256KiB",
        "Held until it is whole; so much beyond `limits.max_header_bytes` is read to reject a request alone.",
    ),
    bound(
        "proxy/src/http2/blocks.rs",
        "MAX_SECTION",
        "Header of an HTTP/2 response, unpacked",
        "1MiB",
        "Then the connection ends.",
    ),
    bound(
        "proxy/src/http2/floods.rs",
        "FRAMES_PER_MESSAGE",
        "Control frames earned by each response frame",
        "10",
        "PING and WINDOW_UPDATE come with data; see `h2_control_frame_burst`.",
    ),
    bound(
        "proxy/src/http2/floods.rs",
        "PREMATURE",
        "Time in which a cancelled request counts as failed",
        "1s",
        "Deadlines and closed pages come later.",
    ),
    bound(
        "proxy/src/http2/floods.rs",
        "TURN",
        "Work of one turn of a connection",
        "6000 units",
        "Other connections of the worker get their turn.",
    ),
    bound(
        "proxy/src/http2/floods.rs",
        "SHORT_TURN",
        "The same for a connection whose requests fail",
        "750 units",
        "A flood costs other clients less.",
    ),
    bound(
        "proxy/src/http2/floods.rs",
        "MAX_BODIES",
        "Streams whose bodies are expected that are remembered",
        "1024",
        "DATA of further ones counts as control frames.",
    ),
    bound("wire/src/http/hpack.rs", "CAPACITY", "HPACK table", "4KiB", "The default of RFC 7541."),
];

const CLIENTS_QUIC: &[FixedBound] = &[
    bound(
        "quic/src/settings.rs",
        "FIRST_BI_STREAMS",
        "Requests at once on a connection that has not yet used half of them",
        "24",
        "Each takes memory, used or not. Then all that are allowed.",
    ),
    bound(
        "quic/src/settings.rs",
        "CRYPTO_BYTES",
        "Handshake bytes of a connection that wait for those before them",
        "16KiB",
        "A ClientHello with post-quantum key shares and a ticket.",
    ),
    bound(
        "quic/src/settings.rs",
        "CRYPTO_BYTES_WITH_CHAIN",
        "The same where clients may send certificates",
        "40KiB",
        "A certificate chain of 32 KiB.",
    ),
];

const CLIENTS_BELOW: &[FixedBound] = &[
    bound(
        "net/src/listen.rs",
        "BACKLOG",
        "Accept queue of a listener",
        "65535",
        "The kernel bounds it further by `net.core.somaxconn`.",
    ),
    bound(
        "proxy/src/listener.rs",
        "ACCEPT_PAUSE",
        "Pause after accept failed for want of descriptors or memory",
        "20ms",
        "Trying at once would only burn the processor.",
    ),
    bound(
        "net/src/listen.rs",
        "LAST_HANDSHAKES",
        "Time for TCP handshakes that have begun when a listener closes",
        "200ms",
        "A round trip of most clients.",
    ),
    bound(
        "wire/src/hello_records.rs",
        "MAX_HELLO_BYTES",
        "ClientHello of a connection that is passed through",
        "16KiB",
        "Post-quantum key shares need 2 KiB.",
    ),
    bound(
        "wire/src/hello_records.rs",
        "MAX_RECORD_BYTES",
        "TLS record with a ClientHello",
        "16KiB",
        "RFC 8446, section 5.1.",
    ),
    bound(
        "wire/src/client_hello.rs",
        "MAX_SERVER_NAME_BYTES",
        "Server name (SNI)",
        "255 bytes",
        "The longest name that DNS has.",
    ),
    bound("wire/src/client_hello.rs", "MAX_SESSION_ID_BYTES", "Session id", "32 bytes", "RFC 8446, section 4.1.2."),
    bound(
        "wire/src/proxy_protocol.rs",
        "MAX_HEADER_BYTES",
        "PROXY header, version 2",
        "16KiB",
        "Client certificates in TLVs need a few KiB.",
    ),
    bound(
        "wire/src/proxy_protocol/v1.rs",
        "MAX_LINE_BYTES",
        "PROXY header, version 1",
        "107 bytes",
        "The longest line that the specification has.",
    ),
    bound(
        "wire/src/proxy_protocol/tlv.rs",
        "MAX_UNIQUE_ID_BYTES",
        "Unique id in a PROXY header",
        "128 bytes",
        "The specification.",
    ),
    bound(
        "proxy/src/client/forwarded.rs",
        "MAX_HOPS",
        "Trusted proxies in front, by forwarding fields",
        "32",
        "With more in front the client counts as unknown.",
    ),
    bound(
        "proxy/src/host_map.rs",
        "MAX_HOST_BYTES",
        "Host that is looked up among patterns",
        "253 bytes",
        "The longest name that DNS has.",
    ),
];

const TUNNELS: &[FixedBound] = &[
    bound(
        "net/src/splice.rs",
        "PIPE_BYTES",
        "Bytes in a pipe between two plain sockets",
        "256KiB",
        "The most that waits in one direction of a tunnel.",
    ),
    bound(
        "net/src/chunk.rs",
        "CHUNK_BYTES",
        "Receive buffer",
        "32KiB",
        "The most that waits in one direction otherwise; also the largest header.",
    ),
    bound(
        "proxy/src/delivery.rs",
        "PATIENCE",
        "Time for a client whose tunnel is rejected to receive what was sent",
        "2s",
        "Then the connection is reset. Other ends of a tunnel wait until what was sent has arrived, under its idle timeout and lifetime.",
    ),
    bound(
        "proxy/src/pump.rs",
        "BROKEN_CLIENT_WAIT",
        "Time for which a server may take nothing of what a client sent before its connection was reset",
        "2s",
        "Nobody waits for it any more.",
    ),
    bound(
        "proxy/src/pump.rs",
        "MOST_DROPPED",
        "Bytes read and discarded of a side of a tunnel whose other side is gone",
        "1MiB",
        "It may read nothing while it cannot write.",
    ),
    bound(
        "proxy/src/http/upgraded.rs",
        "FINISHED_CLIENT_WAIT",
        "Time for which a server may take nothing of a WebSocket whose client has finished sending",
        "10s",
        "Such a client has nearly always left. With `half_close: serve`, and in other tunnels, it may be waiting for a response.",
    ),
    bound(
        "proxy/src/loop_guard.rs",
        "MAX_HOPS",
        "Own listeners that a connection passes one after another",
        "8",
        "Ends forwarding loops that no file shows.",
    ),
    bound(
        "proxy/src/datagram.rs",
        "PIECES_PER_TURN",
        "Batches of one flow in a turn",
        "16",
        "Other flows get their turn.",
    ),
    bound(
        "proxy/src/datagram.rs",
        "QUIET_AT_CLOSE",
        "Time without a datagram after which flows end when their listener closes",
        "1s",
        "Busy flows go on unless the process stops.",
    ),
    bound(
        "proxy/src/datagram.rs",
        "QUIET_AFTER_HANDOVER",
        "Time without a datagram after which flows end when another process has taken over their listener",
        "10s",
        "What is still to come are responses.",
    ),
    bound(
        "proxy/src/datagram.rs",
        "PAUSE",
        "Pause after the kernel had no memory for datagrams",
        "20ms",
        "Trying at once would only burn the processor.",
    ),
];

const UPSTREAMS: &[FixedBound] = &[
    bound(
        "proxy/src/upstream/pool.rs",
        "STREAMS_PER_CONNECTION",
        "Concurrent streams on a connection to an HTTP/2 upstream",
        "100",
        "What common servers allow; a lower limit of the server counts.",
    ),
    bound(
        "proxy/src/upstream/h2.rs",
        "STREAM_WINDOW",
        "First flow-control window of a stream",
        "64KiB",
        "What an upstream may send ahead of the client on one stream. It grows with what clients take in a round trip, up to a sixteenth of `max_receive_window`.",
    ),
    bound(
        "proxy/src/upstream/h2.rs",
        "CONNECTION_WINDOW",
        "First flow-control window of a connection",
        "6400KiB",
        "That of all its streams, and always a hundred times as much: a client that does not read takes nothing from others.",
    ),
    bound(
        "proxy/src/upstream/h2.rs",
        "SMALL_FRAMES",
        "Bookkeeping of small DATA frames that wait",
        "64MiB",
        "A full window of small messages on several streams.",
    ),
    bound(
        "proxy/src/background/health/probe.rs",
        "BODY_BYTES",
        "Body of a response to a health check",
        "64KiB",
        "What is behind is not read.",
    ),
    bound(
        "proxy/src/background/health/probe.rs",
        "SAID_BYTES",
        "Response to what a health check sends on a connection",
        "16KiB",
        "Enough for the state of a database or a greeting.",
    ),
    bound(
        "proxy/src/background/health/probe.rs",
        "DATAGRAM_BYTES",
        "Response to the datagram of a health check",
        "64KiB",
        "No datagram is longer.",
    ),
    bound(
        "proxy/src/background/health/probe.rs",
        "MESSAGE_BYTES",
        "Response to a health check of gRPC",
        "1024 bytes",
        "A right one has seven.",
    ),
    bound(
        "proxy/src/upstream/resolve.rs",
        "MOST_HOSTS",
        "Hosts used of the SRV records of one name",
        "64",
        "A name server cannot have us ask it without end.",
    ),
    bound(
        "proxy/src/upstream/resolve.rs",
        "MOST_ADDRESSES",
        "Addresses of one name",
        "64",
        "Each is a server with health checks and pools of its own.",
    ),
    bound(
        "proxy/src/upstream/resolve.rs",
        "SHORTEST",
        "Shortest TTL of an address",
        "1s",
        "A name server cannot make names be resolved all the time.",
    ),
    bound(
        "proxy/src/upstream/resolve.rs",
        "LONGEST",
        "Longest TTL of an address",
        "300s",
        "A name server cannot keep an address in use for ever.",
    ),
    bound(
        "proxy/src/upstream/resolve.rs",
        "FIRST_RETRY",
        "Pause after a failed resolution",
        "2s",
        "It doubles with each further failure.",
    ),
    bound(
        "proxy/src/upstream/resolve.rs",
        "LONGEST_RETRY",
        "Longest pause between failed resolutions",
        "10s",
        "A name server that is back is noticed.",
    ),
    bound(
        "proxy/src/upstream/operated.rs",
        "ABSENT",
        "What an operator says of a server that DNS no longer names",
        "3600s",
        "The address may be another machine's by then.",
    ),
    bound(
        "proxy/src/upstream/mod.rs",
        "RETRY_RESERVE",
        "Retries beyond the budget",
        "10",
        "A group with little traffic can retry at all.",
    ),
    bound(
        "proxy/src/upstream/balance.rs",
        "LONGEST_TURN",
        "Places in the round of `round_robin`",
        "4096",
        "Weights are scaled down to it.",
    ),
    bound(
        "proxy/src/exchange/upstream_h1.rs",
        "SLOW_CONNECT",
        "Time to connect after which a client that gave up counts as a failure of the server",
        "1s",
        "Impatient clients do not keep a dead server in use.",
    ),
    bound(
        "proxy/src/exchange/upstream_h2.rs",
        "CONNECTIONS_OVER",
        "Connections in a row that turn out to be closed before it counts as a failure",
        "2",
        "A server that restarts closes all of them.",
    ),
    bound(
        "proxy/src/exchange/relay.rs",
        "JOINED_BYTES",
        "Small pieces of a body that are joined",
        "16KiB",
        "What a peer cuts into pieces goes on in few writes.",
    ),
    bound(
        "proxy/src/auth/keys.rs",
        "MAX_KEYS_BYTES",
        "Key set from a URL or file",
        "1MiB",
        "Real ones have a few KiB.",
    ),
    bound("proxy/src/auth/introspection.rs", "MAX_RESPONSE_BYTES", "Response to a lookup", "16KiB", "They are small."),
    bound("proxy/src/auth/introspection.rs", "MAX_SCOPE_BYTES", "Scopes looked up", "4KiB", "They are remembered."),
    bound("proxy/src/auth/keys.rs", "MAX_KEYS", "Keys of a key set", "100", "Real ones have a few."),
    bound(
        "proxy/src/background/key_sets.rs",
        "FETCH_TIMEOUT",
        "Time to fetch a key set",
        "10s",
        "The last valid one stays in use.",
    ),
    bound(
        "proxy/src/background/schedule.rs",
        "PAUSE",
        "Pause between fetches that tokens cause which no known key has signed",
        "5s",
        "Tokens cannot make a key set be fetched all the time.",
    ),
];

const KEYS: &[FixedBound] = &[
    bound(
        "wire/src/keyless.rs",
        "MAX_BODY_BYTES",
        "Body of a frame",
        "65535 bytes",
        "The protocol has 16 bits for it.",
    ),
    bound(
        "wire/src/keyless.rs",
        "PADDED_BYTES",
        "Size to which frames are padded",
        "1024 bytes",
        "The length shows nothing of the content.",
    ),
    bound(
        "keyserver/src/policy.rs",
        "MAX_MESSAGE_BYTES",
        "Message to sign with Ed25519",
        "16KiB",
        "Handshakes need some hundred bytes.",
    ),
    bound(
        "keyserver/src/conn.rs",
        "TURN_REQUESTS",
        "Requests of one turn of a connection",
        "64",
        "Other connections get their turn.",
    ),
    bound("keyserver/src/conn.rs", "SLICE", "Time of one turn of a connection", "500us", "The same for costly ones."),
    bound(
        "keyserver/src/conn.rs",
        "INLINE_BUDGET",
        "Time in which a thread that talks to peers signs itself",
        "400us",
        "Handing over costs as much as a signature.",
    ),
    bound(
        "keyserver/src/conn.rs",
        "STALL_PAUSE",
        "First pause of a connection whose work has no place in a queue",
        "2ms",
        "It doubles.",
    ),
    bound("keyserver/src/conn.rs", "MOST_DOUBLINGS", "Doublings of that pause", "5", "64ms at the longest."),
    bound(
        "keyserver/src/conn.rs",
        "RATE_RETRY",
        "Retry time in rejections above `rate_per_second`",
        "100ms",
        "The rate is per second.",
    ),
    bound(
        "keyserver/src/maker.rs",
        "RETRY",
        "Retry time in rejections while another key is being made (`make_keys`)",
        "500ms",
        "One key is made at a time.",
    ),
    bound(
        "keyserver/src/conn.rs",
        "LAST_READS",
        "Reads of what arrived before a shutdown",
        "64",
        "As much as a connection may have outstanding.",
    ),
    bound(
        "keyserver/src/backlog.rs",
        "MAX_DROPPED",
        "Jobs dropped at once",
        "64",
        "The lock of a queue is not held for long.",
    ),
    bound(
        "keyserver/src/backlog.rs",
        "DROPS_PER_JOB",
        "Jobs dropped for each one done",
        "16",
        "Rejecting must not take the processor from signing.",
    ),
    bound(
        "keyserver/src/backlog.rs",
        "MAX_CREDIT",
        "Drops saved up for a spike",
        "8192",
        "The same over a longer time.",
    ),
    bound(
        "keyserver/src/server.rs",
        "ACCEPT_PAUSE",
        "Pause after accept failed for want of descriptors or memory",
        "20ms",
        "Trying at once would only burn the processor.",
    ),
    bound(
        "transport/src/key_failure.rs",
        "LEAST_PAUSE",
        "Shortest pause after BUSY",
        "20ms",
        "What a server says cannot make it be asked at once.",
    ),
    bound(
        "transport/src/key_failure.rs",
        "LONGEST_PAUSE",
        "Longest pause after BUSY",
        "500ms",
        "What a server says cannot make it be avoided.",
    ),
    bound(
        "proxy/src/keyless/failover.rs",
        "MOST_TRIES",
        "Key servers tried for one operation",
        "3",
        "The client of the handshake waits.",
    ),
    bound(
        "proxy/src/keyless/failover.rs",
        "PATIENCE",
        "Time without any reachable key server after which handshakes fail at once",
        "500ms",
        "Waiting handshakes would pile up.",
    ),
    bound(
        "proxy/src/keyless/connection.rs",
        "PONG_TIMEOUT",
        "Time to answer a ping",
        "3s",
        "A dead connection is replaced.",
    ),
    bound(
        "proxy/src/keyless/peer.rs",
        "FIRST_PAUSE",
        "Pause before reconnecting to a key server",
        "25ms",
        "It doubles.",
    ),
    bound(
        "proxy/src/keyless/peer.rs",
        "LONGEST_PAUSE",
        "Longest pause before reconnecting",
        "400ms",
        "A key server that is back is used soon.",
    ),
];

const ASKING_PROXIES: &[FixedBound] = &[
    bound(
        "proxy/src/exchange/validate/messages.rs",
        "BESIDE_BODY_BYTES",
        "One message of `ext_authz` or `ext_proc`, beside the body in it",
        "256KiB",
        "Fields, attributes and metadata of Envoy's.",
    ),
    bound(
        "proxy/src/exchange/validate/schemas.rs",
        "MAX_SCHEMAS",
        "Documents that one request of `protocol: schemas` names",
        "64",
        "Each of them is validated by.",
    ),
];
