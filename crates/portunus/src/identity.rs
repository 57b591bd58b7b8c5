//! Which certificate and TLS settings a ClientHello gets: name, then key type. Pure but for the table it reads.
