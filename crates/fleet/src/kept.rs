//! A small value that all nodes share: in etcd, and sealed as it is there on the disk of each node. What is done with it is `copy`'s business.

use zeroize::Zeroizing;

/// Largest value, bytes. etcd takes 1.5 MiB at once.
pub const MAX_KEPT_BYTES: u64 = 1 << 20;

/// A kind of such values.
pub trait Kept: Sized {
    /// What it is called in the store and on the disk.
    const NAME: &'static str;

    /// Grows with every change.
    fn serial(&self) -> u64;

    /// As bytes.
    fn write(&self) -> Zeroizing<Vec<u8>>;

    /// Reads what was written as one.
    ///
    /// # Errors
    /// See [`Unread`].
    fn read(bytes: &[u8]) -> Result<Self, Unread>;
}

/// Why a value is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It is of a later version of the program.
    Newer,
    /// It breaks its form.
    Invalid,
}
