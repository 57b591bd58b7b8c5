//! What clients of HTTP/3 can reach.

use super::{FixedBound, bound};

pub(super) const CLIENTS_HTTP_3: &[FixedBound] = &[
    bound(
        "proxy/src/listener/quic.rs",
        "IDLE",
        "Time without a packet",
        "30s",
        "Each connection takes memory, and a client that comes back has a ticket. `keep_alive_timeout` if that is shorter.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "CLIENT_STREAMS",
        "Streams that a client opens for itself",
        "4",
        "Control, two of QPACK, and one for what is not known here. Requests at once: `h2_max_streams`.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "STREAM_WINDOW",
        "Bytes ahead of us on one stream",
        "256KiB",
        "As much as over HTTP/2.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "CONNECTION_WINDOW",
        "Bytes ahead of us on one connection",
        "1MiB",
        "As much as over HTTP/2.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "SEND_BUFFER",
        "Bytes held for one connection",
        "256KiB",
        "Sent and not yet acknowledged, or waiting to be sent.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "HANDSHAKES_BEFORE_RETRY",
        "Handshakes of one worker before clients prove their address",
        "100",
        "Then a Retry is sent, which costs a round trip and no memory.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "RETRY_LIFETIME",
        "Time for which the token of a Retry proves an address",
        "15s",
        "Nobody can collect them for later.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "HANDSHAKES_PER_CLIENT_BEFORE_RETRY",
        "The same of one address (IPv6: of one /64)",
        "25",
        "Others need no proof for what one does.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "MAX_HANDSHAKES",
        "Handshakes of one worker with clients that have proved their address",
        "1000",
        "Then the oldest of whoever has the most ends without a word.",
    ),
    bound(
        "proxy/src/listener/quic.rs",
        "MAX_HANDSHAKES_PER_CLIENT",
        "Those of one client (IPv6: of one /64)",
        "100",
        "Others have room for theirs. Then its oldest ends.",
    ),
    bound(
        "proxy/src/http/h3.rs",
        "FAREWELL",
        "Time from GOAWAY to the last request, and from there to the close of an idle connection",
        "1s",
        "Requests under way to us are still served.",
    ),
    bound(
        "wire/src/http/http3/control.rs",
        "MAX_SETTINGS_BYTES",
        "SETTINGS frame",
        "1KiB",
        "Few settings exist. Then H3_EXCESSIVE_LOAD.",
    ),
];
