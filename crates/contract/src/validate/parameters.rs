//! The parameters of one part of a message: which are there, which are missing, which nobody declared.

use std::collections::HashSet;

use super::code;
use super::findings::{Enough, Findings, Violation, Where};
use super::scratch::Rooms;
use super::value::{Present, belongs, is_spread};
use crate::contract::Contract;
use crate::message::Part;
use crate::openapi::{Coding, Parameter, Style};
use crate::options::Undeclared;
use crate::parameter::{Escapes, Pairs};

/// What is validated: the declared parameters of one part, and what was sent.
pub(super) struct Declared<'c> {
    pub(super) contract: &'c Contract,
    pub(super) part: Part,
    pub(super) parameters: &'c [Parameter],
    pub(super) escapes: Escapes,
    /// The code of a missing one.
    pub(super) missing: &'static str,
}

impl Declared<'_> {
    /// Validates every declared parameter in the order of the document, and marks the pairs that are theirs.
    pub(super) fn validate(&self, pairs: &mut Pairs, rooms: &mut Rooms, findings: &mut Findings) -> Result<(), Enough> {
        self.mark(pairs);
        for parameter in self.parameters {
            let count = (0..pairs.len()).filter(|at| self.is_of(parameter, pairs, *at)).count();
            if count == 0 {
                if parameter.required {
                    let place = Where::named(self.part, parameter.name.as_bytes());
                    findings.add(Violation::new(self.missing, place, "is required"))?;
                }
                continue;
            }
            if parameter.allow_empty && pairs.values(parameter.name.as_bytes()).all(<[u8]>::is_empty) && count == 1 {
                continue;
            }
            self.validate_one(parameter, pairs, rooms, findings)?;
        }
        Ok(())
    }

    fn validate_one(
        &self,
        parameter: &Parameter,
        pairs: &Pairs,
        rooms: &mut Rooms,
        findings: &mut Findings,
    ) -> Result<(), Enough> {
        let name = parameter.name.as_bytes();
        let escapes = self.escapes;
        // Cookies are set by a field each, which cannot be one list (RFC 6265 §3).
        let may_repeat = self.contract.options.allow_repeated_scalars || name == b"set-cookie";
        if !(may_repeat && pairs.count(name) > 1 && self.holds_scalar(parameter)) {
            return Present { parameter, pairs, escapes }.validate(self.contract, rooms, findings);
        }
        for value in pairs.values(name) {
            let mut alone = Pairs::default();
            alone.add(name, value);
            Present { parameter, pairs: &alone, escapes }.validate(self.contract, rooms, findings)?;
        }
        Ok(())
    }

    /// Rejects values of a query that are several parameters for servers that separate them by `;` too, declared or not.
    pub(super) fn validate_separators(&self, pairs: &Pairs, findings: &mut Findings) -> Result<(), Enough> {
        for at in 0..pairs.len() {
            let (name, value) = pairs.get(at);
            let may_hold = |parameter: &Parameter| parameter.allow_reserved && self.is_of(parameter, pairs, at);
            if value.contains(&b';') && !self.parameters.iter().any(may_hold) {
                let what = "holds an unescaped `;`, which separates parameters for some servers";
                findings.add(Violation::new(code::PARAMETER_MALFORMED, Where::named(self.part, name), what))?;
            }
        }
        Ok(())
    }

    fn holds_scalar(&self, parameter: &Parameter) -> bool {
        match &parameter.coding {
            Coding::Style { style: Style::DeepObject, .. } => false,
            Coding::Style { shape, .. } => {
                let types = self.contract.shapes.get(*shape).types;
                types == crate::schema::Types::ALL || !types.has(crate::schema::Types::ARRAY)
            }
            Coding::Json | Coding::Text { .. } => true,
        }
    }

    /// Whether a pair is part of a parameter; an open one takes what is left over.
    fn is_of(&self, parameter: &Parameter, pairs: &Pairs, at: usize) -> bool {
        belongs(self.contract, parameter, pairs, at)
    }

    fn mark(&self, pairs: &mut Pairs) {
        for at in 0..pairs.len() {
            let is_listed = self.parameters.iter().any(|parameter| {
                // What an open object takes is decided once all others have theirs.
                let is_open = is_spread(self.contract, parameter) && self.is_open(parameter);
                (!is_open && self.is_of(parameter, pairs, at)) || (is_open && self.lists(parameter, pairs.get(at).0))
            });
            if is_listed {
                pairs.mark(at);
            }
        }
    }

    fn is_open(&self, parameter: &Parameter) -> bool {
        matches!(&parameter.coding, Coding::Style { shape, .. } if self.contract.shapes.get(*shape).is_open)
    }

    fn lists(&self, parameter: &Parameter, name: &[u8]) -> bool {
        let Coding::Style { shape, .. } = parameter.coding else { return false };
        self.contract.shapes.get(shape).properties.iter().any(|(property, _)| property.as_bytes() == name)
    }

    /// Reports or rejects what nobody declared. `is_spared` names what belongs to something else.
    pub(super) fn validate_undeclared(
        &self,
        pairs: &Pairs,
        mode: Undeclared,
        is_spared: impl Fn(&[u8]) -> bool,
        findings: &mut Findings,
    ) -> Result<(), Enough> {
        let takes_all = |parameter: &Parameter| is_spread(self.contract, parameter) && self.is_open(parameter);
        if mode == Undeclared::Ignore || self.parameters.iter().any(takes_all) {
            return Ok(());
        }
        let mut reported = HashSet::new();
        for at in (0..pairs.len()).filter(|at| !pairs.is_used(*at)) {
            let (name, _) = pairs.get(at);
            if is_spared(name) || !reported.insert(name) {
                continue;
            }
            match mode {
                Undeclared::Reject => {
                    let place = Where::named(self.part, name);
                    findings.add(Violation::new(code::PARAMETER_UNDECLARED, place, "is not declared"))?;
                }
                _ => findings.add_shadow(self.part, name),
            }
        }
        Ok(())
    }
}
