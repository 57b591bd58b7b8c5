//! Policies of connections and flows, of which nothing is known but where they come from.

use std::net::IpAddr;
use std::sync::Arc;

use config::{PolicyConfig, PolicyMode};
use reason::Reason;
use telemetry::{WorkerReport, WouldReject};

use super::{ActivePolicy, Applicant, ConnectionMeters, Permits, Throttles};
use crate::client::RequestClient;

/// What a connection or flow was let in under.
#[derive(Debug, Default)]
pub struct Terms {
    /// The limits that it counts under for as long as it lasts.
    pub permits: Permits,
    /// Its bandwidth.
    pub throttles: Throttles,
    /// Policies that only log, and would not have let it in.
    pub would_reject: Vec<WouldReject>,
    meters: ConnectionMeters,
}

/// Why a connection or flow may not pass.
#[derive(Debug, Clone)]
pub struct Denial {
    /// The policy that says so.
    pub policy: Arc<PolicyConfig>,
    /// Why.
    pub reason: Reason,
}

impl Terms {
    /// Asks policies about a connection or flow of a client, if it is known whose it is, and notes what they let it in under.
    ///
    /// # Errors
    /// The first that does not let it pass.
    pub fn ask(
        &mut self,
        policies: &[Arc<ActivePolicy>],
        client: Option<IpAddr>,
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
                    permit.into_iter().for_each(|permit| self.permits.hold(permit));
                    policy.throttle(&applicant, &self.meters, &mut self.throttles);
                    report.policy_passed(&policy.config.name);
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
            self.would_reject.push(policy.would_reject(reason));
        }
        Ok(())
    }
}
