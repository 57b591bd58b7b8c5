//! What the program asks of the kernel for itself: descriptors, cores, core dumps, signals to its children.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, wait, waitpid};

/// Raises the soft limit of open descriptors to the hard one; returns the limit now active.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Rejected only where a sandbox says so; then the old limit stays.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    DESCRIPTORS.store(now, Ordering::Relaxed);
    now
}

/// What was last found.
static DESCRIPTORS: AtomicU64 = AtomicU64::new(u64::MAX);

/// What [`raise_descriptor_limit`] returned last, without asking the kernel, which a sandbox may forbid; without end where it was never called.
pub fn descriptors() -> u64 {
    DESCRIPTORS.load(Ordering::Relaxed)
}

/// The user whose rights the process has; 0 is root.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How many threads this process has; none if the kernel does not say.
pub fn threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Makes a process of the same program that goes on beside this one: `beside` is called there, and when it returns, that process ends. It is given one
/// descriptor and the three standard ones, of which the input is empty; all others are closed. Signals that end or interrupt servers are left to this process.
///
/// # Errors
/// This process has other threads, whose locks nobody would ever open there; or the kernel rejects.
pub fn fork(keep: std::os::fd::OwnedFd, beside: impl FnOnce(std::os::fd::OwnedFd)) -> io::Result<Forked> {
    if threads().is_some_and(|threads| threads > 1) {
        return Err(io::Error::other("there are other threads already"));
    }
    // SAFETY: there are no other threads, so that all of the program may go on in the new process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let name = c"portunus-launch";
            let prepared = close_all_but(&keep).and_then(|()| Ok(rustix::thread::set_name(name)?));
            ignore_signals();
            if prepared.is_ok() {
                beside(keep);
            }
            // SAFETY: ends this process at once; what the other one has to do at its end is not done twice.
            unsafe { libc::_exit(0) }
        }
        child => Ok(Forked(Pid::from_raw(child))),
    }
}

/// A process that [`fork`] made; none once it is known to have ended.
#[derive(Debug, Default)]
pub struct Forked(Option<Pid>);

impl Forked {
    /// Whether it has ended, however that was. Does not wait for it.
    pub fn has_ended(&mut self) -> bool {
        // Its number is its own until its end was seen here, and is not asked about afterwards.
        self.0 = self.0.filter(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
        self.0.is_none()
    }
}

/// Closes every descriptor but this one and the standard ones, of which the input is emptied.
fn close_all_but(keep: &std::os::fd::OwnedFd) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    let keep = keep.as_raw_fd();
    let opened: Vec<libc::c_int> = match std::fs::read_dir("/proc/self/fd") {
        Ok(opened) => opened.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect(),
        Err(_) => (0..65_536).collect(),
    };
    for descriptor in opened.into_iter().filter(|descriptor| *descriptor > 2 && *descriptor != keep) {
        // SAFETY: nothing in this process uses them: it runs nothing but `beside`, which has been given its own.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Leaves signals to another process of the same terminal or service. They are caught, and neither ignored nor blocked, which programs that are started from
/// here would inherit.
fn ignore_signals() {
    extern "C" fn leave_it(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = leave_it;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Has the kernel kill a child, which is not started yet, when the thread that starts it ends, however that is.
pub fn end_with_this_thread(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    let ask = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec this makes one system call, and allocates nothing.
    _ = unsafe { command.pre_exec(ask) };
}

/// Sends SIGHUP to a child that has not been waited for: until then nobody else has its number, also when it has ended.
///
/// # Errors
/// There is no such process, or it belongs to somebody else.
pub fn hang_up(child: u32) -> io::Result<()> {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, Signal::HUP)?)
}

/// Whether this is the first process of a container: when it ends, the kernel ends all others there.
pub fn is_first() -> bool {
    std::process::id() == 1
}

/// Has processes whose parents have ended become children of this one.
///
/// # Errors
/// The kernel rejects.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Waits for no child, but for those that have ended: how the last one did that ended with a failure. None while there are others.
pub fn reap(failed: &mut Option<String>) -> Option<Option<String>> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((_, status))) if status.exit_status() == Some(0) => {}
            Ok(Some((pid, status))) => {
                let how = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => format!("exit status {code}"),
                    (_, signal) => format!("signal {}", signal.unwrap_or_default()),
                };
                *failed = Some(format!("process {}: {how}", pid.as_raw_nonzero()));
            }
            Ok(None) => return None,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Some(failed.take()),
        }
    }
}

/// Sends a signal to all processes that this one has started or adopted, and to those that they have.
///
/// # Errors
/// There is none, or none that may be sent it.
pub fn signal_descendants(signal: Signal) -> io::Result<()> {
    let mut sent = std::collections::BTreeSet::new();
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    // Some may be made while we look.
    loop {
        let new: Vec<u32> = descendants()?.into_iter().filter(|pid| sent.insert(*pid)).collect();
        for pid in new.iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            let done = kill_process(pid, signal);
            outcome = if outcome.is_ok() { Ok(()) } else { done.map_err(Into::into) };
        }
        if new.is_empty() {
            return outcome;
        }
    }
}

/// The processes that this one has started or adopted, and those that they have.
fn descendants() -> io::Result<Vec<u32>> {
    let all = std::fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The parent's number is the second field behind the name, which may hold anything (proc_pid_stat(5)).
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let mut others: Vec<(u32, u32)> = all.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let (mut found, mut parents) = (Vec::new(), vec![std::process::id()]);
    while !parents.is_empty() {
        let (children, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, above)| parents.contains(above));
        parents = children.into_iter().map(|(pid, _)| pid).collect();
        found.extend(&parents);
        others = rest;
    }
    Ok(found)
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
    // Who may, has no limit: memory that is made later is locked, too, when the privilege to lock any amount may be gone.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
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

/// Whether this process may lock no more memory than a limit says, unless it has `CAP_IPC_LOCK`.
pub fn is_locking_limited() -> bool {
    getrlimit(Resource::Memlock).current.is_some()
}

/// Lowers the priority of the calling thread below that of others of the process. Does nothing where that is forbidden.
pub fn lower_priority(niceness: i32) {
    let _ = rustix::process::setpriority_process(None, niceness);
}

/// The processor time that the calling thread has taken.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Neither is negative (clock_gettime(2)).
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
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
