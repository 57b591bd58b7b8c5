//! Faults of the network: loss, a narrow link, small packets, a link that goes away.
//!
//! Each runs in a network namespace of its own, which a thread enters and its processes inherit; the loopback interface in there is what is made
//! worse, on all hops alike: client to gate, gate to upstreams. The namespace ends with its last process. This needs root, `nft`, `tc` and `ip`.

use std::io;
use std::process::Command;
use std::time::Duration;

use rustix::thread::UnshareFlags;

use super::client::{Load, Plan, load_for};
use super::ledger::Asked;
use super::site::{Site, Wish};
use super::{Context, Found, percentile};
use crate::peers::pause;

/// How long the link is away, if the time allows.
const FLAP: Duration = Duration::from_secs(5);

/// Packets lost, of a hundred, on every hop.
pub(super) fn loss(context: &Context) -> io::Result<Found> {
    inside(context, |context| {
        let mut site = Site::start(&context.portunus, Wish::default())?;
        let (mut asked, mut notes) = (Vec::new(), Vec::new());
        command("nft", "add table inet faults")?;
        command("nft", "add chain inet faults input { type filter hook input priority 0 ; }")?;
        for lost in [0, 1, 5, 10] {
            command("nft", "flush chain inet faults input")?;
            if lost > 0 {
                command("nft", &format!("add rule inet faults input numgen random mod 100 < {lost} drop"))?;
            }
            let some = load_for(Plan::usual(site.plain()), context.time / 4);
            notes.push(format!("{lost} %: {}", reported(&some)));
            asked.extend(some);
        }
        command("nft", "flush chain inet faults input")?;
        notes.push(upstream_load(&site, &asked)?);
        Ok(Found { decision: site.check(&asked)?, notes })
    })
}

/// A megabit a second for everything together.
pub(super) fn narrow(context: &Context) -> io::Result<Found> {
    inside(context, |context| {
        command("ip", "link set lo mtu 1500")?;
        let mut site = Site::start(&context.portunus, Wish::default())?;
        command("tc", "qdisc add dev lo root tbf rate 1mbit burst 16kb latency 400ms")?;
        let plan = Plan { prefix: "/steady", clients: 4, sizes: &[0, 100, 2_000], ..Plan::usual(site.plain()) };
        let asked = load_for(plan, context.time);
        command("tc", "qdisc del dev lo root")?;
        let notes = vec![reported(&asked), upstream_load(&site, &asked)?];
        Ok(Found { decision: site.check(&asked)?, notes })
    })
}

/// Packets of 1,280 bytes at the most.
pub(super) fn small_packets(context: &Context) -> io::Result<Found> {
    inside(context, |context| {
        let mut site = Site::start(&context.portunus, Wish::default())?;
        let load = Load::start(Plan::usual(site.plain()));
        pause(context.time / 2);
        command("ip", "link set lo mtu 1280")?;
        pause(context.time / 2);
        let asked = load.finish();
        let notes = vec![reported(&asked), upstream_load(&site, &asked)?];
        Ok(Found { decision: site.check(&asked)?, notes })
    })
}

/// The link goes away and comes back, with requests under way.
pub(super) fn flap(context: &Context) -> io::Result<Found> {
    inside(context, |context| {
        let mut site = Site::start(&context.portunus, Wish::default())?;
        let load = Load::start(Plan { wait: Duration::from_millis(30), ..Plan::usual(site.plain()) });
        pause(context.time / 4);
        let from = load.started.elapsed();
        command("ip", "link set lo down")?;
        let away = FLAP.min(context.time / 2);
        pause(away);
        command("ip", "link set lo up")?;
        let to = load.started.elapsed();
        pause(context.time / 2);
        let asked = load.finish();
        let met: Vec<Asked> =
            asked.iter().filter(|one| one.began < to && one.began + one.took > from).copied().collect();
        let after: Vec<Asked> = asked.iter().filter(|one| one.began >= to).copied().collect();
        let notes = vec![
            format!("away for {away:.0?}; under way or begun then: {}", reported(&met)),
            format!("begun later: {}", reported(&after)),
            upstream_load(&site, &asked)?,
        ];
        Ok(Found { decision: site.check(&asked)?, notes })
    })
}

/// Runs in a network namespace of its own, whose loopback interface is up.
pub(super) fn inside(context: &Context, run: impl FnOnce(&Context) -> io::Result<Found> + Send) -> io::Result<Found> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Only the network is taken apart, and only for this thread and what it starts: no descriptor changes its meaning.
            #[expect(deprecated, reason = "unsound only where descriptors are unshared")]
            rustix::thread::unshare(UnshareFlags::NEWNET)?;
            command("ip", "link set lo up")?;
            run(context)
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the fault's thread panicked")))
    })
}

/// As [`inside`], with mounts of its own, too.
pub(super) fn inside_with_mounts(
    context: &Context,
    run: impl FnOnce(&Context) -> io::Result<Found> + Send,
) -> io::Result<Found> {
    inside(context, |context| {
        // It takes the working folder of this thread apart from that of the others, which nobody changes.
        #[expect(deprecated, reason = "unsound only where descriptors are unshared")]
        rustix::thread::unshare(UnshareFlags::NEWNS)?;
        command("mount", "--make-rprivate /")?;
        run(context)
    })
}

/// Runs a program, whose words are parted by blanks.
pub(super) fn command(program: &str, words: &str) -> io::Result<()> {
    let output = Command::new(program).args(words.split(' ')).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("{program} {words}: {}", error.trim()))) }
}

fn reported(asked: &[Asked]) -> String {
    let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
    let took = |share| percentile(asked.iter().map(|one| one.took), share);
    format!("{} requests, {unhappy} not OK, p50 {:.1?}, p99 {:.1?}", asked.len(), took(0.5), took(0.99))
}

/// How many times more upstreams were asked than we were.
fn upstream_load(site: &Site, asked: &[Asked]) -> io::Result<String> {
    let heads = site.noted()?.iter().filter(|noted| matches!(noted.seen, super::ledger::Seen::Head(_))).count();
    Ok(format!("upstreams were asked {:.3} times as often (aim 1.1 at most)", heads as f64 / asked.len().max(1) as f64))
}
