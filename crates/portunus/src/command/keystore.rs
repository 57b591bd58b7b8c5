//! `portunus keystore`: add, list, remove, export, check.
