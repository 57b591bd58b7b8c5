//! Which socket of a group gets a datagram of QUIC: a classic BPF program that reads the connection id.
//!
//! Ids of ours are [`ID_BYTES`] long, and their first byte is congruent to the position of a socket modulo the number of sockets. Initial and 0-RTT packets have
//! ids that the client chose: those are left to the kernel, which goes by addresses. Ruled by RFC 9000 §17 and `socket(7)`, SO_ATTACH_REUSEPORT_CBPF.

use std::io;
use std::os::fd::AsFd;

use crate::option::attach_steering;

/// Length of the connection ids that the program reads, bytes.
pub const ID_BYTES: usize = 9;

/// The bit of a first byte that tells long headers from short ones (RFC 8999 §5).
pub const LONG_HEADER: u8 = 0x80;

/// Bits of the first byte of a long header (RFC 9000 §17.2).
const TYPE: u8 = 0x30;
const HANDSHAKE: u8 = 0x20;

/// More sockets than this cannot be told apart by one byte evenly.
const MOST_SOCKETS: usize = 64;

/// What leaves the choice to the kernel: no position.
const NO_POSITION: u32 = u32::MAX;

/// Attaches the program to the group of `socket`, which has `count` sockets.
pub(super) fn attach(socket: impl AsFd, count: usize) -> io::Result<()> {
    let divisor = u32::try_from(count).ok().filter(|_| (1..=MOST_SOCKETS).contains(&count));
    let mut program = program(divisor.ok_or(io::ErrorKind::InvalidInput)?);
    attach_steering(socket, &mut program)
}

/// What the program says of a datagram: the position of one of `count` sockets, or none.
pub fn position_of(datagram: &[u8], count: usize) -> Option<usize> {
    let first = *datagram.first()?;
    let named = if first & LONG_HEADER == 0 {
        datagram.get(1)?
    } else if first & TYPE == HANDSHAKE && datagram.get(5).is_some_and(|length| usize::from(*length) == ID_BYTES) {
        datagram.get(6)?
    } else {
        return None;
    };
    usize::from(*named).checked_rem(count)
}

fn program(divisor: u32) -> [libc::sock_filter; 12] {
    let code = |code: u32| u16::try_from(code).unwrap_or(0);
    let load = |at| one(code(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS), 0, 0, at);
    let equals = |value, otherwise| one(code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), 0, otherwise, value);
    [
        load(0),
        one(code(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K), 2, 0, LONG_HEADER.into()),
        // A short header: the id follows its first byte. On to the division.
        load(1),
        one(code(libc::BPF_JMP | libc::BPF_JA), 0, 0, 5),
        // A long header: first byte, version (4), length of the id, the id.
        one(code(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K), 0, 0, TYPE.into()),
        equals(HANDSHAKE.into(), 5),
        load(5),
        equals(ID_BYTES as u32, 3),
        load(6),
        one(code(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K), 0, 0, divisor),
        one(code(libc::BPF_RET | libc::BPF_A), 0, 0, 0),
        one(code(libc::BPF_RET | libc::BPF_K), 0, 0, NO_POSITION),
    ]
}

fn one(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}
