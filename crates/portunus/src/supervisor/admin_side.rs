//! The admin side where the configuration wants it, and the control socket; follows reloads.

use std::path::PathBuf;
use std::sync::Arc;

use config::{AdminConfig, Endpoint};

use super::{Reload, Role, announced};
use crate::admin::{self, AdminHandle};

/// The admin side as configured, if there is one; stops when dropped.
pub struct AdminSide {
    running: Option<AdminHandle>,
    /// The control socket; stays where it is.
    _control: Option<AdminHandle>,
}

impl AdminSide {
    /// Starts what the configuration wants, and a control socket at this path.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn start<R: Role>(role: &Arc<R>, control: Option<PathBuf>) -> Result<AdminSide, String> {
        let control = control.map(|path| AdminConfig::at(Endpoint::Unix(path)));
        let _control = control.map(|config| start(&config, role)).transpose()?;
        let running = role.admin().map(|config| start(&config, role)).transpose()?;
        Ok(AdminSide { running, _control })
    }

    /// After a reload, whoever asked for it: puts the admin side where it is wanted now. Where it cannot be, it stays as it was.
    pub fn follow<R: Role>(&mut self, role: &Arc<R>) {
        let wanted = role.admin();
        let now = self.running.as_ref().map(AdminHandle::config);
        if now == wanted.as_ref() {
            return;
        }
        if now.map(|now| &now.bind) == wanted.as_ref().map(|wanted| &wanted.bind) {
            // The place must be free before it can be taken again.
            self.running = None;
        }
        match wanted.map(|config| start(&config, role)).transpose() {
            Ok(running) => self.running = running,
            Err(problem) => tracing::error!("{problem}; the admin side stays as it was until the next reload"),
        }
    }
}

fn start<R: Role>(config: &AdminConfig, role: &Arc<R>) -> Result<AdminHandle, String> {
    let for_reload = Arc::clone(role);
    let reload = Box::new(move || announced(&*for_reload, Reload::All)?.ok_or_else(Vec::new));
    let handle =
        admin::start(config, role.pages(reload)).map_err(|error| format!("admin listener {}: {error}", config.bind))?;
    tracing::info!(address = %handle.address(), "admin listening");
    Ok(handle)
}
