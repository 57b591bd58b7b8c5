//! SHA-1 and SHA-256, constant-time comparison, random bytes.
