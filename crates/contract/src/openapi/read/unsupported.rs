//! What is wrong is charged to the operations that it concerns: which of them cannot be validated as the document says, on which side, and why.
//!
//! Collects while a document is read, decides at the end, when it is known which schemas are unusable. Knows nothing of what a document holds.

use std::collections::BTreeMap;

use crate::document::{Fault, Place};
use crate::openapi::model::Operation;
use crate::schema::{Built, SchemaId};

/// Operations that a problem names; of further ones it says how many.
const MAX_NAMED: usize = 3;

/// What reading a part of the document found and asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    pub(super) faults: Vec<Fault>,
    pub(super) schemas: Vec<SchemaId>,
}

impl Gathered {
    /// Takes in what else concerns the same operation.
    pub(super) fn add(&mut self, other: &Gathered) {
        self.faults.extend(other.faults.iter().cloned());
        self.schemas.extend(&other.schemas);
    }
}

/// What concerns the requests and the responses of one operation.
#[derive(Debug, Default)]
pub(super) struct Sides {
    pub(super) request: Gathered,
    pub(super) response: Gathered,
}

/// Marks the operations that cannot be validated, and gives every problem once, with the operations that it concerns. `others` need not concern any.
pub(super) fn charge(operations: &mut [Operation], sides: Vec<Sides>, others: Vec<Fault>, built: &Built) -> Vec<Fault> {
    let mut found: BTreeMap<(Place, String), Vec<usize>> = BTreeMap::new();
    for (operation, sides) in operations.iter_mut().zip(sides) {
        let number = operation.number;
        let mut side = |gathered: Gathered| {
            let of_schema = |id: &SchemaId| built.unusable(*id).map(|it| Fault::new(it.place, it.message.clone()));
            let mut faults = gathered.faults;
            faults.extend(gathered.schemas.iter().filter_map(of_schema));
            let first = faults.first().map(|fault| fault.message.as_str().into());
            for fault in faults {
                let concerned = found.entry((fault.place, fault.message)).or_default();
                if concerned.last() != Some(&number) {
                    concerned.push(number);
                }
            }
            first
        };
        (operation.bad_request, operation.bad_response) = (side(sides.request), side(sides.response));
    }
    // What another problem hides is not charged to anybody, and still to be fixed.
    let of_schemas = built.problems.iter().map(|problem| Fault::new(problem.place, problem.message.clone()));
    for fault in of_schemas.chain(others) {
        found.entry((fault.place, fault.message)).or_default();
    }
    let label = |number: &usize| operations.get(*number).map(|one| format!("{} {}", one.method, one.template));
    let with_names = |((place, message), concerned): ((Place, String), Vec<usize>)| {
        let named: Vec<String> = concerned.iter().take(MAX_NAMED).filter_map(label).collect();
        let more = match concerned.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match named.is_empty() {
            true => Fault::new(place, message),
            false => Fault::new(place, format!("{message} (concerns {}{more})", named.join(", "))),
        }
    };
    found.into_iter().map(with_names).collect()
}
