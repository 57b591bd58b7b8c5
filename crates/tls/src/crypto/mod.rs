//! Certificates, private keys and their containers as values, on AWS-LC's libcrypto: what loading and checking key material needs.

pub mod certificate;
pub mod digest;
pub mod pkcs12;
pub mod private_key;

pub use certificate::Certificate;
pub use private_key::PrivateKey;
