//! A store of a fleet that has no space left: the disks of its members, and its own quota.

use std::fs::{self, File};
use std::io::{self, Write as _};

use super::fleet_faults::Run;
use super::fleet_site::{FleetSite, MEMBERS, Wish};
use super::network_faults::{inside, inside_with_mounts};
use super::{Context, Found};
use crate::peers::pause;

/// The disk of a member: its log takes two files of 64 MB before anything is written.
const DISK: &str = "160m";

/// The quota of a member, bytes.
const QUOTA: u64 = 16 << 20;

/// What fills a store: values of so many bytes, and how many of them at most.
const VALUE_BYTES: usize = 1 << 20;
const MOST_VALUES: usize = 200;

/// In base64: the names of what fills it begin with `/junk/`, and `/junk0` comes next.
const JUNK: &str = "L2p1bmsv";
const BEHIND_JUNK: &str = "L2p1bmsw";

/// Writes values until the store takes no more: how many it took, and what it said.
fn fill(site: &FleetSite) -> (usize, String) {
    // Base64 of zeros.
    let value = "A".repeat(VALUE_BYTES / 3 * 4);
    for number in 0..MOST_VALUES {
        let body = format!("{{\"key\":\"{JUNK}{number:04}\",\"value\":\"{value}\"}}");
        if let Err(error) = site.gateway(1, "/v3/kv/put", &body) {
            let text = error.to_string();
            // The response's body, or why there is none.
            let line = text.lines().rfind(|line| line.starts_with('{')).or(text.lines().next()).unwrap_or_default();
            return (number, line.chars().take(80).collect::<String>().replace('|', "/"));
        }
    }
    (MOST_VALUES, "it took all".to_owned())
}

/// The disks of all members are full, to the last byte; then there is space again.
pub(super) fn disk_full(context: &Context) -> io::Result<Found> {
    inside_with_mounts(context, |context| {
        let mut run = Run::start(context, Wish { disk: Some(DISK), ..Wish::default() }, false)?;
        run.phase("no space left");
        for number in 1..=MEMBERS {
            fill_disk(&mut File::create(run.site.disk(number).join("filler"))?)?;
        }
        let (taken, said) = fill(&run.site);
        run.note(format!("after {taken} values of 1 MiB: {said}"));
        run.push("without space (aim: not done)", &["--all"]);
        pause(context.time / 2);
        let ended = (1..=MEMBERS).filter(|number| run.site.has_ended(*number)).count();
        run.note(format!("{ended} of {MEMBERS} members had ended"));
        run.phase("space again");
        for number in 1..=MEMBERS {
            fs::remove_file(run.site.disk(number).join("filler"))?;
            run.site.kill_member(number);
            run.site.start_member(number)?;
        }
        let took = run.site.wait_until_connected()?;
        run.note(format!("all edges connected {took:.1?} after the members' start"));
        run.push("with space again", &["--all"]);
        run.finish()
    })
}

fn fill_disk(file: &mut File) -> io::Result<()> {
    for size in [1 << 20, 1 << 12, 1] {
        let block = vec![0; size];
        loop {
            match file.write_all(&block) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The members have as much as they may have, and raise the alarm NOSPACE; then an operator makes space and lifts it.
pub(super) fn quota_reached(context: &Context) -> io::Result<Found> {
    inside(context, |context| {
        let mut run = Run::start(context, Wish { quota: Some(QUOTA), ..Wish::default() }, false)?;
        run.phase("NOSPACE");
        let (taken, said) = fill(&run.site);
        run.note(format!("after {taken} values of 1 MiB: {said}"));
        run.push("under the alarm (aim: not done)", &["--all"]);
        pause(context.time / 2);
        run.phase("alarm lifted");
        let body = format!("{{\"key\":\"{JUNK}\",\"range_end\":\"{BEHIND_JUNK}\"}}");
        let response = run.site.gateway(1, "/v3/kv/deleterange", &body)?;
        let revision = number(&response, "revision").ok_or_else(|| io::Error::other("no revision"))?;
        run.site.gateway(1, "/v3/kv/compaction", &format!("{{\"revision\":\"{revision}\",\"physical\":true}}"))?;
        for member in 1..=MEMBERS {
            run.site.gateway(member, "/v3/maintenance/defragment", "{}")?;
        }
        lift_alarms(&run.site)?;
        let took = run.site.wait_until_connected()?;
        run.note(format!("all edges connected {took:.1?} after the alarm was lifted"));
        run.push("without the alarm", &["--all"]);
        run.finish()
    })
}

/// Lifts the alarms of all members.
fn lift_alarms(site: &FleetSite) -> io::Result<()> {
    let raised = site.gateway(1, "/v3/maintenance/alarm", "{\"action\":\"GET\"}")?;
    for part in raised.split("\"memberID\":\"").skip(1) {
        let member = part.split('"').next().unwrap_or_default();
        let body = format!("{{\"action\":\"DEACTIVATE\",\"memberID\":\"{member}\",\"alarm\":\"NOSPACE\"}}");
        site.gateway(1, "/v3/maintenance/alarm", &body)?;
    }
    Ok(())
}

/// A number in a response of the gateway, which writes it as a text.
pub(super) fn number(response: &str, name: &str) -> Option<u64> {
    let (_, rest) = response.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_responses() {
        let response = "{\"header\":{\"revision\":\"17\",\"raft_term\":\"2\"},\"dbSize\":\"4096\"}";
        assert_eq!((number(response, "revision"), number(response, "dbSize")), (Some(17), Some(4096)));
        assert_eq!(number(response, "size"), None);
    }
}
