//! PKCS#12 containers (RFC 7292).
