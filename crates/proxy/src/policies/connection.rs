//! Policies of connections and flows, of which nothing is known but where they come from.

use std::net::IpAddr;
use std::sync::Arc;

use config::{PolicyConfig, PolicyMode};
use reason::Reason;
use telemetry::WorkerReport;

use super::{ActivePolicy, Applicant, Permits};
use crate::client::RequestClient;

/// Why a connection or flow may not pass.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The policy that says so.
    pub policy: Arc<PolicyConfig>,
    /// Why.
    pub reason: Reason,
}

/// Asks policies about a connection or flow of a client, if it is known whose it is. `permits`: what it counts as for as long as it lasts.
///
/// # Errors
/// The first that does not let it pass.
pub fn admit(
    policies: &[Arc<ActivePolicy>],
    client: Option<IpAddr>,
    permits: &mut Permits,
    report: &WorkerReport,
) -> Result<(), Denial> {
    if policies.is_empty() {
        return Ok(());
    }
    let client = RequestClient::itself(client);
    let applicant = Applicant { client, head: None, route: None, certificate: None, subject: None };
    for policy in policies {
        let denied = match policy.check_unidentified(&applicant) {
            Ok(permit) => {
                permit.into_iter().for_each(|permit| permits.hold(permit));
                continue;
            }
            Err(denied) => denied,
        };
        let (config, reason) = (&policy.config, policy.reason(denied));
        let enforces = config.mode == PolicyMode::Enforce;
        report.policy(&config.name, if enforces { "rejected" } else { "logged" }, reason);
        if enforces {
            return Err(Denial { policy: Arc::clone(config), reason });
        }
    }
    Ok(())
}
