//! Names of servers to addresses, again and again.
