//! The table of docs/hardening.md, "What code inside can still do", tried line by line: a child of each role shuts itself in and makes the calls. Another one makes
//! them without: what is not possible on this machine anyway proves nothing, and is named.
#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Error;
use std::net::{SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use libc::{c_int, c_long};
use net::capabilities;
use net::confine::{Files, Places, Role, Sealed, confine, landlock_version, seal};

/// Where the child finds its folder, what it is, whom it tries to reach, and whom to harm.
const FOLDER: &str = "TEST_PROBED_FOLDER";
/// See [`FOLDER`].
const CHILD: &str = "TEST_PROBED_CHILD";
/// See [`FOLDER`].
const NEIGHBOUR: &str = "TEST_PROBED_NEIGHBOUR";
/// See [`FOLDER`].
const VICTIM: &str = "TEST_PROBED_VICTIM";

/// The columns of the table.
const ROLES: [Role; 3] = [Role::KeyServer, Role::Gate, Role::GateWithPrograms];

/// The children: the column, and whether the configuration names a Unix socket and systemd is notified. A key server gives up the same either way.
const CHILDREN: [(usize, bool); 5] = [(0, true), (1, false), (1, true), (2, false), (2, true)];

/// What a child that does not shut itself in says of each way that is open to it.
const POSSIBLE: &str = "possible: ";

/// What a child works with.
struct Place {
    folder: PathBuf,
    neighbour: SocketAddrV4,
    victim: c_int,
    /// The socket that notifies systemd.
    notifier: Option<UnixDatagram>,
    /// A thread without capabilities, which says what it can do to the network.
    unprivileged: (Sender<()>, Receiver<Ways>),
}

impl Place {
    /// A path for the kernel.
    fn path(&self, name: &str) -> Vec<u8> {
        [self.folder.join(name).as_os_str().as_bytes(), b"\0"].concat()
    }
}

/// Ways to do one thing, each with whether the kernel let it happen.
type Ways = Vec<(&'static str, bool)>;

/// Whether a call was let through: it succeeded, or failed by its arguments.
fn passed(outcome: c_long) -> bool {
    let refused = [
        libc::EPERM,
        libc::EACCES,
        libc::ENOSYS,
        libc::EAFNOSUPPORT,
        libc::EPROTONOSUPPORT,
        libc::ESOCKTNOSUPPORT,
        libc::ENOPROTOOPT,
    ];
    outcome >= 0 || !refused.contains(&Error::last_os_error().raw_os_error().unwrap())
}

/// Makes a call with numbers and addresses of what outlives it.
fn call(number: c_long, arguments: [usize; 5]) -> c_long {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the callers pass addresses of what is there, or none.
    unsafe { libc::syscall(number, a, b, c, d, e, 0_usize) }
}

fn number(value: c_int) -> usize {
    usize::try_from(value.cast_unsigned()).unwrap()
}

/// The folder that paths begin in.
fn here() -> usize {
    number(libc::AT_FDCWD)
}

fn modes_by_name(place: &Place) -> Ways {
    let path = place.path("other/file");
    let at = path.as_ptr() as usize;
    let mut ways = vec![
        ("fchmodat", passed(call(libc::SYS_fchmodat, [here(), at, 0o600, 0, 0]))),
        ("fchmodat2", passed(call(452, [here(), at, 0o600, 0, 0]))),
        ("fchownat", passed(call(libc::SYS_fchownat, [here(), at, usize::MAX, usize::MAX, 0]))),
        ("setxattr", passed(call(libc::SYS_setxattr, [at, c"user.x".as_ptr() as usize, at, 1, 0]))),
    ];
    #[cfg(target_arch = "x86_64")]
    ways.push(("chmod", passed(call(libc::SYS_chmod, [at, 0o600, 0, 0, 0]))));
    ways.push(("utimensat", passed(call(libc::SYS_utimensat, [here(), at, 0, 0, 0]))));
    ways
}

fn special_modes(place: &Place) -> Ways {
    let [made, folder, plain] = ["write/special", "write/folder", "write/file"].map(|name| place.path(name));
    let flags = number(libc::O_CREAT | libc::O_WRONLY);
    let openat = passed(call(libc::SYS_openat, [here(), made.as_ptr() as usize, flags, 0o4755, 0]));
    let mkdirat = passed(call(libc::SYS_mkdirat, [here(), folder.as_ptr() as usize, 0o2755, 0, 0]));
    let file = call(libc::SYS_openat, [here(), plain.as_ptr() as usize, number(libc::O_WRONLY), 0, 0]);
    let fchmod = passed(call(libc::SYS_fchmod, [usize::try_from(file).unwrap(), 0o4755, 0, 0, 0]));
    vec![("openat", openat), ("mkdirat", mkdirat), ("fchmod", fchmod)]
}

/// A descriptor of what is only read.
fn opened(place: &Place) -> usize {
    let path = place.path("read/file");
    let file = call(libc::SYS_openat, [here(), path.as_ptr() as usize, number(libc::O_RDONLY), 0, 0]);
    usize::try_from(file).unwrap()
}

fn modes_for_others(place: &Place) -> Ways {
    let file = opened(place);
    let fchmod = |mode: usize| passed(call(libc::SYS_fchmod, [file, mode, 0, 0, 0]));
    vec![("to all", fchmod(0o666)), ("to the group", fchmod(0o620))]
}

fn mode_of_open_files(place: &Place) -> Ways {
    vec![("fchmod", passed(call(libc::SYS_fchmod, [opened(place), 0o644, 0, 0, 0])))]
}

fn times_of_open_files(place: &Place) -> Ways {
    vec![("futimens", passed(call(libc::SYS_utimensat, [opened(place), 0, 0, 0, 0])))]
}

fn signals(place: &Place) -> Ways {
    let victim = number(place.victim);
    // Number, error and code of a signal that a process queues (sigqueue(3)).
    let info = [0_i32, 0, -1].into_iter().chain([0; 29]).collect::<Vec<i32>>();
    // What a process sends with no signal is decided on as any other.
    vec![
        ("kill", passed(call(libc::SYS_kill, [victim, 0, 0, 0, 0]))),
        ("tkill", passed(call(libc::SYS_tkill, [victim, 0, 0, 0, 0]))),
        ("tgkill", passed(call(libc::SYS_tgkill, [victim, victim, 0, 0, 0]))),
        ("rt_sigqueueinfo", passed(call(libc::SYS_rt_sigqueueinfo, [victim, 0, info.as_ptr() as usize, 0, 0]))),
    ]
}

fn signals_of_descriptors(place: &Place) -> Ways {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let socket = number(socket.as_raw_fd());
    let owner = place.victim;
    let set = |command: c_int| passed(call(libc::SYS_fcntl, [socket, number(command), number(owner), 0, 0]));
    let address = &raw const owner as usize;
    vec![
        ("F_SETOWN", set(libc::F_SETOWN)),
        ("F_SETSIG", passed(call(libc::SYS_fcntl, [socket, 10, 9, 0, 0]))),
        ("FIOSETOWN", passed(call(libc::SYS_ioctl, [socket, 0x8901, address, 0, 0]))),
        ("TIOCSTI", passed(call(libc::SYS_ioctl, [socket, number(0x5412), address, 0, 0]))),
    ]
}

fn others_limits(place: &Place) -> Ways {
    let victim = number(place.victim);
    let limits = [0_u64; 2];
    let cores = [u8::MAX; 128];
    let cores = cores.as_ptr() as usize;
    vec![
        ("prlimit64", passed(call(libc::SYS_prlimit64, [victim, 7, 0, limits.as_ptr() as usize, 0]))),
        ("setpriority", passed(call(libc::SYS_setpriority, [0, victim, 0, 0, 0]))),
        ("sched_setaffinity", passed(call(libc::SYS_sched_setaffinity, [victim, 128, cores, 0, 0]))),
        ("sched_setscheduler", passed(call(libc::SYS_sched_setscheduler, [victim, 0, 0, 0, 0]))),
        ("ioprio_set", passed(call(libc::SYS_ioprio_set, [1, victim, 0, 0, 0]))),
    ]
}

fn others_memory(place: &Place) -> Ways {
    let victim = number(place.victim);
    vec![
        ("ptrace", passed(call(libc::SYS_ptrace, [16, usize::MAX, 0, 0, 0]))),
        ("process_vm_readv", passed(call(libc::SYS_process_vm_readv, [victim, 0, 0, 0, 0]))),
        ("process_vm_writev", passed(call(libc::SYS_process_vm_writev, [victim, 0, 0, 0, 0]))),
        ("kcmp", passed(call(libc::SYS_kcmp, [victim, victim, 0, 0, 0]))),
        ("pidfd_getfd", passed(call(libc::SYS_pidfd_getfd, [usize::MAX, 0, 0, 0, 0]))),
        ("PR_SET_DUMPABLE", passed(call(libc::SYS_prctl, [4, 1, 0, 0, 0]))),
        ("PR_SET_PTRACER", passed(call(libc::SYS_prctl, [0x5961_6d61, victim, 0, 0, 0]))),
        ("memory by its file", fs::File::options().write(true).open(format!("/proc/{victim}/mem")).is_ok()),
    ]
}

/// Maps a page, of a file or new.
fn map(protection: c_int, flags: c_int, file: Option<&fs::File>) -> c_long {
    let file = file.map_or(usize::MAX, |file| number(file.as_raw_fd()));
    call(libc::SYS_mmap, [0, 4096, number(protection), number(flags), file])
}

fn written_code(place: &Place) -> Ways {
    let (read, write, code) = (libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC);
    let new = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let page = usize::try_from(map(read | write, new, None)).unwrap();
    let options = fs::File::options().read(true).write(true).open(place.folder.join("write/file")).unwrap();
    vec![
        ("written and executed", passed(map(read | write | code, new, None))),
        ("new and executed", passed(map(read | code, new, None))),
        ("mprotect", passed(call(libc::SYS_mprotect, [page, 4096, number(read | code), 0, 0]))),
        ("pkey_mprotect", passed(call(libc::SYS_pkey_mprotect, [page, 4096, number(read | code), usize::MAX, 0]))),
        ("shared with a file", passed(map(read | code, libc::MAP_SHARED, Some(&options)))),
        ("own memory by its file", fs::File::options().write(true).open("/proc/self/mem").is_ok()),
        ("personality", passed(call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0]))),
        ("shmat", passed(call(libc::SYS_shmat, [usize::MAX, 0, number(libc::SHM_EXEC), 0, 0]))),
        ("remap_file_pages", passed(call(libc::SYS_remap_file_pages, [page, 4096, 0, 0, 0]))),
    ]
}

fn unnamed_files(place: &Place) -> Ways {
    let folder = place.path("write");
    let flags = number(libc::O_TMPFILE | libc::O_RDWR);
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "there is no older call"))]
    let mut ways = vec![
        ("memfd_create", passed(call(libc::SYS_memfd_create, [c"x".as_ptr() as usize, 0, 0, 0, 0]))),
        ("memfd_secret", passed(call(447, [0; 5]))),
        ("O_TMPFILE", passed(call(libc::SYS_openat, [here(), folder.as_ptr() as usize, flags, 0o600, 0]))),
    ];
    #[cfg(target_arch = "x86_64")]
    ways.push(("O_TMPFILE with open", passed(call(libc::SYS_open, [folder.as_ptr() as usize, flags, 0o600, 0, 0]))));
    ways
}

fn code_of_files(place: &Place) -> Ways {
    let mapped = |name: &str| {
        let file = fs::File::open(place.folder.join(name)).unwrap();
        passed(map(libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, Some(&file)))
    };
    fs::write(place.folder.join("write/file"), "code").unwrap();
    vec![("one that is read", mapped("read/file")), ("one that was written", mapped("write/file"))]
}

/// A new process that ends at once, by `clone` with these flags.
fn cloned(flags: c_int) -> bool {
    match call(libc::SYS_clone, [number(flags | libc::SIGCHLD), 0, 0, 0, 0]) {
        // SAFETY: the child, which has nothing to do.
        0 => unsafe { libc::_exit(0) },
        child if child > 0 => {
            // SAFETY: no status is wanted.
            unsafe { libc::waitpid(i32::try_from(child).unwrap(), std::ptr::null_mut(), 0) };
            true
        }
        _ => passed(-1),
    }
}

fn namespaces(_: &Place) -> Ways {
    let arguments = [0_u64; 11];
    let arguments = arguments.as_ptr() as usize;
    vec![
        ("clone", cloned(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)),
        ("clone into a network", cloned(libc::CLONE_NEWNET)),
        ("clone3", passed(call(libc::SYS_clone3, [arguments, 8, 0, 0, 0]))),
        ("unshare", passed(call(libc::SYS_unshare, [number(libc::CLONE_NEWUTS), 0, 0, 0, 0]))),
        ("setns", passed(call(libc::SYS_setns, [usize::MAX, 0, 0, 0, 0]))),
    ]
}

fn processes(_: &Place) -> Ways {
    vec![("clone", cloned(0))]
}

/// Calls that must not be there whatever they are given. Numbers that all machines share, and those by name.
fn kernel_interfaces(_: &Place) -> Ways {
    let calls = [
        ("bpf", libc::SYS_bpf),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("keyctl", libc::SYS_keyctl),
        ("add_key", libc::SYS_add_key),
        ("mount", libc::SYS_mount),
        ("open_tree", libc::SYS_open_tree),
        ("chroot", libc::SYS_chroot),
        ("init_module", libc::SYS_init_module),
        ("setuid", libc::SYS_setuid),
        ("capset", libc::SYS_capset),
        ("mknodat", libc::SYS_mknodat),
        ("name_to_handle_at", libc::SYS_name_to_handle_at),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("openat2", libc::SYS_openat2),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("timer_create", libc::SYS_timer_create),
        ("vmsplice", libc::SYS_vmsplice),
        ("mq_open", libc::SYS_mq_open),
        ("reboot", libc::SYS_reboot),
    ];
    calls.into_iter().map(|(name, which)| (name, passed(call(which, [usize::MAX; 5])))).collect()
}

fn made(kinds: &[(&'static str, c_int, c_int, c_int)]) -> Ways {
    let make = |family: c_int, kind: c_int, protocol: c_int| {
        passed(call(libc::SYS_socket, [number(family), number(kind), number(protocol), 0, 0]))
    };
    kinds.iter().map(|(name, family, kind, protocol)| (*name, make(*family, *kind, *protocol))).collect()
}

fn other_sockets(_: &Place) -> Ways {
    use libc::{AF_INET, AF_INET6, AF_NETLINK, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM};
    made(&[
        ("raw", AF_INET, SOCK_RAW, 1),
        ("ping", AF_INET, SOCK_DGRAM, 1),
        ("Multipath TCP", AF_INET, SOCK_STREAM, 262),
        ("Multipath TCP, version 6", AF_INET6, SOCK_STREAM, 262),
        ("SCTP", AF_INET, SOCK_SEQPACKET, 132),
        ("SCTP stream", AF_INET, SOCK_STREAM, 132),
        ("SMC", AF_INET, SOCK_STREAM, 256),
        ("UDP-Lite", AF_INET, SOCK_DGRAM, 136),
        ("packet", libc::AF_PACKET, SOCK_RAW, 0),
        ("cryptography", libc::AF_ALG, SOCK_SEQPACKET, 0),
        ("hypervisor", libc::AF_VSOCK, SOCK_STREAM, 0),
        ("key management", libc::AF_KEY, SOCK_RAW, 2),
        ("netfilter", AF_NETLINK, SOCK_RAW, 12),
        ("audit", AF_NETLINK, SOCK_RAW, 9),
    ])
}

fn socket_options(_: &Place) -> Ways {
    let value = [0_u8; 128];
    let at = value.as_ptr() as usize;
    let set = |level: c_int, name: c_int| {
        let family = if level == libc::SOL_IPV6 { socket2::Domain::IPV6 } else { socket2::Domain::IPV4 };
        let Ok(socket) = socket2::Socket::new(family, socket2::Type::STREAM, None) else { return false };
        let socket = number(socket.as_raw_fd());
        passed(call(libc::SYS_setsockopt, [socket, number(level), number(name), at, value.len()]))
    };
    vec![
        ("IPT_SO_SET_REPLACE", set(libc::SOL_IP, 64)),
        ("IP6T_SO_SET_REPLACE", set(libc::SOL_IPV6, 64)),
        ("ARPT_SO_SET_REPLACE", set(libc::SOL_IP, 96)),
        ("EBT_SO_SET_ENTRIES", set(libc::SOL_IP, 128)),
        ("TCP_REPAIR", set(libc::SOL_TCP, 19)),
        ("TCP_ULP", set(libc::SOL_TCP, 31)),
        ("TCP_CONGESTION", set(libc::SOL_TCP, 13)),
        ("SO_ATTACH_FILTER", set(libc::SOL_SOCKET, 26)),
        ("SO_ATTACH_BPF", set(libc::SOL_SOCKET, 50)),
        ("SO_DEBUG", set(libc::SOL_SOCKET, 1)),
    ]
}

/// Asks for the end of a route that is not there: whoever may not change routes does not learn that.
fn network() -> Ways {
    const DELETE_ROUTE: u16 = 25;
    let remove_route = || {
        let socket = call(libc::SYS_socket, [number(libc::AF_NETLINK), number(libc::SOCK_RAW), 0, 0, 0]);
        let Ok(socket) = usize::try_from(socket) else { return false };
        // A head, an `rtmsg` for IPv4 with a mask of 24 bits in the main table, and the destination 203.0.113.0.
        let mut message = [&36_u32.to_ne_bytes()[..], &DELETE_ROUTE.to_ne_bytes(), &5_u16.to_ne_bytes()].concat();
        message.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 24, 0, 0, 254, 0, 0, 0, 0, 0, 0, 0]);
        message.extend([&8_u16.to_ne_bytes()[..], &1_u16.to_ne_bytes(), &[203, 0, 113, 0]].concat());
        let length = u32::try_from(message.len()).unwrap();
        message[..4].copy_from_slice(&length.to_ne_bytes());
        let sent = call(libc::SYS_sendto, [socket, message.as_ptr() as usize, message.len(), 0, 0]);
        let mut reply = [0_u8; 512];
        // SAFETY: the buffer outlives the call.
        let got = unsafe { libc::recv(c_int::try_from(socket).unwrap(), reply.as_mut_ptr().cast(), reply.len(), 0) };
        // A head, and the negative number of an error.
        let error = i32::from_ne_bytes(reply[16..20].try_into().unwrap());
        sent >= 0 && got >= 20 && ![0, -libc::EPERM, -libc::EACCES].contains(&error)
    };
    let socket = tcp();
    let request = [0_u8; 128];
    let ask = |what: usize| {
        passed(call(libc::SYS_ioctl, [number(socket.as_raw_fd()), what, request.as_ptr() as usize, 0, 0]))
    };
    vec![
        ("RTM_DELROUTE", remove_route()),
        ("SIOCSIFADDR", ask(0x8916)),
        ("SIOCSIFFLAGS", ask(0x8914)),
        ("SIOCADDRT", ask(0x890b)),
    ]
}

fn network_of_the_machine(place: &Place) -> Ways {
    let (ask, response) = &place.unprivileged;
    ask.send(()).unwrap();
    response.recv().unwrap()
}

fn datagrams(_: &Place) -> Ways {
    use libc::{AF_INET, AF_INET6, SOCK_DGRAM};
    made(&[("version 4", AF_INET, SOCK_DGRAM, 0), ("version 6", AF_INET6, SOCK_DGRAM | libc::SOCK_CLOEXEC, 17)])
}

fn tcp() -> OwnedFd {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.into()
}

fn connections(place: &Place) -> Ways {
    let address = socket2::SockAddr::from(place.neighbour);
    let (at, length) = (address.as_ptr() as usize, usize::try_from(address.len()).unwrap());
    let socket = tcp();
    vec![("connect", passed(call(libc::SYS_connect, [number(socket.as_raw_fd()), at, length, 0, 0])))]
}

fn fast_open(place: &Place) -> Ways {
    let address = socket2::SockAddr::from(place.neighbour);
    let (socket, other) = (tcp(), tcp());
    // SAFETY: buffer and address outlive the call.
    let sent = unsafe {
        let (at, length) = (address.as_ptr().cast(), address.len());
        libc::sendto(socket.as_raw_fd(), b"x".as_ptr().cast(), 1, libc::MSG_FASTOPEN, at, length)
    };
    let sendto = passed(sent.try_into().unwrap());
    // SAFETY: an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec { iov_base: b"x".as_ptr().cast_mut().cast(), iov_len: 1 };
    (message.msg_name, message.msg_namelen) = (address.as_ptr().cast_mut().cast(), address.len());
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    let (socket, flag) = (number(other.as_raw_fd()), number(libc::MSG_FASTOPEN));
    let at = &raw const message as usize;
    let (many, one) = ([message], call(libc::SYS_sendmsg, [socket, at, flag, 0, 0]));
    let sendmsg = passed(one);
    let sendmmsg = passed(call(libc::SYS_sendmmsg, [socket, many.as_ptr() as usize, 0, flag, 0]));
    vec![("sendto", sendto), ("sendmsg", sendmsg), ("sendmmsg", sendmmsg)]
}

fn unix_sockets(place: &Place) -> Ways {
    vec![("connect", UnixStream::connect(place.folder.join("other/socket")).is_ok())]
}

fn unix_datagrams(place: &Place) -> Ways {
    let to = place.folder.join("other/datagrams");
    let mut ends = [0_i32; 2];
    let pair = [number(libc::AF_UNIX), number(libc::SOCK_DGRAM), 0, ends.as_mut_ptr() as usize, 0];
    let mut ways = vec![("pair", passed(call(libc::SYS_socketpair, pair)))];
    let new = place.notifier.as_ref().map_or_else(UnixDatagram::unbound, UnixDatagram::try_clone);
    let Ok(socket) = new else {
        ways.extend(["sendto", "sendmsg", "connect"].map(|way| (way, false)));
        return ways;
    };
    let address = socket2::SockAddr::unix(&to).unwrap();
    let mut part = libc::iovec { iov_base: b"x".as_ptr().cast_mut().cast(), iov_len: 1 };
    // SAFETY: an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_name, message.msg_namelen) = (address.as_ptr().cast_mut().cast(), address.len());
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    let sent = call(libc::SYS_sendmsg, [number(socket.as_raw_fd()), &raw const message as usize, 0, 0, 0]);
    ways.extend([("sendmsg", passed(sent)), ("sendto", socket.send_to(b"x", &to).is_ok())]);
    ways.push(("connect", socket.connect(&to).is_ok()));
    ways
}

fn abstract_socket(place: &Place) -> Ways {
    let address = SocketAddr::from_abstract_name(place.folder.as_os_str().as_bytes()).unwrap();
    vec![("connect", UnixStream::connect_addr(&address).is_ok())]
}

fn other_files(place: &Place) -> Ways {
    let path = |name: &str| place.folder.join(name);
    vec![
        ("read", fs::read(path("other/file")).is_ok()),
        ("list", fs::read_dir(path("other")).is_ok()),
        ("write", fs::write(path("other/file"), "changed").is_ok()),
        ("write where only reading is allowed", fs::write(path("read/file"), "changed").is_ok()),
        ("make", fs::write(path("other/new"), "new").is_ok()),
        ("remove", fs::remove_file(path("other/new")).is_ok()),
        ("link", fs::hard_link(path("other/file"), path("write/linked")).is_ok()),
    ]
}

/// In the folder of its configuration a log and a socket are, too.
fn configuration(place: &Place) -> Ways {
    let path = |name: &str| place.folder.join("beside").join(name);
    let elsewhere = place.folder.join("write/moved");
    let ways: [(&str, &dyn Fn() -> std::io::Result<()>); 7] = [
        ("write", &|| fs::write(path("file"), "changed")),
        ("make", &|| fs::write(path("new"), "new")),
        ("put the log in its place", &|| fs::rename(path("log"), path("file"))),
        ("link the log to its place", &|| fs::hard_link(path("log"), path("linked"))),
        ("point elsewhere", &|| std::os::unix::fs::symlink(path("log"), path("link"))),
        ("move what was written elsewhere", &|| fs::rename(&elsewhere, path("file"))),
        ("make a folder", &|| fs::create_dir(path("folder"))),
    ];
    let tried = ways.into_iter().map(|(way, act)| {
        // Without the sandbox the one before may have moved them.
        [path("log"), elsewhere.clone()].iter().for_each(|file| fs::write(file, "a line").unwrap());
        (way, act().is_ok())
    });
    tried.collect()
}

fn emptied(place: &Place) -> Ways {
    let path = place.path("other/file");
    let flags = number(libc::O_RDONLY | libc::O_TRUNC);
    let read = place.path("read/file");
    vec![
        ("O_TRUNC", passed(call(libc::SYS_openat, [here(), read.as_ptr() as usize, flags, 0, 0]))),
        ("truncate", passed(call(libc::SYS_truncate, [path.as_ptr() as usize, 0, 0, 0, 0]))),
    ]
}

fn programs(_: &Place) -> Ways {
    vec![("execve", Command::new("/bin/true").status().is_ok())]
}

fn metadata(place: &Place) -> Ways {
    let path = place.path("other/file");
    let watches = usize::try_from(call(libc::SYS_inotify_init1, [0; 5])).unwrap();
    let watched = call(libc::SYS_inotify_add_watch, [watches, path.as_ptr() as usize, 2, 0, 0]);
    vec![("stat", fs::metadata(place.folder.join("other/file")).is_ok()), ("inotify", passed(watched))]
}

/// Does what one line of the table says.
type Probe = fn(&Place) -> Ways;

/// Each line of the table, by its first cell.
const PROBES: [(&str, Probe); 29] = [
    ("read, write, make or remove other files", other_files),
    ("change configuration that lies beside its log or sockets", configuration),
    ("empty files that it may only read", emptied),
    ("see size, owner and times of other files, and that they change", metadata),
    ("change mode, owner, attributes or times of a file by its name", modes_by_name),
    ("make or give a file set-user-ID, set-group-ID or sticky bits", special_modes),
    ("let others write to a file that is there", modes_for_others),
    ("change the mode of a file that it has open", mode_of_open_files),
    ("change the times of a file that it has open", times_of_open_files),
    ("send signals to other processes", signals),
    ("have a descriptor send signals, type into a terminal", signals_of_descriptors),
    ("change limits, priority or processors of other processes", others_limits),
    ("trace other processes, become traceable", others_memory),
    ("execute memory that was written, with no file in between", written_code),
    ("make files without a name (`memfd_create`, `O_TMPFILE`)", unnamed_files),
    ("map code out of files, also those that it wrote", code_of_files),
    ("make namespaces", namespaces),
    ("make processes", processes),
    ("run programs", programs),
    ("use other interfaces of the kernel (BPF, io_uring, keys, mounts, modules, …)", kernel_interfaces),
    ("make raw, packet, SCTP, Multipath TCP and other sockets", other_sockets),
    ("set firewall tables, filters, protocols and repairs on sockets", socket_options),
    ("change addresses, routes and rules of the machine", network_of_the_machine),
    ("make UDP sockets", datagrams),
    ("connect by TCP", connections),
    ("connect by sending (TCP Fast Open)", fast_open),
    ("connect to Unix sockets", unix_sockets),
    ("send datagrams to Unix sockets", unix_datagrams),
    ("connect to abstract Unix sockets", abstract_socket),
];

/// Rows of the table, each with its cells.
fn rows() -> Vec<Vec<String>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hardening.md");
    let text = fs::read_to_string(file).unwrap();
    let (_, part) = text.split_once("### What code inside can still do\n").expect("the part has this heading");
    let rows = part.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.skip(2).map(cells).collect()
}

/// Whether a cell promises that it cannot be done on this kernel; none if it promises nothing here. `is_named`: the configuration names a Unix socket, and systemd is
/// notified, which a cell may make a condition.
fn is_closed(cell: &str, is_named: bool) -> Option<bool> {
    if cell.starts_with("yes") {
        return Some(false);
    }
    let (promise, version) = cell.split_once(", from Landlock ").unwrap_or((cell, "0"));
    let version: u32 = version.parse().unwrap_or_else(|_| panic!("a version ends a cell: {cell}"));
    let applies = match promise {
        "no" => true,
        promise if promise.starts_with("no; where ") => is_named,
        promise => {
            assert!(promise.starts_with("no, ") && version == 0, "a cell says yes or no: {cell}");
            true
        }
    };
    (!applies || landlock_version().unwrap_or(0) >= version).then_some(true)
}

/// Ends with the test.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// What a child works with, and what it says in the end. Without `child` it does not shut itself in.
fn child(child: Option<usize>, neighbour: &TcpListener, victim: &Victim, possible: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for name in ["read", "write", "other", "beside"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("file"), name).unwrap();
    }
    fs::write(folder.path().join("beside/log"), "").unwrap();
    fs::write(folder.path().join("possible"), possible).unwrap();
    let _socket = UnixListener::bind(folder.path().join("other/socket")).unwrap();
    let _others =
        ["other/manager", "other/datagrams"].map(|name| UnixDatagram::bind(folder.path().join(name)).unwrap());
    let unnamed = SocketAddr::from_abstract_name(folder.path().as_os_str().as_bytes()).unwrap();
    let _unnamed = UnixListener::bind_addr(&unnamed).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "probes::every_line_of_the_table_holds_on_this_kernel", "--nocapture"])
        .env(FOLDER, folder.path())
        .env(CHILD, child.map_or(String::new(), |child| child.to_string()))
        .env(NEIGHBOUR, neighbour.local_addr().unwrap().to_string())
        .env(VICTIM, victim.0.id().to_string())
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && reported.contains("running 1 test"), "{child:?}: {reported}");
    reported
}

#[test]
fn every_line_of_the_table_holds_on_this_kernel() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return inside(Path::new(&folder));
    }
    let names: Vec<String> = rows().iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, PROBES.map(|(name, _)| name), "lines of the table, and what is tried");
    let neighbour = TcpListener::bind("127.0.0.1:0").unwrap();
    let victim = Victim(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
    let open = child(None, &neighbour, &victim, "");
    let possible: Vec<&str> = open.lines().filter_map(|line| line.split_once(POSSIBLE)).map(|(_, way)| way).collect();
    assert!(possible.len() > PROBES.len(), "most of it is possible without the sandbox: {open}");
    let possible = possible.join("\n");
    let mut skipped = BTreeSet::new();
    for number in 0..CHILDREN.len() {
        let reported = child(Some(number), &neighbour, &victim, &possible);
        skipped.extend(reported.lines().filter(|line| line.starts_with("skipped:")).map(str::to_owned));
    }
    skipped.iter().for_each(|line| eprintln!("{line}"));
}

/// In the child.
fn inside(folder: &Path) {
    let variable = |name: &str| std::env::var(name).unwrap();
    let child = variable(CHILD).parse::<usize>().ok().map(|number| CHILDREN[number]);
    let (neighbour, victim) = (variable(NEIGHBOUR).parse().unwrap(), variable(VICTIM).parse().unwrap());
    let ((ask, asked), (answer, response)) = (channel(), channel());
    let is_confined = child.is_some();
    let (ready, is_ready) = channel();
    std::thread::spawn(move || {
        if is_confined {
            capabilities::keep_only(&[]).unwrap();
        }
        ready.send(()).unwrap();
        asked.iter().for_each(|()| answer.send(network()).unwrap());
    });
    is_ready.recv().unwrap();
    let notifier = child.filter(|(_, is_named)| *is_named).map(|_| {
        let socket = UnixDatagram::unbound().unwrap();
        socket.connect(folder.join("other/manager")).unwrap();
        socket
    });
    let place = Place { folder: folder.to_owned(), neighbour, victim, notifier, unprivileged: (ask, response) };
    let Some((column, is_named)) = child else {
        for (name, probe) in PROBES {
            let open = probe(&place).into_iter().filter(|(_, passed)| *passed);
            open.for_each(|(way, _)| println!("{POSSIBLE}{name}: {way}"));
        }
        return;
    };
    // What is read for the comparison is read before.
    let (rows, possible) = (rows(), fs::read_to_string(folder.join("possible")).unwrap());
    let possible: BTreeSet<&str> = possible.lines().collect();
    shut_in(&place, ROLES[column], is_named);
    let mut wrong = Vec::new();
    for (row, (name, probe)) in rows.iter().zip(PROBES) {
        let Some(is_closed) = is_closed(&row[column + 1], is_named) else {
            println!("skipped: {name}: this kernel is too old for {:?}", ROLES[column]);
            continue;
        };
        let mut proven = 0;
        for (way, passed) in probe(&place) {
            let way = format!("{name}: {way}");
            let is_possible = possible.contains(way.as_str());
            proven += usize::from(is_possible);
            if passed == is_closed && (is_closed || is_possible) {
                wrong.push(format!("{way}: {}", if passed { "can" } else { "cannot" }));
            } else if !is_possible {
                println!("skipped: {way}: not possible here even without the sandbox");
            }
        }
        if proven == 0 {
            println!("skipped: {name}: nothing of it is possible here, so that nothing is proven");
        }
    }
    assert!(wrong.is_empty(), "{:?}, {is_named}: {wrong:#?}", ROLES[column]);
    // And its work it can do.
    std::thread::spawn(|| ()).join().unwrap();
    assert!(TcpListener::bind("127.0.0.1:0").is_ok());
    assert!(place.notifier.is_none_or(|socket| socket.send(b"READY=1").is_ok() || socket.peer_addr().is_err()));
}

/// Shuts this process in as a server of this role does.
fn shut_in(place: &Place, role: Role, is_named: bool) {
    let programs = ["/usr", "/bin", "/lib", "/lib64"].map(PathBuf::from).to_vec();
    let run = if role == Role::GateWithPrograms { programs } else { Vec::new() };
    let read = vec![place.folder.join("read"), "/proc/self".into()];
    let (files, sockets) = (vec![place.folder.join("beside/log")], vec![place.folder.join("beside")]);
    let write = vec![place.folder.join("write")];
    let places = Places { read, write, run, files, sockets, ..Places::default() };
    let confined = confine(role, &places);
    assert!(confined.privileges.is_ok() && confined.calls.is_ok(), "{confined:?}");
    assert!(confined.files == Ok(Files::Closed) || landlock_version().is_none(), "{confined:?}");
    let is_key_server = role == Role::KeyServer;
    seal(Sealed { connections: is_key_server, unix_sockets: is_key_server || !is_named }).unwrap();
}
