//! What the program asks of the kernel for itself: descriptors, cores, core dumps, signals to its children.

use std::io;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Raises the soft limit of open descriptors to the hard one; returns the limit now active.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Rejected only where a sandbox says so; then the old limit stays.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The user whose rights the process has; 0 is root.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Sends SIGHUP to a child that has not been waited for: until then nobody else has its number, also when it has ended.
///
/// # Errors
/// There is no such process, or it belongs to somebody else.
pub fn hang_up(child: u32) -> io::Result<()> {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, Signal::HUP)?)
}

/// Lets a closed pipe end the process, as it ends other tools (`portunus check ... | head -1`). For commands that print and end, never for servers:
/// a client that is gone would end them.
pub fn end_on_closed_pipe() {
    // SAFETY: sets the disposition of a signal to its default; no handler of ours is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Core dumps would hold private keys: none are written, and other processes of this user cannot attach.
///
/// Three ways, each for where another fails. Not being dumpable (prctl(2)) holds for every dump, but a debugger as root may write one of its own; the
/// limit does not hold where dumps go to a program (core(5)); the filter leaves out all memory, present and future, whoever writes the dump, as
/// `MADV_DONTDUMP` on every mapping would: keys lie on the ordinary heap, and so may what a computation leaves behind.
///
/// # Errors
/// The kernel rejected one of the first two.
pub fn forbid_core_dumps() -> io::Result<()> {
    // First, as the file belongs to root once the process is not dumpable. Not there without /proc, or in kernels without core dumps.
    let _ = std::fs::write("/proc/self/coredump_filter", "0");
    // Each also where the other is rejected.
    let undumpable = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(undumpable?)
}

/// Keeps all memory of this process, present and future, out of swap, where a key would outlive it. Pages count once they are touched.
///
/// # Errors
/// The limit forbids it; a text for the operator.
pub fn lock_memory() -> Result<(), String> {
    use rustix::mm::MlockAllFlags;
    let limit = getrlimit(Resource::Memlock);
    if limit.current != limit.maximum {
        // Rejected only where a sandbox says so; then the old limit stays.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(flags).map_err(|error| {
        let limit = getrlimit(Resource::Memlock).current.map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
        format!(
            "memory cannot be locked: {error} (limit: {limit}); allow it with `LimitMEMLOCK=infinity` in the systemd unit or `ulimit -l unlimited`, or accept that keys may reach swap with `lock_memory: false`"
        )
    })
}

/// Lowers the priority of the calling thread below that of others of the process. Does nothing where that is forbidden.
pub fn lower_priority(niceness: i32) {
    let _ = rustix::process::setpriority_process(None, niceness);
}

/// CPUs this process may run on, in order.
pub fn allowed_cores() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// Pins the calling thread. Does nothing where that is forbidden.
pub fn pin_to_core(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
