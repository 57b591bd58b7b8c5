//! Limits on one listener.

use crate::limits::Limits;
use crate::shape::surface::ListenerLimits;

impl Limits {
    /// These limits, but for what a listener says otherwise.
    pub fn at(&self, own: &ListenerLimits) -> Limits {
        let max_head_bytes = own.max_head_bytes.unwrap_or(self.max_head_bytes);
        Limits {
            handshake_timeout: own.handshake_timeout.unwrap_or(self.handshake_timeout),
            request_header_timeout: own.request_header_timeout.unwrap_or(self.request_header_timeout),
            keep_alive_timeout: own.keep_alive_timeout.unwrap_or(self.keep_alive_timeout),
            client_idle_timeout: own.client_idle_timeout.unwrap_or(self.client_idle_timeout),
            min_body_rate: own.min_body_rate.unwrap_or(self.min_body_rate),
            max_head_bytes,
            max_request_line_bytes: own
                .max_request_line_bytes
                .unwrap_or(self.max_request_line_bytes)
                .min(max_head_bytes),
            max_headers: own.max_headers.unwrap_or(self.max_headers),
            max_body_bytes: own.max_body_bytes.unwrap_or(self.max_body_bytes),
            max_requests_per_connection: own.max_requests_per_connection.unwrap_or(self.max_requests_per_connection),
            keepalive: own.keepalive.unwrap_or(self.keepalive),
            tunnel_idle_timeout: own.tunnel_idle_timeout.unwrap_or(self.tunnel_idle_timeout),
            h2_max_streams: own.h2_max_streams.unwrap_or(self.h2_max_streams),
            ..self.clone()
        }
    }
}
