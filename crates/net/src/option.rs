//! Socket options that no safe wrapper of ours offers. Owns the calls that set them; decides nothing.

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

/// Has a classic BPF program choose which socket of a group with SO_REUSEPORT gets a datagram: it gives its position, in the order in which they were bound;
/// what is beyond the last leaves the choice to the kernel. Needs no privilege.
pub(crate) fn attach_steering(socket: impl AsFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    let length = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).unwrap_or(0);
    // SAFETY: the descriptor is open for as long as it is borrowed; the structure and the instructions that it points to live for the call, and the kernel
    // copies and checks them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            std::ptr::from_ref(&program).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
