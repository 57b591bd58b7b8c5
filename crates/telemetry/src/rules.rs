//! How records become lines at the moment: form, frame, what is redacted, left out, and sampled. Plain data, made of the configuration.

use config::{AccessLog, LogFormat, LogOutput, Syslog};

use super::drawn::ALL;
use super::redact::Redacted;

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Text,
    Logfmt,
    /// The Common Log Format.
    Ncsa,
    /// As go-mmproxy writes them, with its verbosity.
    Mmproxy(u8),
}

/// What stands around a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Nothing: it ends with its newline.
    Line,
    /// The header of syslog; it ends with its newline.
    Syslog(SyslogHeader),
    /// The line is one field of several, each on a line of its own; an empty line ends them.
    Journal,
}

/// What the header of each message has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyslogHeader {
    pub(super) facility: u8,
    /// ` HOSTNAME APP-NAME PROCID `.
    pub(super) origin: Box<str>,
}

/// How many of a million records with a status are written; of all those from 100 on.
type Shares = Box<[u32]>;

const FIRST_STATUS: u16 = 100;
const STATUSES: usize = 500;

/// All of that.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) form: Form,
    pub(super) frame: Frame,
    pub(super) redacted: Redacted,
    /// Paths of fields that are left out.
    pub(super) removed: Box<[Box<str>]>,
    shares: Option<Shares>,
    /// Which of the places that the log has had: lines are never mixed with those of another frame.
    pub(super) place: u32,
}

impl Rules {
    /// Those that a configuration asks for.
    pub(super) fn of(access: &AccessLog, place: u32) -> Rules {
        let form = match (access.mmproxy_verbosity, access.format) {
            (Some(verbosity), _) => Form::Mmproxy(verbosity),
            (None, LogFormat::Json) => Form::Json,
            (None, LogFormat::Text) => Form::Text,
            (None, LogFormat::Logfmt) => Form::Logfmt,
            (None, LogFormat::Common) => Form::Ncsa,
        };
        let frame = match &access.output {
            LogOutput::Stdout | LogOutput::File(_) => Frame::Line,
            LogOutput::Journald => Frame::Journal,
            LogOutput::Syslog(syslog) => Frame::Syslog(header(syslog)),
        };
        let mut shares = (!access.sampled.is_empty()).then(|| vec![ALL; STATUSES].into_boxed_slice());
        // The narrower ones come last.
        for sample in &access.sampled {
            for status in sample.statuses.clone() {
                let place = usize::from(status.saturating_sub(FIRST_STATUS));
                shares
                    .iter_mut()
                    .filter_map(|shares| shares.get_mut(place))
                    .for_each(|share| *share = sample.millionths);
            }
        }
        Rules {
            form,
            frame,
            redacted: Redacted::new(access.redacted.iter().map(String::as_str)),
            removed: access.removed.iter().map(|path| path.as_str().into()).collect(),
            shares,
            place,
        }
    }

    /// Nothing but a form.
    pub(super) fn plain(form: Form) -> Rules {
        let (redacted, removed) = (Redacted::default(), Box::default());
        Rules { form, frame: Frame::Line, redacted, removed, shares: None, place: 0 }
    }

    /// How many of a million requests with this status are written; none if it is all. Whatever went wrong is written, unless a status of the client's fault is sampled.
    pub(super) fn share(&self, status: u16, has_reason: bool) -> Option<u32> {
        let shares = self.shares.as_ref()?;
        if has_reason && status < 400 {
            return None;
        }
        let share = *shares.get(usize::from(status.checked_sub(FIRST_STATUS)?))?;
        (share < ALL).then_some(share)
    }
}

/// The name of this machine in printable ASCII; empty if it has none. The kernel is asked, not its file, which a sandbox closes.
pub(super) fn machine() -> String {
    let known = rustix::system::uname();
    known.nodename().to_string_lossy().chars().filter(char::is_ascii_graphic).take(255).collect()
}

fn header(syslog: &Syslog) -> SyslogHeader {
    let name = Some(machine()).filter(|name| !name.is_empty()).unwrap_or_else(|| "-".to_owned());
    let origin = format!(" {name} {} {} ", syslog.app_name, std::process::id());
    SyslogHeader { facility: syslog.facility, origin: origin.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::LogSample;

    #[test]
    fn what_went_wrong_is_always_written() {
        let sampled = [(200..=299, 10_000), (404..=404, 0), (400..=499, 500_000), (204..=204, 1_000_000)];
        let mut sampled = sampled.map(|(statuses, millionths)| LogSample { statuses, millionths }).to_vec();
        sampled.sort_by_key(|sample| std::cmp::Reverse(sample.statuses.clone().count()));
        let rules = Rules::of(&AccessLog { sampled, ..AccessLog::default() }, 0);
        for (status, has_reason, share) in [
            (200, false, Some(10_000)),
            (200, true, None),
            (204, false, None),
            (299, false, Some(10_000)),
            (302, false, None),
            (404, true, Some(0)),
            (403, true, Some(500_000)),
            (500, false, None),
            (599, true, None),
            (600, false, None),
            (0, true, None),
        ] {
            assert_eq!(rules.share(status, has_reason), share, "{status}");
        }
        assert_eq!(Rules::plain(Form::Json).share(200, false), None);
    }
}
