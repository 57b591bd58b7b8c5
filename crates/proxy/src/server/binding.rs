//! Which sockets a configuration wants, and how it gets them: those that are bound, those that were passed, and new ones. All of them, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt;

use config::{Bindable, Config, Place};
use net::{Bound, Endpoint, Inherited};

/// Bound sockets, by what was configured.
pub(super) type Sockets<A, S> = BTreeMap<Place<A>, S>;

/// Those that were bound just now.
pub(super) type Fresh<A, S> = Vec<(Place<A>, S)>;

/// Takes out the sockets that are wanted no more.
pub(super) fn take_gone<A: Bindable, S>(
    bound: &mut Sockets<A, S>,
    wanted: impl Iterator<Item = Place<A>>,
) -> Sockets<A, S> {
    let wanted: BTreeSet<Place<A>> = wanted.collect();
    let (kept, gone) = std::mem::take(bound).into_iter().partition(|(place, _)| wanted.contains(place));
    *bound = kept;
    gone
}

/// Where sockets are taken from before one is made, and how many workers they are for.
pub(super) struct Taking<'i> {
    pub(super) workers: usize,
    pub(super) inherited: &'i mut Inherited,
}

/// Binds the listeners that are not bound, or takes the sockets that were passed for them.
pub(super) fn bind_missing(
    config: &Config,
    bound: &mut Sockets<Endpoint, Bound>,
    sockets: &mut Taking<'_>,
) -> Result<Fresh<Endpoint, Bound>, Vec<String>> {
    let places =
        || config.listeners.iter().flat_map(|listener| listener.places().map(|place| (&*listener.name, place)));
    let unix = config.listeners.iter().flat_map(|one| one.places().map(|place| (place, one.unix_socket.mode)));
    let modes: BTreeMap<_, _> = unix.filter(|(place, _)| matches!(place.address, Endpoint::Unix(_))).collect();
    let bind = |place: &Place<Endpoint>| {
        let mode = modes.get(place).copied().unwrap_or_default();
        match sockets.inherited.take(place.address.kind(), &place.key()) {
            passed if passed.is_empty() => Bound::bind(&place.address, mode, sockets.workers),
            passed => {
                if passed.iter().all(|one| !one.is_managed) {
                    compare(&place.address, mode);
                }
                Bound::adopt(&place.address, passed, sockets.workers)
            }
        }
    };
    let fresh = bind_places(places(), bound, bind, Bound::unlink)?;
    for (listener, place) in places() {
        bound.get(&place).into_iter().for_each(|bound| bound.keep_alive(config.limits_at(listener).keepalive));
    }
    Ok(fresh)
}

/// Says that the Unix socket of a process before us has another mode than it would be made with now.
fn compare(endpoint: &Endpoint, mode: u32) {
    let Endpoint::Unix(path) = endpoint else { return };
    let found = std::fs::symlink_metadata(path).map(|found| found.permissions().mode() & 0o7777);
    if let Ok(found) = found
        && found != mode
    {
        tracing::warn!("{endpoint} keeps its mode {found:04o} until a restart, which makes it anew with {mode:04o}");
    }
}

/// Binds what is configured and not bound; gives what it bound. On failure nothing is left bound that was not before.
pub(super) fn bind_places<'a, A: Bindable, S: Clone>(
    places: impl Iterator<Item = (&'a str, Place<A>)>,
    bound: &mut Sockets<A, S>,
    mut bind: impl FnMut(&Place<A>) -> io::Result<S>,
    give_up: impl Fn(&S),
) -> Result<Fresh<A, S>, Vec<String>> {
    let mut fresh = Fresh::new();
    let mut problems = Vec::new();
    for (listener, place) in places.filter(|(_, place)| !bound.contains_key(place)) {
        match bind(&place) {
            Ok(socket) => fresh.push((place, socket)),
            Err(error) => problems.push(explain_bind(listener, &place.address, &error)),
        }
    }
    if !problems.is_empty() {
        fresh.iter().for_each(|(_, socket)| give_up(socket));
        return Err(problems);
    }
    bound.extend(fresh.iter().cloned());
    Ok(fresh)
}

fn explain_bind(listener: &str, endpoint: &impl Bindable, error: &io::Error) -> String {
    let fix = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE (see packaging/portunus.service), or choose a higher port"
        }
        io::ErrorKind::AddrInUse => "; another program has it: stop that one or choose another address",
        io::ErrorKind::AddrNotAvailable => "; no interface has this address",
        _ => "",
    };
    format!("listener {listener}: cannot bind {endpoint}: {error}{fix}")
}
