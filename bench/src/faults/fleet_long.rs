//! All faults of a fleet's stores in one run, one after the other and again, until as many requests were made as are asked for.

use std::io;
use std::time::{Duration, Instant};

use super::client::made;
use super::fleet_faults::{
    Run, each_member, edge_cut_off, members_parted, no_etcd, pushes_in_a_row, redis_away, staged_under_faults,
};
use super::fleet_site::Wish;
use super::network_faults::inside;
use super::{Context, Found};

/// How long one of the faults lasts, about.
const PART: Duration = Duration::from_secs(12);

/// Everything, again and again.
pub(super) fn all(context: &Context) -> io::Result<Found> {
    inside(context, |context| {
        let (started, first) = (Instant::now(), made());
        let mut run = Run::start(context, Wish::default(), true)?;
        let part = PART.min(context.time);
        let faults: [fn(&mut Run, Duration) -> io::Result<()>; 7] =
            [each_member, no_etcd, edge_cut_off, members_parted, redis_away, staged_under_faults, |run, _| {
                pushes_in_a_row(run)
            }];
        let (mut rounds, mut notes) = (0, usize::MAX);
        while rounds == 0 || started.elapsed() < context.time || made() - first < context.requests {
            for fault in faults {
                fault(&mut run, part)?;
                run.phase("between faults");
            }
            // What one round showed says enough.
            notes = run.keep_notes(notes);
            rounds += 1;
        }
        run.note(format!("{rounds} rounds of 7 faults in {:.0?}", started.elapsed()));
        run.finish()
    })
}
