//! Configurations of other programs, imported: the original and ours, side by side, on the same requests. What the client gets and what the upstream sees.
//!
//! Needs `nginx`, `haproxy`, `hitch`, `stunnel4` and `openssl`, Debian packages of these names, which `./x` installs.

mod as_sent;
mod beside;
mod corpus;
mod distribution;
mod elsewhere;
mod encoded_slashes;
mod guards;
mod haproxy;
mod haproxy_checks;
mod haproxy_guards;
mod idioms;
mod ingress;
mod nginx;
mod nginx_compression;
mod nginx_exact;
mod nginx_guarded;
mod nginx_guards;
mod nginx_left_out;
mod nginx_rates;
mod nginx_stream;
mod nginx_urls;
mod packages;
mod prove;
mod published;
mod terminators;
mod unix_sockets;
