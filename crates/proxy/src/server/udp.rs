//! The UDP sockets of a server, for datagrams of UDP listeners and for HTTP/3 beside TCP: which are bound, and who of them serves what.
//!
//! ```text
//! bound → served ──wanted no more──→ leaving: nobody new, until its last connection anywhere has ended → closed
//!           ↑─────────wanted again────────┘ (HTTP/3)
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use config::{Config, Place};
use net::inherited::Kind;
use net::{Bound, Endpoint, UdpBound, UdpListener};
use tokio::task::JoinHandle;

use super::binding::{Fresh, Sockets, Taking, bind_places};
use crate::datagram;
use crate::listener;
use crate::udp_group::{Group, Reins};
use crate::worker::Worker;

/// Groups that are configured no more, as long as they are there.
pub(super) type Leaving = BTreeMap<Place<SocketAddr>, Weak<Group>>;

/// The UDP sockets of a configuration: the listener's name, the place, and that of the TCP socket beside it, whose port it shares.
pub(super) fn places(config: &Config) -> impl Iterator<Item = (&str, Place<SocketAddr>, Option<Place<Endpoint>>)> {
    let datagrams = config.udp_listeners.iter();
    let datagrams = datagrams.flat_map(|one| one.places().map(|place| (&*one.name, place, None)));
    let http3 = config.listeners.iter().filter(|listener| listener.options.http3.is_served);
    let beside = |place: Place<Endpoint>| place.of_udp().map(|udp| (udp, Some(place)));
    datagrams
        .chain(http3.flat_map(move |one| one.places().filter_map(beside).map(|(udp, place)| (&*one.name, udp, place))))
}

/// Binds what is configured and not bound, or takes what was passed for it, or what is about to leave. `bound`: the TCP sockets.
pub(super) fn bind_missing(
    config: &Config,
    bound: &Sockets<Endpoint, Bound>,
    (groups, leaving): (&mut Sockets<SocketAddr, Arc<Group>>, &Leaving),
    sockets: &mut Taking<'_>,
) -> Result<Fresh<SocketAddr, Arc<Group>>, Vec<String>> {
    let turned = places(config)
        .filter(|(_, place, beside)| groups.get(place).is_some_and(|group| group.serves_http3 != beside.is_some()));
    let explain = |(listener, place, _): (&str, Place<SocketAddr>, _)| {
        format!(
            "listener {listener}: {} cannot turn from datagrams to HTTP/3 or back at a reload; `portunus upgrade` or a restart does it",
            place.address
        )
    };
    let problems: Vec<String> = turned.map(explain).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let beside: BTreeMap<_, _> = places(config).filter_map(|(_, place, beside)| Some((place, beside?))).collect();
    let bind = |place: &Place<SocketAddr>| {
        let beside = beside.get(place);
        if let Some(group) = leaving.get(place).and_then(Weak::upgrade) {
            return if group.serves_http3 && beside.is_some() { Ok(group) } else { Err(io::Error::other(STILL_THERE)) };
        }
        let bound = match sockets.inherited.take(Kind::Udp, &place.key()) {
            passed if passed.is_empty() => {
                let tcp = beside.and_then(|place| bound.get(place)).map(Bound::endpoint);
                let address = if let Some(Endpoint::Tcp(address)) = tcp { *address } else { place.address };
                UdpBound::bind(address, sockets.workers)
            }
            passed => UdpBound::adopt(passed, sockets.workers),
        };
        let group = Group::new(bound?, beside.is_some());
        group.follow(place, sockets.inherited);
        Ok(group)
    };
    bind_places(places(config).map(|(name, place, _)| (name, place)), groups, bind, |_| {})
}

const STILL_THERE: &str =
    "what came to it under an earlier configuration has not ended yet; try again later, or use `portunus upgrade`";

/// A task that serves one socket.
pub(super) struct Serving {
    group: Arc<Group>,
    position: usize,
    reins: Rc<Reins>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Takes in nobody new from now on.
    pub(super) fn close(&self) {
        self.reins.pull(false);
    }

    /// Has it look for links to another process.
    pub(super) fn look(&self) {
        self.reins.look();
    }

    fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

/// Keeps house among what is served: counts, and forgets what has ended.
pub(super) fn tidy(serving: &mut BTreeMap<Place<SocketAddr>, Vec<Serving>>, worker: &Worker) {
    serving.retain(|place, tasks| {
        tasks.first().inspect(|task| task.group.count_passed(place, worker));
        !tasks.iter().all(Serving::is_over)
    });
}

/// Serves the sockets of a group that are worker `index`'s. `before`: what served them, if they had been let go.
pub(super) fn serve(
    worker: &Rc<Worker>,
    index: usize,
    group: &Arc<Group>,
    place: &Place<SocketAddr>,
    before: Vec<Serving>,
) -> Vec<Serving> {
    let goes_on = |serving: &Serving| Arc::ptr_eq(&serving.group, group) && !serving.is_over();
    let mut all: Vec<Serving> = before.into_iter().filter(goes_on).collect();
    all.iter().for_each(|serving| serving.reins.pull(true));
    let missing = |position: &usize| all.iter().all(|serving| serving.position != *position);
    let positions: Vec<usize> = group.bound.positions(index).filter(missing).collect();
    for position in positions {
        match group.bound.listener(position) {
            Ok(listener) => all.push(begin(listener, position, worker, group, place)),
            Err(error) => tracing::error!(address = %place.address, %error, "cannot serve UDP"),
        }
    }
    all
}

fn begin(
    listener: UdpListener,
    position: usize,
    worker: &Rc<Worker>,
    group: &Arc<Group>,
    place: &Place<SocketAddr>,
) -> Serving {
    let reins = Rc::new(Reins::default());
    let (place, worker, ends) = (place.clone(), Rc::clone(worker), Rc::clone(&reins));
    let task = if group.serves_http3 {
        tokio::task::spawn_local(listener::quic::serve(listener, place, worker, (Arc::clone(group), ends)))
    } else {
        tokio::task::spawn_local(datagram::serve(listener, place, worker, ends))
    };
    Serving { group: Arc::clone(group), position, reins, task }
}
