//! Many names with certificates, ordered by one node of a fleet and there for all.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::fleet_disk::number;
use super::fleet_faults::Run;
use super::fleet_site::{EDGES, FleetSite, Wish, name_of, wait_for};
use super::network_faults::inside;
use super::{Context, Found};

/// Names, and how many of them there are for each second that the fault is to take.
const NAMES: usize = 10_000;
const NAMES_PER_SECOND: usize = 25;

/// Longest wait for all of them.
const LONG: Duration = Duration::from_secs(3600);

/// All names get certificates, an edge joins with nothing, and one name more is served everywhere.
pub(super) fn names(context: &Context) -> io::Result<Found> {
    inside(context, |context| {
        let seconds = usize::try_from(context.time.as_secs()).unwrap_or(NAMES);
        let count = NAMES.min(seconds * NAMES_PER_SECOND);
        let mut run = Run::start(context, Wish { names: count, ..Wish::default() }, false)?;
        run.phase("ordering");
        let took = wait_until_there(&run.site, EDGES, count)?;
        run.note(format!("{count} names: ordered by one edge and on all after {took:.1?}"));
        let response = run.site.gateway(1, "/v3/maintenance/status", "{}")?;
        let size = number(&response, "dbSize").unwrap_or_default() >> 20;
        run.note(format!("etcd {size} MiB; edges {}", memory(&run.site)?));
        run.phase("an edge joins");
        join(&mut run, count)?;
        run.phase("a new name");
        let (name, took) = run.site.push_name()?;
        let more =
            wait_for("the certificate of a new name", LONG, || (1..=EDGES).all(|number| presents(number, &name)))?;
        run.note(format!("a name more: pushed after {took:.1?}, presented by all {more:.1?} later"));
        run.finish()
    })
}

/// The last edge begins anew with nothing on its disk.
fn join(run: &mut Run, count: usize) -> io::Result<()> {
    run.end_load_of(EDGES);
    run.site.renew_edge(EDGES)?;
    let served = run.site.wait_until_there(EDGES)?;
    let all = wait_until_there(&run.site, EDGES, count)?;
    let memory = run.site.memory(EDGES)?;
    run.note(format!("edge {EDGES} without anything on its disk: serves after {served:.1?}, all certificates {all:.1?} later, {memory} MiB"));
    Ok(())
}

/// Waits until each edge has certificates for all names, the last one by its handshakes: how long it took.
fn wait_until_there(site: &FleetSite, edges: u8, count: usize) -> io::Result<Duration> {
    let last = name_of(count - 1);
    wait_for("certificates for all names", LONG, || {
        let misses = |number| {
            let page = site.page(number).unwrap_or_default();
            !page.contains("portunus_acme_missing_certificates{keystore=\"names\"} 0")
        };
        !(1..=edges).any(misses) && (1..=edges).all(|number| presents(number, &last))
    })
}

fn memory(site: &FleetSite) -> io::Result<String> {
    let all = (1..=EDGES).map(|number| Ok(format!("{} MiB", site.memory(number)?)));
    Ok(all.collect::<io::Result<Vec<_>>>()?.join(", "))
}

/// Whether an edge presents a certificate for this name.
fn presents(number: u8, name: &str) -> bool {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &FleetSite::tls_edge(number).to_string(), "-servername", name]);
    client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut client) = client.spawn() else { return false };
    let Some(presented) = client.stdout.take() else { return false };
    let mut reader = Command::new("openssl");
    reader.args(["x509", "-noout", "-checkhost", name]).stdin(presented).stderr(Stdio::null());
    let read = reader.output();
    let _ = client.wait();
    read.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("does match"))
}
