//! The system calls of each role, and of which arguments (seccomp). What is not listed fails with EPERM, and calls that libraries try first and have an older
//! one for with ENOSYS, which they fall back from.
//!
//! A filter sees numbers, and no memory: paths, addresses and the arguments of `clone3` are out of its sight. Files are for Landlock, and `clone3` is not there at
//! all. Calls that are allowed whatever their arguments cost nothing (the kernel keeps a map of them since Linux 5.11); those of the data path are such.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::{Role, Sealed};

/// Which calls, and with which arguments; any, where there are no rules.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What one argument has to be: its place, counted from 0, the bits that are looked at, and what they are to be. All of these arguments are 32 bits wide.
#[derive(Clone, Copy)]
struct Is(u8, u32, u32);

/// All bits of an argument.
const WHOLE: u32 = u32::MAX;

/// Bits of a socket's type that say nothing of what it is (socket(2)).
const TYPE_FLAGS: u32 = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC).cast_unsigned();

/// Flags by which a process gets other namespaces, and full rights in them (clone(2)), or is traced.
const CLONE_REJECTED: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_PTRACE
    | libc::CLONE_UNTRACED)
    .cast_unsigned();

/// Set-user-ID, set-group-ID and sticky bits of a file's mode: a program that was written with one of them would have our rights for whoever runs it.
const SPECIAL_MODE: u32 = 0o7000;

/// Who else may write a file.
const WRITERS: u32 = 0o022;

/// The flag of open(2) that makes a file without a name.
const UNNAMED: u32 = (libc::O_TMPFILE & !libc::O_DIRECTORY).cast_unsigned();

/// The name of a range of memory (prctl(2)).
const PR_SET_VMA: u32 = 0x5356_4d41;

/// Calls whatever their arguments: of an event loop, of memory and threads, of reading and writing files. Not among them: running programs, tracing, mounting,
/// loading, changing users, modes of files by their name, raw devices.
#[rustfmt::skip]
const CALLS: &[c_long] = &[
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_close, libc::SYS_lseek,
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_getdents64, libc::SYS_readlinkat,
    libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate,
    libc::SYS_getcwd, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2, libc::SYS_umask, libc::SYS_flock,
    libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_inotify_rm_watch,
    libc::SYS_bind, libc::SYS_listen, libc::SYS_accept4, libc::SYS_accept, libc::SYS_connect, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_getsockopt, libc::SYS_shutdown, libc::SYS_recvfrom, libc::SYS_recvmsg,
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_ppoll, libc::SYS_eventfd2,
    libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_signalfd4,
    libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk, libc::SYS_mlock, libc::SYS_mlock2,
    libc::SYS_munlock, libc::SYS_membarrier, libc::SYS_mincore,
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_rseq, libc::SYS_gettid,
    libc::SYS_getpid, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_getpriority, libc::SYS_getrandom, libc::SYS_sysinfo, libc::SYS_uname, libc::SYS_getrusage,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getcpu, libc::SYS_capget,
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_gettimeofday,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
];

/// What the gate needs beside: carrying bytes and datagrams without a look at them, databases of front doors. It may connect to whom it likes, so that how it sends
/// is not looked at.
#[rustfmt::skip]
const GATE_CALLS: &[c_long] = &[
    libc::SYS_sendto, libc::SYS_sendmsg,
    libc::SYS_splice, libc::SYS_tee, libc::SYS_sendfile, libc::SYS_sendmmsg, libc::SYS_recvmmsg, libc::SYS_copy_file_range, libc::SYS_preadv, libc::SYS_pwritev,
    libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_pselect6,
];

/// What it takes to run a program and to end it, and what shells and small tools are made of beside.
#[rustfmt::skip]
const PROGRAM_CALLS: &[c_long] = &[
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_waitid, libc::SYS_kill, libc::SYS_tgkill, libc::SYS_setpgid, libc::SYS_getpgid, libc::SYS_setsid, libc::SYS_getsid,
    libc::SYS_getppid, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigpending, libc::SYS_getgroups, libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_times, libc::SYS_setitimer, libc::SYS_getitimer,
    libc::SYS_symlinkat, libc::SYS_linkat, libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_close_range,
];

/// Calls that only older machine interfaces have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_CALLS: &[c_long] = &[
    libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_unlink, libc::SYS_rename,
    libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_getdents,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[c_long] = &[];

/// The same of programs. `fork` and `vfork` have no flags.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_PROGRAM_CALLS: &[c_long] = &[
    libc::SYS_vfork, libc::SYS_fork, libc::SYS_pipe, libc::SYS_dup2, libc::SYS_getpgrp, libc::SYS_select, libc::SYS_pause, libc::SYS_alarm, libc::SYS_time,
    libc::SYS_getrlimit, libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_PROGRAM_CALLS: &[c_long] = &[];

/// Calls that make a file or folder, each with the places of its mode and its flags, if it has any.
const MAKERS: &[(c_long, u8, Option<u8>)] = &[(libc::SYS_openat, 3, Some(2)), (libc::SYS_mkdirat, 2, None)];

/// The same of older machine interfaces.
#[cfg(target_arch = "x86_64")]
const OLD_MAKERS: &[(c_long, u8, Option<u8>)] = &[(libc::SYS_open, 2, Some(1)), (libc::SYS_mkdir, 1, None)];
#[cfg(not(target_arch = "x86_64"))]
const OLD_MAKERS: &[(c_long, u8, Option<u8>)] = &[];

/// Calls for which there is an older one: a library that meets EPERM here would take it for the outcome, with ENOSYS it takes the other.
const FALLEN_BACK_FROM: &[c_long] = &[libc::SYS_clone3, libc::SYS_openat2, SYS_FCHMODAT2];

/// fchmodat2(2), one number on all machines.
const SYS_FCHMODAT2: c_long = 452;

/// What can be asked of a descriptor: flags, copies, locks, the size of a pipe. Not whom it signals (`F_SETOWN`, `F_SETSIG`), leases or notices.
#[rustfmt::skip]
const DESCRIPTOR_COMMANDS: &[libc::c_int] = &[
    libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_GETLK, libc::F_SETLK, libc::F_SETLKW,
    libc::F_OFD_GETLK, libc::F_OFD_SETLK, libc::F_OFD_SETLKW, libc::F_GETPIPE_SZ, libc::F_SETPIPE_SZ,
];

/// What can be asked of a device or socket: whether it blocks, how much waits in it, whether it is a terminal, which interface has a number or name. Not input
/// to a terminal (`TIOCSTI`), or whom a socket signals.
#[rustfmt::skip]
const DEVICE_COMMANDS: &[u32] = &[
    libc::FIONBIO as u32, libc::FIOCLEX as u32, libc::FIONREAD as u32, libc::TIOCOUTQ as u32, libc::TCGETS as u32, libc::TIOCGWINSZ as u32, SIOCGIFNAME,
    libc::SIOCGIFINDEX as u32,
];

/// The same for programs: whether a shell has its terminal, and what networks there are.
const PROGRAM_DEVICE_COMMANDS: &[u32] = &[libc::TIOCGPGRP as u32, SIOCGIFCONF, 0x8913, 0x8915];

/// The name of an interface by its number (netdevice(7)).
const SIOCGIFNAME: u32 = 0x8910;
/// All interfaces. Beside it above: flags and the address of one.
const SIOCGIFCONF: u32 = 0x8912;

/// What a process can do to itself: names for threads and memory, no new privileges. Not to become dumpable, or another's to trace.
#[rustfmt::skip]
const OWN_COMMANDS: &[u32] = &[
    libc::PR_SET_NAME as u32, libc::PR_GET_NAME as u32, libc::PR_SET_NO_NEW_PRIVS as u32, libc::PR_GET_NO_NEW_PRIVS as u32, libc::PR_GET_DUMPABLE as u32,
    libc::PR_GET_SECCOMP as u32, libc::PR_CAPBSET_READ as u32, libc::PR_GET_THP_DISABLE as u32, libc::PR_SET_THP_DISABLE as u32, PR_SET_VMA,
];

/// Times for receiving and sending, with 64 bits for the seconds on all machines.
const SO_RCVTIMEO_NEW: libc::c_int = 66;
const SO_SNDTIMEO_NEW: libc::c_int = 67;

/// Options of sockets, by level. Not tables of firewalls (`IPT_SO_SET_REPLACE` and its like), which need no socket of their own, programs, or other protocols on top.
#[rustfmt::skip]
const SOCKET_OPTIONS: &[(libc::c_int, &[libc::c_int])] = &[
    (libc::SOL_SOCKET, &[
        libc::SO_REUSEADDR, libc::SO_REUSEPORT, libc::SO_KEEPALIVE, libc::SO_LINGER, libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, libc::SO_RCVTIMEO,
        libc::SO_SNDTIMEO, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW, libc::SO_BROADCAST, libc::SO_MARK, libc::SO_ATTACH_REUSEPORT_CBPF,
    ]),
    (libc::SOL_TCP, &[libc::TCP_NODELAY, libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT, libc::TCP_QUICKACK, libc::TCP_USER_TIMEOUT]),
    (libc::SOL_IP, &[
        libc::IP_TOS, libc::IP_PKTINFO, libc::IP_MTU_DISCOVER, libc::IP_RECVERR, libc::IP_RECVTOS, libc::IP_TRANSPARENT, libc::IP_BIND_ADDRESS_NO_PORT,
    ]),
    (libc::SOL_IPV6, &[
        libc::IPV6_V6ONLY, libc::IPV6_MTU_DISCOVER, libc::IPV6_RECVERR, libc::IPV6_RECVPKTINFO, libc::IPV6_RECVTCLASS, libc::IPV6_TCLASS, libc::IPV6_TRANSPARENT,
    ]),
    (libc::SOL_UDP, &[libc::UDP_SEGMENT, libc::UDP_GRO]),
];

/// What programs that ask name servers set beside.
#[rustfmt::skip]
const PROGRAM_SOCKET_OPTIONS: &[(libc::c_int, &[libc::c_int])] = &[
    (libc::SOL_SOCKET, &[libc::SO_TIMESTAMP, libc::SO_PRIORITY, libc::SO_RCVLOWAT, libc::SO_INCOMING_CPU, libc::SO_BINDTODEVICE]),
    (libc::SOL_TCP, &[libc::TCP_CORK, libc::TCP_MAXSEG, libc::TCP_FASTOPEN, libc::TCP_FASTOPEN_CONNECT, libc::TCP_NOTSENT_LOWAT]),
    (libc::SOL_IP, &[libc::IP_TTL, libc::IP_RECVTTL, libc::IP_MULTICAST_TTL, libc::IP_MULTICAST_LOOP, libc::IP_MULTICAST_IF]),
    (libc::SOL_IPV6, &[
        libc::IPV6_UNICAST_HOPS, libc::IPV6_RECVHOPLIMIT, libc::IPV6_MTU, libc::IPV6_MULTICAST_HOPS, libc::IPV6_MULTICAST_LOOP, libc::IPV6_MULTICAST_IF,
    ]),
];

fn rule(conditions: &[Is]) -> Result<SeccompRule, BackendError> {
    let condition = |Is(place, bits, value): &Is| {
        SeccompCondition::new(*place, SeccompCmpArgLen::Dword, masked(*bits), u64::from(*value))
    };
    SeccompRule::new(conditions.iter().map(condition).collect::<Result<_, _>>()?)
}

/// A comparison of these bits alone.
fn masked(bits: u32) -> SeccompCmpOp {
    SeccompCmpOp::MaskedEq(u64::from(bits))
}

/// A rule for each value of an argument.
fn any_of(place: u8, values: impl IntoIterator<Item = u32>) -> Result<Vec<SeccompRule>, BackendError> {
    values.into_iter().map(|value| rule(&[Is(place, WHOLE, value)])).collect()
}

/// Rules for sockets of these families, types and protocols.
fn sockets(kinds: &[(libc::c_int, libc::c_int, libc::c_int)]) -> Result<Vec<SeccompRule>, BackendError> {
    let of = |(family, kind, protocol): &(libc::c_int, libc::c_int, libc::c_int)| {
        let [family, kind, protocol] = [family, kind, protocol].map(|number| number.cast_unsigned());
        rule(&[Is(0, WHOLE, family), Is(1, !TYPE_FLAGS, kind), Is(2, WHOLE, protocol)])
    };
    kinds.iter().map(of).collect()
}

/// Sockets that a role may make. By protocol, too: Multipath TCP, SCTP and others are out of Landlock's sight.
#[rustfmt::skip]
fn own_sockets(role: Role) -> Result<Vec<SeccompRule>, BackendError> {
    use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_RAW, SOCK_STREAM};
    let mut kinds = vec![
        (AF_INET, SOCK_STREAM, 0), (AF_INET, SOCK_STREAM, IPPROTO_TCP), (AF_INET6, SOCK_STREAM, 0), (AF_INET6, SOCK_STREAM, IPPROTO_TCP), (AF_UNIX, SOCK_STREAM, 0),
    ];
    if role != Role::KeyServer {
        // Beside datagrams: log services, and what the system's resolver asks of the kernel (netlink(7), NETLINK_ROUTE).
        kinds.extend([
            (AF_INET, SOCK_DGRAM, 0), (AF_INET, SOCK_DGRAM, IPPROTO_UDP), (AF_INET6, SOCK_DGRAM, 0), (AF_INET6, SOCK_DGRAM, IPPROTO_UDP), (AF_UNIX, SOCK_DGRAM, 0),
            (AF_NETLINK, SOCK_RAW, libc::NETLINK_ROUTE), (AF_NETLINK, SOCK_DGRAM, libc::NETLINK_ROUTE),
        ]);
    }
    sockets(&kinds)
}

/// Memory that can be executed is what code that was smuggled in would need. Ours is mapped before we shut ourselves in, so that no more of it is needed, whether
/// new, changed or out of a file; a file that only memory holds (`memfd_create`) is not among the calls at all. Where programs are run, their loader maps
/// code out of files, each copy for itself, so that only other memory is denied.
fn memory(role: Role, rules: &mut Rules) -> Result<(), BackendError> {
    const PROTECTION: u8 = 2;
    const FLAGS: u8 = 3;
    let [code, written] = [libc::PROT_EXEC, libc::PROT_WRITE].map(libc::c_int::cast_unsigned);
    let shared = (libc::MAP_ANONYMOUS | libc::MAP_SHARED).cast_unsigned();
    rules.insert(libc::SYS_mprotect, vec![rule(&[Is(PROTECTION, code, 0)])?]);
    let mut mapped = vec![rule(&[Is(PROTECTION, code, 0)])?];
    if role == Role::GateWithPrograms {
        mapped.push(rule(&[Is(PROTECTION, written, 0), Is(FLAGS, shared, 0)])?);
    }
    rules.insert(libc::SYS_mmap, mapped);
    Ok(())
}

/// Files and folders are made with a name and without special bits. No mode is changed, since Landlock does not look at that; only programs may change those of
/// files that they have open, and let nobody else write them.
fn modes(role: Role, rules: &mut Rules) -> Result<(), BackendError> {
    for (call, mode, flags) in MAKERS.iter().chain(OLD_MAKERS) {
        let (mode, flags) = (Is(*mode, SPECIAL_MODE, 0), flags.map(|flags| Is(flags, UNNAMED, 0)));
        let conditions: Vec<Is> = [Some(mode), flags].into_iter().flatten().collect();
        rules.insert(*call, vec![rule(&conditions)?]);
    }
    if role == Role::GateWithPrograms {
        rules.insert(libc::SYS_fchmod, vec![rule(&[Is(1, SPECIAL_MODE | WRITERS, 0)])?]);
    }
    Ok(())
}

/// Options that a role may set.
fn socket_options(role: Role) -> Result<Vec<SeccompRule>, BackendError> {
    let further = if role == Role::GateWithPrograms { PROGRAM_SOCKET_OPTIONS } else { &[] };
    let options = SOCKET_OPTIONS.iter().chain(further);
    let pairs = options.flat_map(|(level, names)| names.iter().map(|name| (*level, *name)));
    pairs
        .map(|(level, name)| rule(&[Is(1, WHOLE, level.cast_unsigned()), Is(2, WHOLE, name.cast_unsigned())]))
        .collect()
}

/// Threads, and what is done to a process by its number: to this one alone. Programs have numbers of their own, so that where there are some, the filter leaves
/// signals to Landlock.
fn processes(role: Role, rules: &mut Rules) -> Result<(), BackendError> {
    let is_alone = role != Role::GateWithPrograms;
    // A thread shares all with its process.
    let thread = if is_alone { libc::CLONE_THREAD.cast_unsigned() } else { 0 };
    rules.insert(libc::SYS_clone, vec![rule(&[Is(0, CLONE_REJECTED | thread, thread)])?]);
    // A thread that has a umask of its own.
    rules.insert(libc::SYS_unshare, any_of(0, [libc::CLONE_FS.cast_unsigned()])?);
    if is_alone {
        rules.insert(libc::SYS_tgkill, any_of(0, [std::process::id()])?);
    }
    rules.insert(libc::SYS_prlimit64, any_of(0, [0, std::process::id()])?);
    rules.insert(libc::SYS_sched_setaffinity, any_of(0, [0])?);
    rules.insert(libc::SYS_setpriority, vec![rule(&[Is(0, WHOLE, 0), Is(1, WHOLE, 0)])?]);
    let mut own = OWN_COMMANDS.to_vec();
    if !is_alone {
        own.push(libc::PR_SET_PDEATHSIG.cast_unsigned());
    }
    if role != Role::KeyServer {
        // The time of a file that is open, and not by its name: what a fleet hands around has the time of its first node.
        let name = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
        rules.insert(libc::SYS_utimensat, vec![SeccompRule::new(vec![name])?]);
    }
    rules.insert(libc::SYS_prctl, any_of(0, own)?);
    Ok(())
}

fn rules_of(role: Role) -> Result<Rules, BackendError> {
    let further: &[&[c_long]] = match role {
        Role::KeyServer => &[],
        Role::Gate => &[GATE_CALLS],
        Role::GateWithPrograms => &[GATE_CALLS, PROGRAM_CALLS, OLD_PROGRAM_CALLS],
    };
    let further = further.iter().copied().flatten();
    // They have the first word, in a filter of their own.
    let plain = CALLS.iter().chain(OLD_CALLS).chain(FALLEN_BACK_FROM).chain(further);
    let mut rules: Rules = plain.map(|call| (*call, Vec::new())).collect();
    memory(role, &mut rules)?;
    modes(role, &mut rules)?;
    processes(role, &mut rules)?;
    rules.insert(libc::SYS_socket, own_sockets(role)?);
    rules.insert(libc::SYS_setsockopt, socket_options(role)?);
    let pairs = [(libc::AF_UNIX, libc::SOCK_STREAM, 0), (libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)];
    rules.insert(libc::SYS_socketpair, sockets(&pairs)?);
    if role == Role::KeyServer {
        // To whom it is connected alone: neither with this flag, by which sending connects, nor to another address, as the socket that notifies systemd could. In
        // a message the address would be out of sight, so that there are none.
        let connects =
            SeccompCondition::new(3, SeccompCmpArgLen::Dword, masked(libc::MSG_FASTOPEN.cast_unsigned()), 0)?;
        let address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
        rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![connects, address])?]);
    }
    rules.insert(libc::SYS_fcntl, any_of(1, DESCRIPTOR_COMMANDS.iter().map(|command| command.cast_unsigned()))?);
    let programs = if role == Role::GateWithPrograms { PROGRAM_DEVICE_COMMANDS } else { &[] };
    rules.insert(libc::SYS_ioctl, any_of(1, DEVICE_COMMANDS.iter().chain(programs).copied())?);
    // Further filters for all threads: they can only take away.
    let further = (libc::SECCOMP_SET_MODE_FILTER, u32::try_from(libc::SECCOMP_FILTER_FLAG_TSYNC).unwrap_or(0));
    rules.insert(libc::SYS_seccomp, vec![rule(&[Is(0, WHOLE, further.0), Is(1, WHOLE, further.1)])?]);
    Ok(rules)
}

/// Applies a filter to all threads: what the rules do not meet becomes `otherwise`, the rest `then`.
fn apply(rules: Rules, otherwise: SeccompAction, then: SeccompAction) -> Result<(), String> {
    let machine = std::env::consts::ARCH.try_into().map_err(|error| format!("{error:?}"))?;
    let filter = SeccompFilter::new(rules, otherwise, then, machine).map_err(|error| error.to_string())?;
    let program: BpfProgram = filter.try_into().map_err(|error: BackendError| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

/// Fails with this error number.
fn fails(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(number.cast_unsigned())
}

/// Leaves this process the calls of its role.
pub(super) fn restrict(role: Role) -> Result<(), String> {
    let rules = rules_of(role).map_err(|error| error.to_string())?;
    // Of two filters that reject, the one that was applied last has the last word; so this one first, whose calls the other one lets pass.
    let missing = FALLEN_BACK_FROM.iter().map(|call| (*call, Vec::new())).collect();
    apply(missing, SeccompAction::Allow, fails(libc::ENOSYS))?;
    apply(rules, fails(libc::EPERM), SeccompAction::Allow)
}

/// Takes away more, once everything is bound.
pub(super) fn seal(sealed: Sealed) -> Result<(), String> {
    let Sealed { connections, unix_sockets } = sealed;
    let mut rules = Rules::new();
    if connections {
        rules.insert(libc::SYS_connect, Vec::new());
    }
    if unix_sockets {
        let made = any_of(0, [libc::AF_UNIX.cast_unsigned()]).map_err(|error| error.to_string())?;
        rules.insert(libc::SYS_socket, made);
    }
    if rules.is_empty() { Ok(()) } else { apply(rules, SeccompAction::Allow, fails(libc::EPERM)) }
}
