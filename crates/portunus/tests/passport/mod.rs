//! Passport: onward from the client's own address, checked in network namespaces with real client addresses and unmodified servers.
//!
//! Needs root and network namespaces, which is where this is used, HAProxy, and nginx with `libnginx-mod-stream`; without them the tests fail rather than skip.

mod batches;
mod http;
mod link_local;
mod other_hosts;
mod routing;
mod site;
mod tcp;
mod udp;
mod vanished;
