//! API contracts in the running program, validated on both sides: what the client got, and what a recording upstream saw.

mod api_mode;
mod bodies;
mod codings;
mod cost;
mod fail_closed;
mod fetched;
mod forwarded;
mod front_door;
mod graphql;
mod graphql_websocket;
mod introspection;
mod lists;
mod other_bodies;
mod reload;
mod readings;
mod requests;
mod responses;
mod samples;
mod shadows;
mod site;
mod switches;
mod tokens;
mod underscored;
mod unsupported;
mod validate;
