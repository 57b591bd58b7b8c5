//! Whether there is an access log at the moment, and of which form: all workers look for each line, and a reload sets it.
//!
//! Owns the choice, not the lines.

use std::sync::atomic::{AtomicU8, Ordering};

use config::AccessLog;

use super::line::Form;

/// The form of the access log at the moment, or none while there is no access log.
#[derive(Debug, Default)]
pub(super) struct FormSwitch(AtomicU8);

impl FormSwitch {
    const JSON: u8 = 1;
    const TEXT: u8 = 2;
    /// With verbosity 0; the others follow.
    const MMPROXY: u8 = 3;

    pub(super) fn get(&self) -> Option<Form> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            FormSwitch::JSON => Some(Form::Json),
            FormSwitch::TEXT => Some(Form::Text),
            code => Some(Form::Mmproxy(code - FormSwitch::MMPROXY)),
        }
    }

    pub(super) fn set(&self, form: Option<Form>) {
        let code = match form {
            None => 0,
            Some(Form::Json) => FormSwitch::JSON,
            Some(Form::Text) => FormSwitch::TEXT,
            Some(Form::Mmproxy(verbosity)) => FormSwitch::MMPROXY.saturating_add(verbosity),
        };
        self.0.store(code, Ordering::Relaxed);
    }
}

/// The form that a configuration asks for.
pub(super) fn form_of(access: &AccessLog) -> Form {
    match access.mmproxy_verbosity {
        Some(verbosity) => Form::Mmproxy(verbosity),
        None if access.json => Form::Json,
        None => Form::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_what_is_found() {
        let switch = FormSwitch::default();
        assert_eq!(switch.get(), None);
        let forms = [Form::Json, Form::Text, Form::Mmproxy(0), Form::Mmproxy(2)];
        for form in forms.map(Some).into_iter().chain([None]) {
            switch.set(form);
            assert_eq!(switch.get(), form);
        }
    }
}
