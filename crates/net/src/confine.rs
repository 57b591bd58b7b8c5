//! Shuts the process in: no new privileges, only named folders and no TCP connections of its own (Landlock), only the system calls that a server needs
//! (seccomp).
//!
//! What is forbidden is forbidden to the calling thread and to all threads and children it makes afterwards, for good; so it is called before there
//! are others. A kernel without Landlock gets the rest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// What became of the files that were not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// They are out of reach.
    Closed,
    /// The kernel has no Landlock, so that they are not.
    Open,
}

/// Allows the process to read in `read`, to read, write and make files in `write`, and to make the system calls of a server; nothing else. Where the
/// kernel can forbid it (from Linux 6.7), no TCP connection can be opened either.
///
/// # Errors
/// The kernel rejected; a text for the operator.
pub fn sandbox(read: &[PathBuf], write: &[PathBuf]) -> Result<Files, String> {
    let fix = "fix this, or switch it off with `sandbox: false`";
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| format!("new privileges cannot be given up: {error}; {fix}"))?;
    let files = restrict_files(read, write).map_err(|error| format!("files cannot be closed off: {error}; {fix}"))?;
    restrict_calls().map_err(|error| format!("system calls cannot be closed off: {error}; {fix}"))?;
    Ok(files)
}

fn restrict_files(read: &[PathBuf], write: &[PathBuf]) -> Result<Files, landlock::RulesetError> {
    let abi = ABI::V3;
    let may_read = AccessFs::ReadFile | AccessFs::ReadDir;
    let may_write = may_read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::RemoveFile;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::ConnectTcp)?
        .create()?
        .set_compatibility(CompatLevel::BestEffort);
    let allowed = read.iter().map(|path| (path, may_read)).chain(write.iter().map(|path| (path, may_write)));
    for (path, access) in allowed {
        // What is not there cannot be allowed; whoever wants it says so.
        if let Ok(folder) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(folder, access))?;
        }
    }
    let is_active = rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced;
    Ok(if is_active { Files::Closed } else { Files::Open })
}

/// The calls of an event loop, of memory and threads, of reading and writing files. Not among them: running programs, tracing, mounting, loading,
/// changing users, raw devices.
#[rustfmt::skip]
const CALLS: &[libc::c_long] = &[
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_close, libc::SYS_lseek,
    libc::SYS_openat, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_getdents64, libc::SYS_readlinkat,
    libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate,
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

/// Calls that only older machine interfaces have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_CALLS: &[libc::c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_unlink, libc::SYS_rename, libc::SYS_chmod,
    libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_arch_prctl, libc::SYS_getdents,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[libc::c_long] = &[];

fn restrict_calls() -> Result<(), String> {
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    let machine = std::env::consts::ARCH.try_into().map_err(|error| format!("{error:?}"))?;
    let reject = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, reject, SeccompAction::Allow, machine).map_err(|error| error.to_string())?;
    let program: BpfProgram = filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}
