//! Socket options that no safe wrapper of ours offers. Owns the one call that sets them; decides nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option whose value is an `int`.
pub(crate) fn set_int(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the descriptor is open for as long as it is borrowed, and the pointer is to an `int` of the length given, which the
    // kernel only reads.
    let result =
        unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, std::ptr::from_ref(&value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
