//! Shuts the process in: no new privileges, only named folders (Landlock), only the system calls that a server needs (seccomp), and for a role that calls
//! nobody no TCP connections of its own.
//!
//! What is forbidden is forbidden to the calling thread and to all threads and children it makes afterwards, for good; so it is called before there
//! are others. A kernel without Landlock gets the rest. Which capabilities are kept is for `capabilities.rs`.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// What became of the files that were not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They are out of reach.
    Closed,
    /// The kernel has no Landlock, so that they are not.
    Open,
}

/// What a process does, and so what it is left with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes connections and opens none.
    KeyServer,
    /// Takes connections, opens others, and carries bytes between them.
    Gate,
    /// The same, and runs programs that its configuration names, which are shut in with it.
    GateWithPrograms,
}

/// Places in the file system by what may be done there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Reading.
    pub read: Vec<PathBuf>,
    /// Reading, writing, making and removing files.
    pub write: Vec<PathBuf>,
    /// Reading, and running what is there.
    pub run: Vec<PathBuf>,
}

/// What was closed off, each part by itself; a text for the operator where it could not be.
#[derive(Debug)]
pub struct Confined {
    /// New privileges, as set-user-ID programs have them.
    pub privileges: Result<(), String>,
    /// Files.
    pub files: Result<Files, String>,
    /// System calls.
    pub calls: Result<(), String>,
}

/// Allows the process what `places` says, and the system calls of its role; nothing else. A key server cannot open TCP connections either, where the kernel
/// can forbid that (from Linux 6.7).
pub fn confine(role: Role, places: &Places) -> Confined {
    let privileges = rustix::thread::set_no_new_privs(true);
    let privileges = privileges.map_err(|error| format!("new privileges cannot be given up: {error}"));
    let files = restrict_files(role, places);
    let files = files.map_err(|error| format!("files cannot be closed off: {error}"));
    let calls = restrict_calls(role).map_err(|error| format!("system calls cannot be closed off: {error}"));
    Confined { privileges, files, calls }
}

/// The same, all or nothing, for a key server.
///
/// # Errors
/// The kernel rejected; a text for the operator.
pub fn sandbox(read: &[PathBuf], write: &[PathBuf]) -> Result<Files, String> {
    let places = Places { read: read.to_vec(), write: write.to_vec(), run: Vec::new() };
    let Confined { privileges, files, calls } = confine(Role::KeyServer, &places);
    let closed = privileges.and(calls).and(files);
    closed.map_err(|problem| format!("{problem}; fix this, or switch it off with `sandbox: false`"))
}

/// The version of Landlock in this kernel; none if it has none, or it is switched off.
pub fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_ulong = 1;
    // SAFETY: asks for a number; no memory is passed.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

fn restrict_files(role: Role, places: &Places) -> Result<Files, landlock::RulesetError> {
    let abi = ABI::V3;
    let may_read = AccessFs::ReadFile | AccessFs::ReadDir;
    let may_write = may_read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::RemoveFile;
    // The gate keeps certificates that it orders in folders of its own.
    let may_write = if role == Role::KeyServer { may_write } else { may_write | AccessFs::MakeDir };
    let may_run = may_read | AccessFs::Execute;
    let mut handled =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(abi))?;
    if role == Role::KeyServer {
        handled = handled.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut rules = handled.create()?.set_compatibility(CompatLevel::BestEffort);
    let Places { read, write, run } = places;
    let allowed = read.iter().map(|path| (path, may_read)).chain(write.iter().map(|path| (path, may_write)));
    let allowed = allowed.chain(run.iter().map(|path| (path, may_run)));
    for (path, access) in allowed {
        // What is not there cannot be allowed; whoever wants it says so. Pipes and sockets by the name of a descriptor need no leave.
        let Ok(found) = std::fs::metadata(path) else { continue };
        let access = match found.file_type() {
            kind if kind.is_dir() => access,
            kind if kind.is_file() || kind.is_char_device() || kind.is_fifo() => access & of_files(),
            _ => continue,
        };
        if let Ok(place) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(place, access))?;
        }
    }
    let is_active = rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced;
    Ok(if is_active { Files::Closed } else { Files::Open })
}

/// What can be allowed of something that is no folder.
fn of_files() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::Execute
}

/// The calls of an event loop, of memory and threads, of reading and writing files. Not among them: running programs, tracing, mounting, loading,
/// changing users, raw devices.
#[rustfmt::skip]
const CALLS: &[libc::c_long] = &[
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_close, libc::SYS_lseek,
    libc::SYS_openat, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_getdents64, libc::SYS_readlinkat,
    libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate,
    libc::SYS_getcwd, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fcntl, libc::SYS_ioctl, libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2,
    libc::SYS_inotify_init1, libc::SYS_inotify_add_watch, libc::SYS_inotify_rm_watch,
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept4, libc::SYS_accept, libc::SYS_connect, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_shutdown, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_sendmsg, libc::SYS_recvmsg,
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_ppoll, libc::SYS_eventfd2,
    libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_signalfd4,
    libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise, libc::SYS_brk, libc::SYS_mlock, libc::SYS_mlock2,
    libc::SYS_munlock, libc::SYS_membarrier, libc::SYS_mincore,
    libc::SYS_clone, libc::SYS_clone3, libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_set_tid_address, libc::SYS_rseq, libc::SYS_gettid,
    libc::SYS_getpid, libc::SYS_tgkill, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity, libc::SYS_setpriority, libc::SYS_getpriority, libc::SYS_prctl, libc::SYS_getrandom, libc::SYS_sysinfo, libc::SYS_uname, libc::SYS_getrusage,
    libc::SYS_prlimit64, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getcpu,
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_gettimeofday,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
];

/// What the gate needs beside: carrying bytes and datagrams without a look at them, folders and locks of certificates that it orders, databases of front
/// doors. Opening connections is among those above, and kept from a key server by Landlock.
#[rustfmt::skip]
const GATE_CALLS: &[libc::c_long] = &[
    libc::SYS_splice, libc::SYS_tee, libc::SYS_sendfile, libc::SYS_sendmmsg, libc::SYS_recvmmsg, libc::SYS_copy_file_range, libc::SYS_preadv, libc::SYS_pwritev,
    libc::SYS_mkdirat, libc::SYS_flock, libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_utimensat, libc::SYS_umask,
    libc::SYS_capget, libc::SYS_pselect6,
];

/// What it takes to run a program and to end it, and what shells and small tools are made of beside.
#[rustfmt::skip]
const PROGRAM_CALLS: &[libc::c_long] = &[
    libc::SYS_execve, libc::SYS_execveat, libc::SYS_waitid, libc::SYS_kill, libc::SYS_setpgid, libc::SYS_getpgid, libc::SYS_setsid, libc::SYS_getsid, libc::SYS_getppid,
    libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigpending,
    libc::SYS_getgroups, libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_times, libc::SYS_setitimer, libc::SYS_getitimer, libc::SYS_symlinkat, libc::SYS_linkat,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
];

/// Calls that only older machine interfaces have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_CALLS: &[libc::c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_unlink, libc::SYS_rename, libc::SYS_chmod,
    libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_arch_prctl, libc::SYS_getdents, libc::SYS_mkdir,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[libc::c_long] = &[];

/// The same of programs.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_PROGRAM_CALLS: &[libc::c_long] = &[
    libc::SYS_vfork, libc::SYS_fork, libc::SYS_pipe, libc::SYS_dup2, libc::SYS_getpgrp, libc::SYS_select, libc::SYS_pause, libc::SYS_alarm, libc::SYS_time, libc::SYS_getrlimit,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_PROGRAM_CALLS: &[libc::c_long] = &[];

/// Memory that can be executed is what code that was smuggled in would need. Ours is mapped before we shut ourselves in, so that no more of it is needed, whether
/// new, changed or out of a file; a file that only memory holds (`memfd_create`) is not among the calls at all. Where programs are run, their loader maps
/// code out of files, so that only memory that can be written as well is denied.
fn only_plain_memory(role: Role, rules: &mut BTreeMap<i64, Vec<SeccompRule>>) -> Result<(), seccompiler::BackendError> {
    const PROTECTION: u8 = 2;
    let without = |bit: libc::c_int| {
        let bit = u64::from(bit.unsigned_abs());
        let is_unset = SeccompCondition::new(PROTECTION, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bit), 0)?;
        SeccompRule::new(vec![is_unset])
    };
    rules.insert(libc::SYS_mprotect, vec![without(libc::PROT_EXEC)?]);
    let mut mapped = vec![without(libc::PROT_EXEC)?];
    if role == Role::GateWithPrograms {
        mapped.push(without(libc::PROT_WRITE)?);
    }
    rules.insert(libc::SYS_mmap, mapped);
    Ok(())
}

fn restrict_calls(role: Role) -> Result<(), String> {
    let further: &[&[libc::c_long]] = match role {
        Role::KeyServer => &[],
        Role::Gate => &[GATE_CALLS],
        Role::GateWithPrograms => &[GATE_CALLS, PROGRAM_CALLS, OLD_PROGRAM_CALLS],
    };
    let further = further.iter().copied().flatten();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.iter().chain(OLD_CALLS).chain(further).map(|call| (*call, Vec::new())).collect();
    only_plain_memory(role, &mut rules).map_err(|error| error.to_string())?;
    let machine = std::env::consts::ARCH.try_into().map_err(|error| format!("{error:?}"))?;
    let reject = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, reject, SeccompAction::Allow, machine).map_err(|error| error.to_string())?;
    let program: BpfProgram = filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}
