//! The table: every reason code of the program, with whose fault it is, the status, what it means and what to do.
//!
//! `docs/observability.md` is made from it. Side `Sender`: a request's client, or the upstream server of a response, which then is a 502.

use crate::declare::{Facts, Side, reasons};

reasons! {
    "Connections" {
        TooManyConnectionsFromClient "too_many_connections_from_client" Client 0
            "The client has as many connections open as `limits.max_connections_per_client` allows."
            "Raise the limit if many users share that address, or name the proxy in front of them in `trusted_proxies`.";
        ClosedWithoutRequest "closed_without_request" Client 0
            "The client closed the connection before it sent a request."
            "Nothing: browsers open spare connections, and health checks of balancers connect and close.";
        ResetWithoutRequest "reset_without_request" Client 0
            "The client reset the connection before it sent a request."
            "Nothing, unless it is frequent: then look for a balancer or scanner that resets its checks.";
        IdleWithoutRequest "idle_without_request" Client 0
            "The client connected and sent no request within `limits.request_header_timeout`."
            "Nothing, unless it comes from few addresses in great number: then lower `limits.max_connections_per_client`.";
        Drained "drained" Nobody 0
            "The connection had no request when the process began to drain, and was closed."
            "Nothing: the client connects again.";
        Aborted "aborted" Proxy 0
            "It was still under way when `limits.drain_timeout` ended, and was closed."
            "Raise `limits.drain_timeout` if restarts must wait for long requests and tunnels.";
        Panicked "panicked" Proxy 0
            "A defect of the program ended this one connection."
            "Report it with the lines of the diagnostic log of that moment.";
        NoDescriptors "no_descriptors" Proxy 503
            "The process has no file descriptor, or the machine no memory, for one more socket."
            "Raise `LimitNOFILE` of the unit, or lower `limits.max_connections`.";
    }
    "PROXY header from a balancer" {
        ProxyUntrustedPeer "proxy_untrusted_peer" Client 0
            "A peer outside the trust list connected to a listener, or sent a datagram to one, that takes trusted peers only."
            "Add the balancer to the trust list of `proxy_protocol`, or find out who reaches the listener beside it.";
        ProxyHeaderUntrusted "proxy_header_untrusted" Client 0
            "A peer that is not on the trust list sent a PROXY header."
            "Add the balancer to the trust list of `proxy_protocol` if it is yours.";
        ProxyHeaderMissing "proxy_header_missing" Client 0
            "The connection or datagram of a trusted peer has no PROXY header."
            "Switch the header on at the balancer, or let connections without it pass in `proxy_protocol`.";
        ProxyHeaderTimeout "proxy_header_timeout" Client 0
            "The PROXY header was not complete in time."
            "Check that the balancer sends the header before it waits for the server to speak.";
        ProxyHeaderTruncated "proxy_header_truncated" Client 0
            "The connection or datagram ended within its PROXY header."
            "Check the balancer; a datagram that is too large loses its end on the way.";
        ProxyHeaderInvalid "proxy_header_invalid" Client 0
            "The PROXY header is malformed, or is one for datagrams on a stream."
            "`detail` says what is wrong; check the version of the protocol that the balancer sends.";
        ProxyHeaderReset "proxy_header_reset" Client 0
            "The connection was reset before its PROXY header was complete."
            "Nothing, unless it is frequent: then look at the balancer's health check.";
        ClosedWithoutHeader "closed_without_header" Client 0
            "The connection was closed before anything of its PROXY header came."
            "Nothing: health checks of balancers do that.";
        ProxyHeaderNotUdp "proxy_header_not_udp" Client 0
            "The PROXY header of a datagram speaks of a stream."
            "Have the balancer announce UDP in its header.";
        ProxyHeaderClientChanged "proxy_header_client_changed" Client 0
            "A datagram of a known flow names another client than its first one."
            "With several clients on one socket of the balancer, send a header with each datagram and set `header` so.";
    }
    "TLS with clients" {
        TlsSetup "tls_setup" Proxy 0
            "The TLS session could not be made."
            "`detail` says why; most often memory is short.";
        AcmeChallenge "acme_challenge" Nobody 0
            "A certificate authority checked that a name is ours (tls-alpn-01). Such a connection ends with its handshake."
            "Nothing: it is part of an order of a certificate.";
        CertificateMissing "certificate_missing" Proxy 0
            "No certificate is for the name that the client asked for, and there is no default certificate."
            "Add the name to the keystore, or a `default`. If its certificates are ordered, the log says why there is none yet.";
        CertificateNotIssued "certificate_not_issued" Client 0
            "The client asked for a name that has no certificate yet and could have one on demand, and none came."
            "`detail` says why: refused by `ask`, the order failed (the diagnostic log says how), a cap of `on_demand` is reached, or it took longer than `wait`.";
        TlsHandshakeTimeout "tls_handshake_timeout" Client 0
            "The handshake was not complete within the handshake timeout."
            "Nothing if it is rare; else check the path for lost packets, and key servers for slow responses.";
        TlsHandshakeAbandoned "tls_handshake_abandoned" Client 0
            "The client closed the connection during the handshake."
            "Often it rejects the certificate without saying so; test with that client, and look at the chain.";
        TlsHandshakeReset "tls_handshake_reset" Client 0
            "The client reset the connection during the handshake."
            "Nothing if it is rare; else look for a middlebox on the path.";
        TlsInternalError "tls_internal_error" Proxy 0
            "The TLS library failed on our side."
            "`detail` names the library's error; report it if it comes again.";
        TlsHandshakeFailed "tls_handshake_failed" Client 0
            "Client and listener have no version, cipher or signature algorithm in common, or the client broke the protocol."
            "`detail` names the library's reason; old clients need `tls.policy: legacy` or `intermediate`.";
        TlsAlertReceived "tls_alert_received" Client 0
            "The client ended the handshake with an alert."
            "`detail` has its number: 42 to 48 are about our certificate, so check chain, name and validity.";
        TlsRejected "tls_rejected" Client 0
            "The handshake was rejected by the rules of the listener; `detail` has the alert."
            "Alert 112: the name has no certificate and `strict_sni` is set, or there is no name and `require_sni` is set. Add the certificate if the name is yours.";
        ClientCertificateInvalid "client_certificate_invalid" Client 0
            "The client's certificate is missing or does not verify."
            "`detail` says why; check the certificate, its authority, its validity and the revocation list.";
        ClientCertificateNotAllowed "client_certificate_not_allowed" Client 0
            "The client's certificate verifies, and no name in it is on the list of allowed names."
            "Add its name to the list of the rule's client certificates.";
        ClientHelloTooLong "client_hello_too_long" Client 0
            "The ClientHello is longer than what is read to find the tunnel."
            "Nothing: no client of today sends so much.";
        ClientHelloMalformed "client_hello_malformed" Client 0
            "The ClientHello cannot be parsed."
            "Nothing: it is a scanner or a broken client.";
        NotTls "not_tls" Client 0
            "The first bytes on a TLS listener are not TLS."
            "Point clients that speak in the clear to a plain listener.";
        NoTunnelForName "no_tunnel_for_name" Client 0
            "No tunnel rule fits the server name (`detail`), the ALPN and the address of the client, and there is no default upstream."
            "Add a rule for the name or the client, or a default `upstream` to the tunnel.";
        CloseNotifyMissing "close_notify_missing" Sender 0
            "A side closed TLS without close_notify, so its data may be truncated; the other side is reset."
            "Correct the program that closes so, or ignore it if its protocol says where data ends.";
    }
    "Key servers" {
        KeylessUnavailable "keyless_unavailable" KeyServer 0
            "No key server of the group is connected."
            "Check the key servers, the network to them and the client certificate; `portunus_keyless_server_up` shows each.";
        KeylessOverloaded "keyless_overloaded" Proxy 0
            "The worker has as many key operations under way as it may have."
            "Add key servers or raise `max_in_flight` of the key group.";
        KeylessTimeout "keyless_timeout" KeyServer 0
            "The key servers did not respond in time."
            "Look at the queue times of the key server and at the network; then raise the group's timeout.";
        KeylessConnectionLost "keyless_connection_lost" KeyServer 0
            "The connection to the key server broke before the response came."
            "Look at the key server's log of that moment.";
        KeylessBusy "keyless_busy" KeyServer 0
            "Every key server of the group said that it has too much to do."
            "Add key servers or processors; see `portunus_key_server_queue_seconds`.";
        KeylessRejected "keyless_rejected" KeyServer 0
            "The key server rejected the operation; `detail` has its error."
            "`key_not_found`: the key server does not have the key of this certificate, or does not grant it to this edge.";
        KeylessWrongSignature "keyless_wrong_signature" KeyServer 0
            "The key server's signature does not verify with the certificate."
            "Take that key server out of service: its key is not the certificate's.";
        KeylessUnsupportedOperation "keyless_unsupported_operation" Proxy 0
            "The protocol has no operation for what the handshake needs."
            "Use an ECDSA, Ed25519 or RSA key of usual size and a TLS policy of today.";
        FrameTimeout "frame_timeout" Client 0
            "On the key server: an edge sent a part of a frame and then nothing."
            "Check the network between edge and key server.";
        FrameTruncated "frame_truncated" Client 0
            "On the key server: an edge closed the connection within a frame."
            "Nothing if the edge was stopped then; else check the network.";
        FrameMalformed "frame_malformed" Client 0
            "On the key server: an edge sent what is not the protocol."
            "Check that the peer is an edge, and of which version.";
        TooManyConnections "too_many_connections" Proxy 0
            "The key server has as many connections open as `limits.max_connections` allows."
            "Raise the limit, or find the edge that opens so many.";
    }
    "Malformed HTTP messages" {
        AsteriskTarget "asterisk_target" Client 400
            "The target is `*` and the method is not OPTIONS."
            "Correct the client.";
        BackslashInPath "backslash_in_path" Client 400
            "The path holds a backslash, raw or encoded, which some servers read as a slash."
            "Have the client write slashes.";
        BadChunkExtension "bad_chunk_extension" Sender 400
            "An extension behind a chunk size breaks its grammar."
            "Correct the sender; nobody needs chunk extensions.";
        BadChunkSize "bad_chunk_size" Sender 400
            "A chunk does not begin with its size in hexadecimal digits."
            "Correct the sender's chunked coding.";
        BadConnectionOption "bad_connection_option" Sender 400
            "An option in `Connection` is not a token."
            "Correct the sender.";
        BadContentLength "bad_content_length" Sender 400
            "`Content-Length` is not a number of at most 18 digits."
            "Correct the sender.";
        BadFieldName "bad_field_name" Sender 400
            "The name of a header holds a character that no name has."
            "Correct the sender.";
        BadHost "bad_host" Sender 400
            "The host is neither a name nor an address, or holds user information."
            "Correct the URL that the client was given.";
        BadLineEnd "bad_line_end" Sender 400
            "A line does not end where it must."
            "Correct the sender; it may speak another protocol.";
        BadMethod "bad_method" Client 400
            "The method is not a token, or not of capital letters where `methods: capitals` is set."
            "Correct the client; it may speak TLS or another protocol on a plain listener.";
        MethodInOtherCase "method_in_other_case" Client 400
            "The method is a known one in another case, such as `post`: methods are case-sensitive, but not to every server."
            "Have the client write it in capitals.";
        BadPathByte "bad_path_byte" Client 400
            "The path holds a space, a control or another byte that no path has."
            "Have the client percent-encode it.";
        BadPercentEncoding "bad_percent_encoding" Client 400
            "A `%` in the path is not followed by two hexadecimal digits."
            "Have the client write `%25` for a percent sign.";
        BadPort "bad_port" Sender 400
            "The port of the host is not a number from 1 to 65535."
            "Correct the URL that the client was given.";
        BadQueryByte "bad_query_byte" Client 400
            "The query holds a space, a control or `#`."
            "Have the client percent-encode it.";
        BadScheme "bad_scheme" Client 400
            "The scheme of an HTTP/2 or HTTP/3 request is neither http nor https."
            "Correct the client.";
        BadStatus "bad_status" Sender 502
            "The status of a response is not a number from 100 to 599."
            "Correct the upstream server.";
        BadStatusLine "bad_status_line" Upstream 502
            "The status line of a response cannot be parsed."
            "Correct the upstream server; it may speak another protocol than HTTP/1.";
        BadTarget "bad_target" Client 400
            "The request target is neither a path nor an http or https URL."
            "Correct the client.";
        BadTargetByte "bad_target_byte" Client 400
            "The request target holds a control or another byte that no target has."
            "Have the client percent-encode it.";
        BadTransferEncoding "bad_transfer_encoding" Sender 400
            "`Transfer-Encoding` is not a clean list that ends in one `chunked`."
            "Correct the sender; request smuggling looks like this.";
        BadUpgrade "bad_upgrade" Sender 400
            "`Upgrade` is empty or does not name a protocol."
            "Correct the sender.";
        BadVersion "bad_version" Sender 400
            "The start line has no HTTP version where it must be."
            "Correct the sender; it may speak another protocol.";
        BareCr "bare_cr" Sender 400
            "A CR stands without its LF."
            "Correct the sender; request smuggling looks like this.";
        BareLf "bare_lf" Sender 400
            "A line ends in LF without CR."
            "Have the sender end lines with CR LF; hand-written scripts often do not.";
        ChunkExtensionsTooLong "chunk_extensions_too_long" Sender 400
            "The body has more than 4 KiB of chunk extensions."
            "Correct the sender; it is an attack if it is not a defect.";
        ChunkLongerThanItsSize "chunk_longer_than_its_size" Sender 400
            "A chunk does not end where its size says."
            "Correct the sender's chunked coding.";
        ChunkSizeTooLong "chunk_size_too_long" Sender 400
            "A chunk size has more than 16 digits."
            "Correct the sender.";
        ConnectWithoutPort "connect_without_port" Client 400
            "CONNECT names no port."
            "Nothing: CONNECT is never served; the client takes us for a forward proxy.";
        ControlInChunkExtension "control_in_chunk_extension" Sender 400
            "A chunk extension holds a control character."
            "Correct the sender.";
        ControlInFieldValue "control_in_field_value" Sender 400
            "The value of a header holds a control character."
            "Correct the sender.";
        DotSegment "dot_segment" Client 400
            "The path holds `.` or `..` as a segment, raw or encoded."
            "Nothing: clients resolve these themselves; path traversal looks like this.";
        DoubleEncoding "double_encoding" Client 400
            "The path encodes twice what is never encoded, such as a letter or a control."
            "Have the client encode once.";
        DuplicateContentLength "duplicate_content_length" Sender 400
            "There is more than one `Content-Length`."
            "Correct the sender; request smuggling looks like this.";
        DuplicateAuthorization "duplicate_authorization" Client 400
            "There are several Authorization fields: one server takes the first, another one the last."
            "Correct the client.";
        DuplicateExpect "duplicate_expect" Client 400
            "There is more than one `Expect`."
            "Correct the client.";
        DuplicateHost "duplicate_host" Client 400
            "There is more than one `Host`."
            "Correct the client or the proxy in front; request smuggling looks like this.";
        DuplicateTransferEncoding "duplicate_transfer_encoding" Sender 400
            "There is more than one `Transfer-Encoding`."
            "Correct the sender; request smuggling looks like this.";
        EmptyFieldName "empty_field_name" Sender 400
            "A header has no name before its colon."
            "Correct the sender.";
        EmptyTarget "empty_target" Client 400
            "The request line has no target."
            "Correct the client.";
        EncodedControlInPath "encoded_control_in_path" Client 400
            "The path holds an encoded control character, such as `%00`."
            "Nothing: scanners send these. Else correct the client.";
        ExpectationWithoutBody "expectation_without_body" Client 417
            "The request expects `100-continue` and has no body."
            "Correct the client.";
        FieldNameTooLong "field_name_too_long" Sender 431
            "The name of a header is longer than 65535 bytes."
            "Correct the sender.";
        FieldWithoutColon "field_without_colon" Sender 400
            "A header line has no colon."
            "Correct the sender.";
        FoldedField "folded_field" Sender 400
            "A header goes on in the next line (obs-fold), or blanks stand before the first one."
            "Have the sender write each header in one line.";
        ForbiddenTrailer "forbidden_trailer" Sender 400
            "A trailer has a name that only a head may have, such as `Content-Length`."
            "Correct the sender.";
        HeadTooLarge "head_too_large" Sender 431
            "The head is larger than `limits.max_header_bytes`."
            "Most often cookies have grown; have the application drop them, or raise the limit.";
        HostMismatch "host_mismatch" Client 400
            "`Host` and `:authority` of an HTTP/2 or HTTP/3 request differ."
            "Correct the client.";
        LengthAndTransferEncoding "length_and_transfer_encoding" Sender 400
            "There are both `Content-Length` and `Transfer-Encoding`."
            "Correct the sender; request smuggling looks like this.";
        MalformedMessage "malformed_message" Client 0
            "An HTTP/2 or HTTP/3 request is malformed: a fragment (`#`) in its path, or over HTTP/3 pseudo-headers that are doubled, missing or out of place, or a header about the connection; its stream is reset."
            "Correct the client.";
        MethodTooLong "method_too_long" Client 400
            "The method is longer than any method is."
            "Nothing: it is a scanner or another protocol.";
        MissingAuthority "missing_authority" Client 400
            "An HTTP/2 or HTTP/3 request has neither `:authority` nor one `Host`."
            "Correct the client.";
        MissingHost "missing_host" Client 400
            "An HTTP/1.1 request has no `Host`."
            "Have the client send it; health checks written by hand often do not.";
        MissingVersion "missing_version" Client 400
            "The request line has no version, as in HTTP/0.9."
            "Correct the client.";
        PathNotAbsolute "path_not_absolute" Client 400
            "The path does not begin with a slash."
            "Correct the client.";
        PathNotUtf8 "path_not_utf8" Client 400
            "The path, decoded, is not UTF-8."
            "Have the client encode paths as UTF-8.";
        PseudoFieldInTrailers "pseudo_field_in_trailers" Sender 0
            "The trailers of an HTTP/2 or HTTP/3 message hold a pseudo-header; its stream is reset."
            "Correct the sender.";
        RequestLineTooLong "request_line_too_long" Client 414
            "The request line is longer than `limits.max_request_line`."
            "Raise the limit if your URLs are that long; better, send the data in a body.";
        SpaceAroundFieldValue "space_around_field_value" Client 0
            "The value of an HTTP/2 or HTTP/3 header begins or ends with a blank; its stream is reset."
            "Correct the client.";
        SpaceBeforeColon "space_before_colon" Sender 400
            "There is a blank between the name of a header and its colon."
            "Correct the sender; request smuggling looks like this.";
        StatusLineTooLong "status_line_too_long" Upstream 502
            "The status line of a response is longer than `limits.max_request_line`."
            "Correct the upstream server.";
        StreamDependsOnItself "stream_depends_on_itself" Client 0
            "The priority of an HTTP/2 stream names the stream itself; it is reset."
            "Correct the client.";
        TooManyFields "too_many_fields" Sender 431
            "There are more headers than `limits.max_headers`."
            "Raise the limit if the sender is honest.";
        TooManyTrailers "too_many_trailers" Sender 431
            "There are more than 32 trailers."
            "Correct the sender.";
        TrailersTooLarge "trailers_too_large" Sender 431
            "The trailers are larger than 8 KiB, on HTTP/2 and HTTP/3 than `limits.max_header_bytes`."
            "Correct the sender.";
        TransferEncodingInHttp10 "transfer_encoding_in_http_1_0" Sender 400
            "An HTTP/1.0 message has a `Transfer-Encoding`."
            "Have the sender speak HTTP/1.1.";
        UnderscoreInFieldName "underscore_in_field_name" Client 400
            "The name of a header holds an underscore, which CGI and others take for a hyphen: it would be a field of the framing or the connection, another spelling of a field that a contract declares stands beside it, or `headers.unusual_names` rejects it."
            "Have the client write a hyphen.";
        UnknownExpectation "unknown_expectation" Client 417
            "`Expect` is not `100-continue`."
            "Correct the client.";
        UnknownTransferCoding "unknown_transfer_coding" Client 501
            "The request has a transfer coding other than `chunked`."
            "Have the client use `Content-Encoding` for compression.";
        UnusualFieldName "unusual_field_name" Client 400
            "As `underscore_in_field_name`, with another character than letters, digits, hyphens and underscores; or another proxy asked about a request with a field that would be removed here."
            "Have the client write a hyphen.";
        UnsupportedVersion "unsupported_version" Sender 505
            "The message is neither HTTP/1.0 nor HTTP/1.1."
            "Correct the sender; it may speak another protocol.";
    }
    "Requests from clients" {
        RequestHeaderTimeout "request_header_timeout" Client 408
            "The head of the request was not complete within `limits.request_header_timeout`."
            "Nothing: slow clients and slow attacks look like this.";
        RequestHeaderTruncated "request_header_truncated" Client 0
            "The client left within the head of a request."
            "Nothing.";
        RequestHeadTooLarge "request_head_too_large" Client 431
            "The head of the request does not fit `limits.max_header_bytes`."
            "Most often cookies have grown; have the application drop them, or raise the limit.";
        RequestBodyTimeout "request_body_timeout" Client 408
            "The body stopped for longer than `limits.client_idle_timeout`, or came slower than `limits.min_body_rate`."
            "Lower `limits.min_body_rate` if your clients are on slow lines; else nothing, slow attacks look like this.";
        RequestTruncated "request_truncated" Client 0
            "The client left within the body of a request, or sent another length than it said."
            "Nothing if it is rare: users cancel uploads.";
        BodyTooLarge "body_too_large" Client 413
            "The body of the request is larger than `max_body` of its route or contract allows."
            "Raise `max_body`, if such bodies are wanted.";
        ClientDisconnected "client_disconnected" Client 0
            "The client closed or reset its connection or stream before it had the whole response."
            "Nothing if it is rare: users leave pages. If it follows long durations, the upstream is too slow for them.";
        ClientWriteTimeout "client_write_timeout" Client 0
            "The client took nothing of what was sent to it for too long, or took it slower than `limits.min_body_rate`."
            "Lower `limits.min_body_rate` if your clients are on slow lines.";
        StreamIdleTimeout "stream_idle_timeout" Client 0
            "Nothing moved either way for longer than the idle timeout, while both sides could have sent."
            "Raise `idle_timeout` of the upstream for long-lived streams, or have them send keep-alives.";
        Http2PrefaceInvalid "http2_preface_invalid" Client 0
            "The connection begins like HTTP/2 and does not go on so."
            "Nothing: it is a scanner or a broken client.";
        Http2ProtocolError "http2_protocol_error" Client 0
            "The client broke HTTP/2 before its first request."
            "Nothing, unless one client does it always: then report it to its authors.";
        Http3ProtocolError "http3_protocol_error" Client 0
            "The client broke HTTP/3, or QUIC under it, before its first request."
            "Nothing, unless one client does it always: then report it to its authors.";
        Http3Flood "http3_flood" Client 0
            "The client made the connection work without getting anything done: resets, empty frames, rejected requests."
            "Nothing: it is an attack or a defect of the client.";
        Http2Flood "http2_flood" Client 0
            "The client made the connection work without getting anything done: resets, empty frames, rejected requests."
            "Nothing: it is an attack or a defect of the client.";
    }
    "Routing" {
        UnknownHost "unknown_host" Client 404
            "No route is for the host of the request; a front door may answer 403."
            "Add a route for the host, or see who uses the name: scanners come by address.";
        NoRoute "no_route" Client 404
            "The host is known, and no route of it fits the path, method and headers."
            "Add a route, or `path: /{*rest}` for the rest.";
        MethodNotAllowed "method_not_allowed" Client 405
            "Routes fit the path under other methods; `Allow` names them."
            "Add the method to `methods` of the route.";
        MethodNeverAllowed "method_never_allowed" Client 405
            "CONNECT and TRACE never pass, whatever the routes say."
            "Nothing.";
        ConnectProtocolUnknown "connect_protocol_unknown" Client 501
            "An extended CONNECT over HTTP/2 or HTTP/3 asks for another protocol than `websocket`."
            "Nothing: no other protocol is announced.";
        WebsocketNotOffered "websocket_not_offered" Client 501
            "The client asked for a WebSocket over HTTP/2 or HTTP/3, and there is none: the route has no `websocket` in `upgrades` or does not forward to an HTTP/1.1 upstream, its contract does not declare the response 101, or the server responded 2xx without switching protocols."
            "If it should be one, look at the route, its contract and the server; else nothing.";
        EncodedSlash "encoded_slash" Client 400
            "The path holds an encoded slash (`%2F`), which servers read in two ways."
            "Set `allow_encoded_slash` on the route, or in `paths` for all routes, if the upstream expects them.";
        AmbiguousPath "ambiguous_path" Client 400
            "Some servers would read the path as that of another route or operation: escapes that they decode, empty segments, `;` parameters."
            "Correct the client, or set `allow_ambiguous_path` on the route if the upstream reads paths literally.";
        BadParameter "bad_parameter" Client 400
            "A parameter of the path cannot stand where the route's rewrite or upstream puts it."
            "Nothing: it guards against requests to hosts of the client's choice. Else widen `allow` of the route.";
        HttpsWithoutTls "https_without_tls" Client 421
            "The request asks for an https URL over a connection without TLS."
            "Name the proxy that terminates TLS in `trusted_proxies`; else correct the client.";
        ListenerRemoved "listener_removed" Client 421
            "The listener of this connection was removed by a reload."
            "Nothing: the client connects again.";
        TlsPolicyMismatch "tls_policy_mismatch" Client 421
            "The connection was made under other TLS rules than those of the requested host."
            "Nothing: browsers connect again. Clients that do not should use one connection per host.";
        NoHttpsUrl "no_https_url" Client 400
            "The request cannot be redirected to https, since it names no host."
            "Nothing: it is a scanner or a check by hand.";
        UnknownUpstream "unknown_upstream" Proxy 502
            "The upstream of the route does not exist."
            "Report it: `portunus check` should have found it.";
        BadRequestForHttp2 "bad_request_for_http2" Client 400
            "The request cannot be written as HTTP/2, which the upstream speaks."
            "Correct the client, or set `protocol: http1` for the upstream.";
    }
    "Access rules and tokens" {
        AddressNotAllowed "address_not_allowed" Client 403
            "The address of the client is not on the list of allowed addresses, or on one of denied addresses."
            "If it should be let in, correct the list that `policy` or `route` of the log line names; behind a balancer, check that `trusted_proxies` names it.";
        RateLimited "rate_limited" Client 429
            "The client, or whatever else the policy counts apart, sends requests faster than `rate_limit` of a policy allows."
            "`policy` of the log line names the policy; raise its `rate` or `burst`, or count by another `key` if many users share an address.";
        ConcurrencyLimited "concurrency_limited" Client 429
            "The client, or whatever else the policy counts apart, has as many requests, tunnels or flows under way as `concurrency_limit` of a policy allows."
            "`policy` of the log line names the policy; raise its `max_in_flight`, or count by another `key` if many users share an address.";
        OverallConcurrencyLimited "overall_concurrency_limited" Proxy 503
            "As many requests, tunnels or flows are under way on the route, or in all, as `concurrency_limit` of a policy allows that does not count by client."
            "`policy` of the log line names the policy; raise its `max_in_flight` if the servers can take more.";
        BandwidthLimited "bandwidth_limited" Client 0
            "The client, or whatever else the policy counts apart, moves more bytes than `bandwidth_limit` of a policy allows: what is more has waited, or was dropped if it is a datagram."
            "Nothing, if that is meant; else raise `download` or `upload` of the policy, or count by another `key`.";
        Maintenance "maintenance" Proxy 503
            "The file of a maintenance switch exists (`maintenance` of a policy)."
            "Remove the file when the maintenance is over.";
        CredentialsMissing "credentials_missing" Client 401
            "The request shows no credentials, and a policy demands them."
            "Nothing: the client shows them when it is asked. To let requests without them pass, say `allow_missing: true`.";
        CredentialsMalformed "credentials_malformed" Client 401
            "`Authorization` is there twice, or is no user name and password in the scheme Basic."
            "Correct the client.";
        PasswordWrong "password_wrong" Client 401
            "The user does not exist, or the password is another one."
            "Nothing if it is rare; a `rate_limit` named before the policy bounds guesses.";
        PasswordCheckBusy "password_check_busy" Proxy 503
            "So many passwords are to be compared, or so many of this client, that this one has no turn. Users whose password is known already are not concerned."
            "Look in the access log for who sends so many passwords, and limit their rate.";
        AuthServiceDenied "auth_service_denied" Client 403
            "The authentication service did not let the request pass; the client got its response, whose status is the one in the log."
            "Nothing: clients sign in, or lack the right. The logs of the service say why.";
        AuthServiceInvalid "auth_service_invalid" Upstream 502
            "The authentication service responded with neither 2xx, 401, 403 nor a redirect, too much, or with fields that cannot be forwarded."
            "The diagnostic log says what came (`authentication service`); check `path` and `upstream` of `forward_auth`.";
        AuthServiceUnavailable "auth_service_unavailable" Upstream 503
            "The authentication service could not be reached, or its connection ended without a response."
            "Look at the service and its health checks. Nobody gets in while it is away.";
        AuthServiceTimeout "auth_service_timeout" Upstream 503
            "The authentication service did not respond within `forward_auth.timeout`."
            "Look at the service, or raise the timeout.";
        CorsNotAllowed "cors_not_allowed" Client 403
            "A page of another origin asks with a preflight for an origin, method or header field that `cors` of a policy does not allow."
            "Add it to `origins`, `methods` or `headers` if the page is yours.";
        TokenDenied "token_denied" Client 403
            "The token of the request is on the list of denied tokens."
            "Nothing: it was put there.";
        JwtMalformed "jwt_malformed" Client 401
            "The token is not a signed JSON Web Token in compact form."
            "Correct the client; opaque tokens are looked up with `introspection`.";
        JwtTooLong "jwt_too_long" Client 401
            "The token is longer than 16 KiB."
            "Have the issuer put less into it.";
        JwtCriticalHeader "jwt_critical_header" Client 401
            "The token demands an extension (`crit`, `b64`) that is not supported."
            "Have the issuer leave it out.";
        JwtAlgorithm "jwt_algorithm" Client 401
            "The token's algorithm is not on the list of the configuration."
            "Add it to the list of algorithms if your issuer uses it.";
        JwtNoKeys "jwt_no_keys" Proxy 503
            "No key set could be loaded yet, so that no token can be checked."
            "See the diagnostic log for why the key set cannot be fetched.";
        JwtSignature "jwt_signature" Client 401
            "The token's signature does not verify."
            "Nothing if it is rare; else check that the key set is that of the issuer.";
        JwtUnknownKey "jwt_unknown_key" Client 401
            "No key of the set has the token's `kid` and algorithm."
            "Check that the key set is that of the issuer; a new key is fetched by itself.";
        JwtExpired "jwt_expired" Client 401
            "The token's `exp` has passed."
            "Nothing: the client gets a new token. If all fail, check the clocks.";
        JwtNoExpiry "jwt_no_expiry" Client 401
            "The token has no `exp`, and the configuration demands one."
            "Have the issuer set it.";
        JwtNotYetValid "jwt_not_yet_valid" Client 401
            "The token's `nbf` or `iat` is in the future."
            "Check the clocks, or raise the leeway.";
        JwtIssuer "jwt_issuer" Client 401
            "The token's `iss` is not on the list of issuers."
            "Add the issuer to the list, or correct the client's configuration.";
        JwtAudience "jwt_audience" Client 401
            "The token's `aud` names none of the audiences."
            "Add the audience to the list, or have the client ask for a token for this API.";
        TokenInactive "token_inactive" Client 401
            "The introspection server says that the token is not active: it is unknown, expired or revoked."
            "Nothing: the client gets a new token. If all fail, check that the server is that of the issuer.";
        IntrospectionFailed "introspection_failed" Upstream 503
            "The introspection server could not be reached, or did not say whether the token is active."
            "The diagnostic log says what went wrong (`token not looked up`); check URL, `client_id` and secret.";
        IntrospectionTimeout "introspection_timeout" Upstream 503
            "The introspection server did not respond within `timeout`."
            "Look at the server, or raise the timeout.";
        IntrospectionBusy "introspection_busy" Proxy 503
            "Too many tokens are looked up at once, so that this one had no turn within `timeout`."
            "Raise `max_concurrent_lookups` if the server can take it; the access log says who sends so many tokens.";
        JwtScope "jwt_scope" Client 403
            "The token is genuine and lacks a scope that the operation or a policy demands."
            "Grant the scope to the client.";
        JwtClaim "jwt_claim" Client 403
            "The token is genuine, and a claim that a policy demands is missing or has another value, or one that is forwarded cannot be a field."
            "Give the client the claim, or correct `claims` or `set` of the policy.";
    }
    "API contracts" {
        PathUndeclared "path_undeclared" Client 404
            "The API document does not have the path."
            "Add it to the document, or see `GET /shadow` for what else is asked for.";
        MethodUndeclared "method_undeclared" Client 405
            "The API document has the path, and not this method."
            "Add it to the document; for CORS preflights see `allow_options`.";
        ContractDocumentMissing "contract_document_missing" Proxy 503
            "The API document comes from a URL and could not be fetched yet, so that no request can be validated."
            "The diagnostic log says why it cannot be fetched.";
        ValidationMemory "validation_memory" Proxy 503
            "There is no memory to hold this body for its validation."
            "Raise `limits.max_validation_memory`, or allow smaller bodies.";
        ValidatorPanic "validator_panic" Proxy 500
            "A defect of the validator; nothing is known of the message, so it is rejected."
            "Report it with the API document.";
        OperationRuleMissing "operation_rule_missing" Proxy 500
            "A defect of the program: an operation of the document has no rule."
            "Report it with the API document.";
        ValidationBuffersMissing "validation_buffers_missing" Proxy 500
            "A defect of the program: there are no buffers for the validator."
            "Report it.";
    }
    "Validation for other proxies" {
        OriginalRequestMissing "original_request_missing" Client 400
            "The proxy that asks did not say which request it asks about."
            "Configure it as docs/validate-server.md has it; with nginx, set `X-Original-Method` and `X-Original-URI`.";
        OriginalRequestMalformed "original_request_malformed" Client 400
            "What the proxy that asks says of the request cannot be read, or says two things."
            "Check that it replaces the fields in which it says so where clients send them, and that nothing else connects to this listener.";
        OriginalBodyPartial "original_body_partial" Client 413
            "The proxy that asks does not show the whole body of the request."
            "In Envoy, raise max_request_bytes of the filter ext_authz; set request_body_mode of the filter ext_proc to BUFFERED.";
        MethodOverride "method_override" Client 400
            "A request that another proxy holds asks its upstream to take it for one of another method, which nobody validated."
            "Have that proxy remove X-HTTP-Method-Override, X-HTTP-Method and X-Method-Override before it asks; `keep_method_override` if the upstream ignores them.";
        UpgradeUndeclared "upgrade_undeclared" Client 400
            "A request asks for another protocol, and the document does not declare the response 101 for its operation. That of another proxy is rejected; our own goes on without `Upgrade`, or with it where nothing is blocked, which is logged."
            "Declare 101 by itself (`default` and `1XX` do not count), or have the other proxy remove Upgrade before it asks.";
        NoContract "no_contract" Proxy 500
            "A proxy asks about a request for whose host there is no contract."
            "Name one on the route with `validate`, on its host or its listener.";
    }
    "Upstream servers" {
        NoHealthyUpstream "no_healthy_upstream" Upstream 503
            "No server of the upstream can be asked: all are ejected, down, or tried already."
            "Look at the servers and at `portunus_upstream_server_up`.";
        UpstreamUnresolved "upstream_unresolved" Upstream 503
            "The names of the upstream's servers have no address."
            "Check the names and the resolver; `portunus_upstream_resolution_failures_total` says why.";
        UpstreamOverflow "upstream_overflow" Proxy 503
            "The upstream has as many requests or tunnels under way as `max_in_flight` or `max_in_flight_per_server` allow, and its queue, if it has one, is full."
            "Add servers, raise the limit if they can take more, or let requests wait in a `queue`.";
        UpstreamQueueTimeout "upstream_queue_timeout" Proxy 503
            "The request waited in the upstream's queue for `queue.timeout`, and no server had room for it."
            "Add servers, or raise `max_in_flight_per_server` if they can take more; `portunus_upstream_queue_length` shows how many wait.";
        TooManyInFlight "too_many_in_flight" Client 429
            "The client has as many requests or tunnels under way at this upstream, or in its queue, as one client may have."
            "Raise the limit per client if many users share that address.";
        UpstreamConnectTimeout "upstream_connect_timeout" Upstream 504
            "The server did not accept the connection within `connect_timeout`."
            "Check that it runs, and for a firewall that drops packets.";
        UpstreamRefused "upstream_refused" Upstream 502
            "The server refused the TCP connection: nothing listens there."
            "Start the server, or correct its port.";
        UpstreamUnreachable "upstream_unreachable" Upstream 502
            "The server cannot be reached: no route, or the connection was reset at once."
            "Check routing and firewalls between here and the server.";
        UpstreamNotPermitted "upstream_not_permitted" Proxy 502
            "The kernel does not permit the connection: a privilege is missing, or a local firewall rule rejects it."
            "`source: client` and `mark` need CAP_NET_ADMIN; use the unit as shipped.";
        UpstreamCertificate "upstream_certificate" Upstream 502
            "The certificate of the server does not verify."
            "Check its validity and names against `tls.server_name` and `tls.ca` of the upstream.";
        UpstreamTls "upstream_tls" Upstream 502
            "The TLS handshake with the server failed."
            "Check that it speaks TLS on that port, with a version and cipher in common.";
        UpstreamTlsReset "upstream_tls_reset" Upstream 502
            "TLS with the server broke before the head of the response."
            "Look at the server's log of that moment.";
        UpstreamHttp2Handshake "upstream_http2_handshake" Upstream 502
            "The server does not speak HTTP/2."
            "Set `protocol: http1` for the upstream, or switch HTTP/2 on at the server.";
        UpstreamHttp2Error "upstream_http2_error" Upstream 502
            "The stream or its HTTP/2 connection to the server failed."
            "Look at the server's log of that moment.";
        UpstreamCancelled "upstream_cancelled" Upstream 502
            "The server cancelled the stream, as gRPC servers do at a deadline."
            "Nothing if the call had a deadline.";
        UpstreamClosed "upstream_closed" Upstream 502
            "The server closed the connection before the head of the response."
            "Look at its log; if it closes idle connections, set `pool_idle_timeout` below its own timeout.";
        UpstreamReset "upstream_reset" Upstream 502
            "The server reset the connection while the request or response was under way."
            "Look at its log of that moment: it may have crashed or been restarted.";
        ResponseHeaderTimeout "response_header_timeout" Upstream 504
            "The head of the response did not come within `response_header_timeout` of the upstream."
            "Find out why the server is slow, or raise that timeout on the upstream or route.";
        ResponseBodyTimeout "response_body_timeout" Upstream 504
            "The server stopped within the body of the response for longer than the idle timeout."
            "Find out why it stops, or raise `idle_timeout` of the upstream.";
        UpstreamTotalTimeout "upstream_total_timeout" Upstream 504
            "The whole exchange with the server took longer than `total_timeout`."
            "Find out why it is slow, or raise `total_timeout` of the upstream.";
        ResponseHeadTooLarge "response_head_too_large" Upstream 502
            "The head of the response is larger than can be held."
            "Have the application send less; most often it sets too many cookies.";
        ResponseMalformed "response_malformed" Upstream 502
            "The response breaks HTTP."
            "Correct the server; `curl -v` straight to it shows what it sends.";
        ResponseTruncated "response_truncated" Upstream 502
            "The server closed the connection within the body of the response."
            "Look at its log of that moment; the client was shown the break, too.";
        TooManyInterimResponses "too_many_interim_responses" Upstream 502
            "The server sent more 1xx responses than `limits.max_interim_responses`."
            "Correct the server.";
        UnexpectedUpgrade "unexpected_upgrade" Upstream 502
            "The server switched to a protocol that the request did not ask for or the route does not allow."
            "Add the protocol to `upgrades` of the route, if it is wanted.";
    }
    "Names of servers" {
        Nxdomain "nxdomain" Upstream 0
            "The resolver says that the name does not exist."
            "Correct the name, or the search list of the machine.";
        NoAddress "no_address" Upstream 0
            "The name exists and has no A or AAAA record."
            "Add one, or correct the name.";
        InnerAddress "inner_address" Upstream 0
            "A name that a request chose leads to an address of this machine or link, and is not used."
            "Nothing: it guards against requests to inner hosts. Else list the host in the route.";
        ResolverTimeout "resolver_timeout" Upstream 0
            "No name server responded in time."
            "Check the name servers of the machine.";
        ServerFailure "server_failure" Upstream 0
            "A name server failed on the question."
            "Look at the log of the name server.";
    }
    "Tunnels" {
        TunnelIdle "tunnel_idle" Nobody 0
            "Nothing was carried either way for the idle timeout of tunnels, and both sides were closed."
            "Raise the idle timeout, or have the application send keep-alives.";
        TunnelLifetime "tunnel_lifetime" Nobody 0
            "The tunnel reached the longest time that a tunnel may last."
            "Raise `max_lifetime` of the tunnel if that is too soon.";
        TunnelClientReset "tunnel_client_reset" Client 0
            "The client reset the tunnel."
            "Nothing if it is rare; many programs end that way.";
        TunnelUpstreamReset "tunnel_upstream_reset" Upstream 0
            "The server reset the tunnel."
            "Look at its log of that moment.";
    }
    "The client's own address as source" {
        SourceIsLoopback "source_is_loopback" Client 0
            "The client claims a loopback address."
            "Nothing: the claim is forged, unless the balancer runs on this machine.";
        SourceIsUnspecified "source_is_unspecified" Client 0
            "The client claims the address 0.0.0.0, `::` or one of network 0."
            "Nothing: the claim is forged.";
        SourceIsMulticast "source_is_multicast" Client 0
            "The client claims a multicast address."
            "Nothing: the claim is forged.";
        SourceIsBroadcast "source_is_broadcast" Client 0
            "The client claims a broadcast or reserved address."
            "Nothing: the claim is forged.";
        SourceIsLinkLocal "source_is_link_local" Client 0
            "The client claims a link-local address, which names no machine without its link."
            "Have the client use an address that can be routed.";
        SourceIsOwnAddress "source_is_own_address" Client 0
            "The client claims an address of this machine."
            "Nothing if it is forged; to test from this machine, allow own addresses in the source settings.";
        NoTargetOfFamily "no_target_of_family" Client 0
            "There is no target of the client's address family (IPv4 or IPv6)."
            "Add a server or target of that family.";
        DestinationNotAllowed "destination_not_allowed" Client 0
            "The destination that the PROXY header names is not on the list, or it names none."
            "Add the destination to the list, or have the balancer send it.";
        ForwardingLoop "forwarding_loop" Client 0
            "The target is where the connection came in, or it has passed too many listeners of ours."
            "Point the tunnel to another address than a listener of ours.";
    }
    "UDP flows" {
        FlowIdle "flow_idle" Nobody 0
            "The flow was idle for its idle timeout."
            "Nothing; raise `idle_timeout` of the listener if clients pause for longer.";
        FlowEvicted "flow_evicted" Nobody 0
            "A newer flow took the place of this one, since `max_flows` or the limit per client was reached."
            "Raise the limits; forged addresses make many flows that are never answered.";
        FlowClosed "flow_closed" Nobody 0
            "The listener was closed by a reload or the end of the process."
            "Nothing.";
        FlowEnded "flow_ended" Proxy 0
            "The flow of a datagram ended at that very moment."
            "Nothing: the next datagram opens a new one.";
        FlowNotOpened "flow_not_opened" Proxy 0
            "No socket could be opened for the flow."
            "The diagnostic log says why; `source: client` and `mark` need CAP_NET_ADMIN.";
        ListenerClosing "listener_closing" Proxy 0
            "The listener is closing and takes no new flows."
            "Nothing.";
    }
}
