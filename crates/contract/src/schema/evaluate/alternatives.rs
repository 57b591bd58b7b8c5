//! `anyOf`, `oneOf` and what a `discriminator` makes of them: which branches are tried, and whose error is reported. Part of `evaluate.rs`.

use super::{BYTES_PER_STEP, Evaluation, Outcome, Stop};
use crate::reason::Reason;
use crate::schema::ir::{Discriminator, Id, Schema};
use crate::schema::tags::Tags;
use crate::schema::tape::Tag;

impl<'a> Evaluation<'a> {
    /// A value of a base is valid if the base says so, whatever its name says: a discriminator changes no outcome. Which members are declared is another
    /// question, and no schema's: those of the subtype that the name means, if the value is one, else those of every subtype that it is.
    pub(super) fn discriminate(&mut self, discriminator: &Discriminator, at: usize) -> Outcome {
        let value = self.find_member(at, &discriminator.property)?;
        let value = value.filter(|&value| self.space.tape.tag(value) == Tag::String);
        self.spend(value.map_or(0, |value| self.space.tape.byte_count(value) / BYTES_PER_STEP), at)?;
        let name = value.map(|value| String::from_utf8_lossy(self.space.tape.bytes(value)));
        let branch = name.and_then(|name| discriminator.branches.get(name.as_ref()).copied());
        self.apply(discriminator.base, at)?;
        if let Some(branch) = branch {
            match self.attempt(branch, at)? {
                None => return Ok(()),
                Some(stop) => self.space.missed.push((at, stop)),
            }
        }
        for &branch in &discriminator.distinct {
            self.holds(branch, at)?;
        }
        Ok(())
    }

    pub(super) fn any_of(&mut self, branches: &[Id], at: usize) -> Outcome {
        let mut any = branches.is_empty();
        for &id in branches {
            any |= self.holds(id, at)?;
        }
        if any { Ok(()) } else { self.tear(Reason::AnyOf, at) }
    }

    pub(super) fn one_of(&mut self, branches: &[Id], at: usize) -> Outcome {
        if !branches.is_empty() && self.count_of_two(branches, at)? != 1 {
            return self.tear(Reason::OneOf, at);
        }
        Ok(())
    }

    /// How many of these hold; two stand for more.
    fn count_of_two<'i>(&mut self, branches: impl IntoIterator<Item = &'i Id>, at: usize) -> Result<usize, Stop> {
        let mut held = 0;
        for &id in branches {
            held += usize::from(self.holds(id, at)?);
            if held > 1 {
                break;
            }
        }
        Ok(held)
    }

    /// `oneOf` or `anyOf` over the branches that may hold by what the member says.
    pub(super) fn tagged(&mut self, schema: &'a Schema, tags: &'a Tags, at: usize) -> Outcome {
        let (list, other): (&[Id], _) = if tags.is_one_of {
            (&schema.one_of, self.any_of(&schema.any_of, at))
        } else {
            (&schema.any_of, self.one_of(&schema.one_of, at))
        };
        other?;
        let value = self.find_member(at, &tags.property)?;
        let text = value.filter(|&value| self.space.tape.tag(value) == Tag::String);
        self.spend(text.map_or(0, |value| self.space.tape.byte_count(value) / BYTES_PER_STEP), at)?;
        let (pinned, open) = match (text, value) {
            (Some(text), _) => tags.of_text(self.space.tape.bytes(text)),
            (None, Some(_)) => (&[][..], tags.of_others()),
            (None, None) => (&[][..], tags.of_none()),
        };
        let mut candidates = pinned.iter().chain(open);
        match (candidates.next(), candidates.next(), value) {
            // Whatever is wrong with the only one that may hold is what is wrong.
            (Some(&only), None, _) => return self.apply(only, at),
            (None, _, Some(value)) => {
                self.note_torn(at);
                return self.fail(Reason::Enum, value);
            }
            (None, _, None) => {
                self.note_torn(at);
                let missing = Some(tags.property.clone());
                return self.stop(Stop { reason: Reason::Discriminator, cell: at, missing, schema: self.current });
            }
            (Some(_), Some(_), _) => {}
        }
        let candidates = pinned.iter().chain(open);
        let held = if tags.is_one_of {
            self.count_of_two(candidates, at)?
        } else {
            let mut any = false;
            for &id in candidates {
                any |= self.holds(id, at)?;
            }
            usize::from(any)
        };
        if held == 1 {
            return Ok(());
        }
        let named = text.and_then(|text| std::str::from_utf8(self.space.tape.bytes(text)).ok());
        let named = named.and_then(|name| list.get(*tags.names.get(name)?)).copied();
        match named.filter(|_| held == 0) {
            // None holds; what is wrong with the one that was meant says most.
            Some(branch) => self.apply(branch, at),
            None => self.tear(if tags.is_one_of { Reason::OneOf } else { Reason::AnyOf }, at),
        }
    }
}
