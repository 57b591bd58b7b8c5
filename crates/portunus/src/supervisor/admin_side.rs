//! The admin side where the configuration wants it, and the admin socket, which is there whatever the configuration says; follows reloads.

use std::path::PathBuf;
use std::sync::Arc;

use config::{AdminConfig, Endpoint};
use net::Inherited;
use net::inherited::Passed;

use super::upgrades::{InTurn, Upgrades};
use super::{Reload, Role, announced};
use crate::admin::{self, AdminHandle, AdminListener, Operable, Wanted, place};

/// The admin socket of a process, beside what its configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Control {
    /// There is none.
    #[default]
    None,
    /// Where commands look for it. It is a convenience: a process that cannot have it serves all the same.
    Usual,
    /// Here, or the process does not start.
    At(PathBuf),
}

impl Control {
    /// What `--control` says; `usual` where it says nothing.
    pub fn of_option(given: Option<PathBuf>, usual: Control) -> Control {
        match given {
            None => usual,
            Some(path) if path.as_os_str() == "none" => Control::None,
            Some(path) => Control::At(path),
        }
    }

    /// The path that was named.
    pub fn named(&self) -> Option<&PathBuf> {
        match self {
            Control::At(path) => Some(path),
            Control::None | Control::Usual => None,
        }
    }
}

/// The addresses of the admin side, bound and not yet served.
pub struct Bound {
    wanted: Control,
    /// The usual admin socket could not be had.
    is_without: bool,
    configured: Option<AdminListener>,
    control: Option<AdminListener>,
}

impl Bound {
    /// Binds what the configuration wants, and the admin socket, or takes the sockets that were passed for them.
    ///
    /// # Errors
    /// An address that somebody named cannot be bound.
    pub fn new<R: Role>(role: &R, wanted: Control, inherited: &mut Inherited) -> Result<Bound, String> {
        let configured = role.admin();
        let mut bind = |config: AdminConfig| admin::bind(config, inherited).map_err(|error| error.to_string());
        let mut is_without = false;
        let control = match &wanted {
            Control::None => None,
            Control::At(path) => Some(bind(AdminConfig::at(Endpoint::Unix(path.clone())))?),
            Control::Usual => usual(configured.as_ref(), &mut bind).unwrap_or_else(|problem| {
                tracing::warn!("{problem}");
                is_without = true;
                None
            }),
        };
        let configured = configured.map(bind).transpose()?;
        Ok(Bound { wanted, is_without, configured, control })
    }

    /// Leaves it at the sockets that there are: no more can be made.
    pub fn stay(&mut self) {
        if self.is_without {
            tracing::warn!("the admin socket is not tried again: within the sandbox no more Unix sockets are made");
            self.wanted = Control::None;
        }
    }

    /// Serves them.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn serve<R: Role>(self, role: &Arc<R>, upgrades: &Upgrades) -> Result<AdminSide, String> {
        let control = self.control.map(|bound| start(bound, role, upgrades)).transpose()?;
        let running = self.configured.map(|bound| start(bound, role, upgrades)).transpose()?;
        Ok(AdminSide { wanted: self.wanted, running, control })
    }
}

/// Binds the usual admin socket, unless the configuration itself names this place.
fn usual<T>(
    configured: Option<&AdminConfig>,
    bind: impl FnOnce(AdminConfig) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let explain = |problem: String| {
        format!(
            "no admin socket: {problem}; `run --control PATH` names another place for it, `--control none` goes without"
        )
    };
    let path = place::to_serve().map_err(explain)?;
    let endpoint = Endpoint::Unix(path);
    if configured.is_some_and(|configured| configured.bind == endpoint) {
        return Ok(None);
    }
    bind(AdminConfig::at(endpoint)).map(Some).map_err(explain)
}

/// The admin side as configured, if there is one; stops when dropped.
pub struct AdminSide {
    wanted: Control,
    running: Option<AdminHandle>,
    /// The admin socket; stays where it is.
    control: Option<AdminHandle>,
}

impl AdminSide {
    /// After a reload, whoever asked for it: puts the admin side where it is wanted now, with the token that is to be had now. Where it cannot be, it
    /// stays as it was.
    pub fn follow<R: Role>(&mut self, role: &Arc<R>, upgrades: &Upgrades) {
        let configured = role.admin();
        let wanted = configured.clone().map(Wanted::read).transpose().map_err(|error| error.to_string());
        if let Err(problem) = wanted.and_then(|wanted| self.put(wanted, role, upgrades)) {
            tracing::error!("{problem}; the admin side stays as it was until the next reload");
        }
        if self.wanted == Control::Usual && self.control.is_none() {
            let bind = |config| admin::bind(config, &mut Inherited::default()).map_err(|error| error.to_string());
            // Whoever had its place may have gone. That it could not be had was reported at the start.
            let bound = usual(configured.as_ref(), bind).unwrap_or_default();
            self.control = bound.and_then(|bound| start(bound, role, upgrades).ok());
        }
    }

    /// Puts the configured one where it is wanted. What was there goes only when the other one serves.
    fn put<R: Role>(&mut self, wanted: Option<Wanted>, role: &Arc<R>, upgrades: &Upgrades) -> Result<(), String> {
        if self.running.as_ref().map(AdminHandle::wanted) == wanted.as_ref() {
            return Ok(());
        }
        let Some(wanted) = wanted else {
            self.running = None;
            return Ok(());
        };
        let is_there = |handle: &&AdminHandle| handle.place() == wanted.place();
        // A socket of ours at this place is kept: what waits in it, and a port that the kernel chose. It may be that of the usual admin socket, which the
        // configuration names now, with settings of its own.
        let ours = self.running.iter().chain(&self.control).filter(is_there).filter_map(AdminHandle::pass);
        let mut ours = Inherited::of(ours.collect());
        let bound = admin::bind_wanted(wanted.clone(), &mut ours).map_err(|error| error.to_string())?;
        let fresh = start(bound, role, upgrades)?;
        if self.control.as_ref().is_some_and(|control| control.place() == wanted.place()) {
            self.control.take().into_iter().for_each(AdminHandle::hand_over);
        }
        match self.running.replace(fresh) {
            Some(before) if before.place() == wanted.place() => before.hand_over(),
            before => drop(before),
        }
        Ok(())
    }

    /// Its sockets, for another process.
    pub fn pass(&self) -> Vec<Passed> {
        self.running.iter().chain(&self.control).filter_map(AdminHandle::pass).collect()
    }

    /// Stops, and leaves the addresses to the process that has the sockets. Calls `then` once nobody is accepted any more, before it lets responses come to
    /// their end.
    pub fn hand_over(self, then: impl FnOnce()) {
        let mut all: Vec<AdminHandle> = self.running.into_iter().chain(self.control).collect();
        all.iter_mut().for_each(AdminHandle::cease);
        then();
        all.into_iter().for_each(AdminHandle::hand_over);
    }
}

fn start<R: Role>(bound: AdminListener, role: &Arc<R>, upgrades: &Upgrades) -> Result<AdminHandle, String> {
    let (for_reload, turns) = (Arc::clone(role), upgrades.turns());
    let reload = Box::new(move || {
        let _turn = turns.for_reload()?;
        announced(&*for_reload, Reload::All)?.ok_or_else(Vec::new)
    });
    let pages = role.pages(reload);
    let api = pages.api.map(|role| Arc::new(InTurn { role, turns: upgrades.turns() }) as Arc<dyn Operable>);
    let state = admin::AdminState { upgrade: Some(upgrades.request()), api, ..pages };
    let handle = admin::serve(bound, state).map_err(|error| format!("the admin side cannot be served: {error}"))?;
    tracing::info!(address = %handle.address(), "admin listening");
    Ok(handle)
}
