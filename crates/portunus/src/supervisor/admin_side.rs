//! The admin side where the configuration wants it, and the control socket; follows reloads.

use std::path::PathBuf;
use std::sync::Arc;

use config::{AdminConfig, Endpoint};
use net::Inherited;
use net::inherited::Passed;

use super::upgrades::Upgrades;
use super::{Reload, Role, announced};
use crate::admin::{self, AdminHandle, AdminListener};

/// The addresses of the admin side, bound and not yet served.
pub struct Bound {
    configured: Option<AdminListener>,
    control: Option<AdminListener>,
}

impl Bound {
    /// Binds what the configuration wants, and a control socket at this path, or takes the sockets that were passed for them.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn new<R: Role>(role: &R, control: Option<PathBuf>, inherited: &mut Inherited) -> Result<Bound, String> {
        let mut bind = |config: AdminConfig| admin::bind(config, inherited).map_err(|error| error.to_string());
        let control = control.map(|path| bind(AdminConfig::at(Endpoint::Unix(path)))).transpose()?;
        let configured = role.admin().map(bind).transpose()?;
        Ok(Bound { configured, control })
    }

    /// Serves them.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn serve<R: Role>(self, role: &Arc<R>, upgrades: &Upgrades) -> Result<AdminSide, String> {
        let control = self.control.map(|bound| start(bound, role, upgrades)).transpose()?;
        let running = self.configured.map(|bound| start(bound, role, upgrades)).transpose()?;
        Ok(AdminSide { running, control })
    }
}

/// The admin side as configured, if there is one; stops when dropped.
pub struct AdminSide {
    running: Option<AdminHandle>,
    /// The control socket; stays where it is.
    control: Option<AdminHandle>,
}

impl AdminSide {
    /// After a reload, whoever asked for it: puts the admin side where it is wanted now. Where it cannot be, it stays as it was.
    pub fn follow<R: Role>(&mut self, role: &Arc<R>, upgrades: &Upgrades) {
        let wanted = role.admin();
        let now = self.running.as_ref().map(AdminHandle::config);
        if now == wanted.as_ref() {
            return;
        }
        if now.map(|now| &now.bind) == wanted.as_ref().map(|wanted| &wanted.bind) {
            // The place must be free before it can be taken again.
            self.running = None;
        }
        let bind = |config| admin::bind(config, &mut Inherited::default()).map_err(|error| error.to_string());
        match wanted.map(|config| bind(config).and_then(|bound| start(bound, role, upgrades))).transpose() {
            Ok(running) => self.running = running,
            Err(problem) => tracing::error!("{problem}; the admin side stays as it was until the next reload"),
        }
    }

    /// Its sockets, for another process.
    pub fn pass(&self) -> Vec<Passed> {
        self.running.iter().chain(&self.control).filter_map(AdminHandle::pass).collect()
    }

    /// Stops, and leaves the addresses to the process that has the sockets.
    pub fn hand_over(self) {
        self.running.into_iter().chain(self.control).for_each(AdminHandle::hand_over);
    }
}

fn start<R: Role>(bound: AdminListener, role: &Arc<R>, upgrades: &Upgrades) -> Result<AdminHandle, String> {
    let (for_reload, turns) = (Arc::clone(role), upgrades.turns());
    let reload = Box::new(move || {
        let _turn = turns.for_reload()?;
        announced(&*for_reload, Reload::All)?.ok_or_else(Vec::new)
    });
    let state = admin::AdminState { upgrade: Some(upgrades.request()), ..role.pages(reload) };
    let handle = admin::serve(bound, state).map_err(|error| format!("the admin side cannot be served: {error}"))?;
    tracing::info!(address = %handle.address(), "admin listening");
    Ok(handle)
}
