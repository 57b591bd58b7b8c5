//! Socket options that no safe wrapper of ours offers. Owns the calls that set them; decides nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Sets an option whose value is an `int`.
pub(crate) fn set_int(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the descriptor is open for as long as it is borrowed, and the pointer is to an `int` of the length given, which the
    // kernel only reads.
    let result =
        unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, std::ptr::from_ref(&value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Questions without an answer before the kernel gives a connection up.
const PROBES: u32 = 4;

/// Most of a pause that the kernel takes, seconds (`MAX_TCP_KEEPIDLE`).
const MAX_SECONDS: u64 = 32_767;

/// Has the kernel ask the peer of a TCP connection whether it is there (RFC 9293 §3.8.4) when nothing has come for `idle`, and then in quarters of that time:
/// one that is gone without a word is noticed after twice `idle`. Connections accepted from a listening socket inherit it. Zero turns it off. In whole seconds.
///
/// # Errors
/// As the kernel says; the socket is no TCP socket.
pub(crate) fn keep_alive(socket: impl AsFd, idle: Duration) -> io::Result<()> {
    let socket = socket.as_fd();
    set_int(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, i32::from(!idle.is_zero()))?;
    if idle.is_zero() {
        return Ok(());
    }
    let seconds = |time: Duration| libc::c_int::try_from(time.as_secs().clamp(1, MAX_SECONDS)).unwrap_or(1);
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(idle))?;
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds(idle / 4))?;
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, PROBES.cast_signed())
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
