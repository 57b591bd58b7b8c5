//! From document nodes to [`Schemas`]: every schema once per direction, references followed, work kept in a queue so that no document can exhaust
//! the stack. Reading keywords is `keywords`, making it fast is `lower`.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::evaluate::Anchors;
use super::ir::{self, Discriminator, FALSE, Id, Schema, Schemas, TRUE};
use super::keywords;
use super::lower;
use super::program::{Program, SchemaId};
use super::source::{Base, Direction, Options, Problem, Resolver, Target};
use super::tags;
use super::vocabulary;
use crate::document::{Kind, Node, Place};
use crate::pattern;
use crate::reason::Reason;

/// Collects schemas and turns them into a [`Program`].
pub struct Builder<'n> {
    resolver: &'n dyn Resolver<'n>,
    pub(super) options: Options,
    pub(super) schemas: Schemas,
    pub(super) patterns: pattern::Cache,
    known: HashMap<(*const Node, Base, Direction), Id>,
    queue: Vec<(Id, Target<'n>, Direction)>,
    /// Bases of others, each with the schema that chooses among them.
    families: HashMap<(*const Node, Base, Direction), Id>,
    /// Those among them that are not filled in.
    family_queue: Vec<(Id, Target<'n>, Direction)>,
    pub(super) problems: Vec<Problem>,
    roots: Vec<Id>,
    /// Every resource that a schema was compiled in.
    resources: HashSet<(Base, Direction)>,
    /// Resources whose metaschema does not have the validation vocabulary.
    without_validation: HashSet<Base>,
    /// Names that some `$dynamicRef` asks for.
    dynamic_names: HashSet<Box<str>>,
    dynamic_anchors: HashMap<(Box<str>, Base, Direction), Option<Id>>,
}

impl<'n> Builder<'n> {
    /// A builder without schemas. All nodes must live as long as it does.
    pub fn new(resolver: &'n dyn Resolver<'n>, options: Options) -> Self {
        Self {
            resolver,
            options,
            schemas: ir::fixed_schemas(),
            patterns: pattern::Cache::default(),
            known: HashMap::new(),
            queue: Vec::new(),
            families: HashMap::new(),
            family_queue: Vec::new(),
            problems: Vec::new(),
            roots: Vec::new(),
            resources: HashSet::new(),
            without_validation: HashSet::new(),
            dynamic_names: HashSet::new(),
            dynamic_anchors: HashMap::new(),
        }
    }

    /// Adds a schema with everything it refers to. The same node, base and direction give the same program. What is wrong with it is reported by
    /// [`Builder::finish`].
    pub fn add(&mut self, target: Target<'n>, direction: Direction) -> SchemaId {
        let id = self.schema(target, direction);
        self.work();
        let root = self.roots.iter().position(|&known| known == id).unwrap_or_else(|| {
            self.roots.push(id);
            self.roots.len() - 1
        });
        SchemaId(u32::try_from(root).unwrap_or(u32::MAX))
    }

    /// The program for all that was added, or every problem found.
    ///
    /// # Errors
    /// A keyword that is unknown, malformed or cannot be honoured; a reference that leads nowhere or round in a circle; a pattern that cannot be
    /// translated.
    pub fn finish(mut self) -> Result<Program, Vec<Problem>> {
        self.close_dynamic_scope();
        self.open_circular_families();
        self.apply_direction();
        self.find_circles();
        tags::learn_all(&mut self.schemas);
        if !self.problems.is_empty() {
            self.problems.sort_by_key(|problem| problem.place);
            self.problems.dedup();
            return Err(self.problems);
        }
        let mut anchors = Anchors::new();
        for ((name, base, direction), id) in self.dynamic_anchors {
            if let Some(id) = id {
                anchors.entry(name).or_default().insert((base, direction), id);
            }
        }
        Ok(lower::program(self.schemas, anchors, &self.roots, &self.options))
    }

    /// The number of the schema at a node; it is read later, from the queue.
    pub(super) fn schema(&mut self, target: Target<'n>, direction: Direction) -> Id {
        match target.node.kind {
            Kind::Bool(true) => return TRUE,
            Kind::Bool(false) => return FALSE,
            _ => {}
        }
        let base = self.resolver.enter(target.node, target.base);
        let target = Target { base, ..target };
        if let Some(&id) = self.known.get(&(std::ptr::from_ref(target.node), base, direction)) {
            return id;
        }
        let id = Id::try_from(self.schemas.len()).unwrap_or(FALSE);
        self.schemas.push(Schema { place: target.node.place, resource: (base, direction), ..Schema::default() });
        self.known.insert((std::ptr::from_ref(target.node), base, direction), id);
        self.resources.insert((base, direction));
        self.queue.push((id, target, direction));
        id
    }

    /// What a reference in `from` leads to; `FALSE` and a problem if it leads nowhere.
    pub(super) fn reference(&mut self, text: &str, from: Target<'n>, place: Place) -> Option<Target<'n>> {
        match self.resolver.resolve(text, from.base) {
            Ok(target) => Some(target),
            Err(why) => {
                self.problem(place, format!("$ref {text:?}: {why}"));
                None
            }
        }
    }

    /// As [`Builder::reference`], where leading nowhere is reported elsewhere.
    pub(super) fn find(&self, text: &str, from: Target<'n>) -> Option<Target<'n>> {
        self.resolver.resolve(text, from.base).ok()
    }

    /// Learns from the metaschema of a resource, named by `uri`, which vocabularies the resource uses.
    ///
    /// # Errors
    /// The metaschema is neither built in nor among the documents, or requires what is not known.
    pub(super) fn metaschema(&mut self, uri: &str, base: Base) -> Result<(), String> {
        if vocabulary::is_built_in(uri) {
            return Ok(());
        }
        let metaschema = self.resolver.resolve(uri, base).map_err(|why| {
            format!("neither the 2020-12 metaschema nor the dialect of OpenAPI 3.1 (without a # at the end), and {why}")
        })?;
        if !vocabulary::has_validation(metaschema.node)? {
            self.without_validation.insert(base);
        }
        Ok(())
    }

    /// Whether a keyword asks nothing in this resource, by its metaschema.
    pub(super) fn is_idle(&self, keyword: &str, base: Base) -> bool {
        self.without_validation.contains(&base) && vocabulary::is_validation(keyword)
    }

    /// Whether the dynamic anchor stands at exactly this target (2020-12 core §8.2.3.2).
    pub(super) fn is_dynamic_anchor(&self, name: &str, target: Target<'n>) -> bool {
        let base = self.resolver.enter(target.node, target.base);
        self.resolver.dynamic_anchor(name, base).is_some_and(|anchor| std::ptr::eq(anchor.node, target.node))
    }

    pub(super) fn dynamic_name(&mut self, name: &str) {
        self.dynamic_names.insert(name.into());
    }

    pub(super) fn problem(&mut self, place: Place, message: impl Into<String>) {
        self.problems.push(Problem { place, message: message.into() });
    }

    /// The schema that a reference means: where the base of others is asked for, whichever of them the discriminator names, or else the base;
    /// where one of them takes in its base, the base itself. `from` is the schema in which the reference stands.
    pub(super) fn referred(&mut self, from: &'n Node, target: Target<'n>, direction: Direction) -> Id {
        let base = self.schema(target, direction);
        let key = (std::ptr::from_ref(target.node), target.base, direction);
        if self.resolver.is_link_to_base(from) {
            return base;
        }
        if let Some(&id) = self.families.get(&key) {
            return id;
        }
        if self.resolver.subtypes(target.node).is_empty() {
            return base;
        }
        let id = Id::try_from(self.schemas.len()).unwrap_or(FALSE);
        let resource = self.schemas[base as usize].resource;
        let schema = Schema { place: target.node.place, resource, all_of: vec![base], ..Schema::default() };
        self.schemas.push(schema);
        self.families.insert(key, id);
        self.family_queue.push((id, target, direction));
        id
    }

    /// Names the subtypes of a base: by their own names, and by what `mapping` calls them.
    fn fill_family(&mut self, id: Id, target: Target<'n>, direction: Direction) {
        let node = target.node;
        let Some(discriminator) = node.get("discriminator") else { return };
        let Some(property) = discriminator.get("propertyName").and_then(Node::as_str) else { return };
        let subtypes = self.resolver.subtypes(node);
        let mut named: Vec<(&'n str, Target<'n>)> =
            subtypes.iter().filter(|(name, _)| !name.is_empty()).copied().collect();
        for (key, value) in discriminator.get("mapping").map_or(&[][..], Node::members) {
            let Some(text) = value.as_str() else { continue };
            let mapped = self.resolver.resolve(text, target.base).ok();
            let is_it = |(name, subtype): &&(&str, Target<'n>)| {
                *name == text || mapped.is_some_and(|mapped| std::ptr::eq(mapped.node, subtype.node))
            };
            named.extend(subtypes.iter().find(is_it).map(|(_, subtype)| (key.text.as_str(), *subtype)));
        }
        let branches: HashMap<Box<str>, Id> =
            named.into_iter().map(|(name, subtype)| (name.into(), self.referred(node, subtype, direction))).collect();
        let distinct: BTreeSet<Id> = branches.values().copied().collect();
        let distinct = distinct.into_iter().collect();
        let base = self.schema(target, direction);
        let family = &mut self.schemas[id as usize];
        // Every subtype takes in the base by itself.
        family.all_of.clear();
        family.discriminator = Some(Box::new(Discriminator { property: property.into(), branches, distinct, base }));
    }

    fn work(&mut self) {
        loop {
            if let Some((id, target, direction)) = self.queue.pop() {
                let schema = keywords::read(self, target, direction);
                self.schemas[id as usize] = schema;
            } else if let Some((id, target, direction)) = self.family_queue.pop() {
                self.fill_family(id, target, direction);
            } else {
                return;
            }
        }
    }

    /// A family that would choose itself among its own subtypes, through a reference other than theirs to it, is only its base.
    fn open_circular_families(&mut self) {
        let families: Vec<Id> = self.families.values().copied().collect();
        for family in families {
            let mut seen = HashSet::new();
            let mut open = self.chosen_or_in_place(family);
            while let Some(id) = open.pop() {
                if id == family {
                    let family = &mut self.schemas[family as usize];
                    family.all_of.extend(family.discriminator.take().map(|discriminator| discriminator.base));
                    break;
                }
                if seen.insert(id) {
                    open.extend(self.chosen_or_in_place(id));
                }
            }
        }
    }

    fn chosen_or_in_place(&self, id: Id) -> Vec<Id> {
        let schema = &self.schemas[id as usize];
        let chosen = schema.discriminator.iter().flat_map(|discriminator| discriminator.branches.values().copied());
        in_place(schema).into_iter().chain(chosen).collect()
    }

    /// A `$dynamicRef` may lead into every resource that was entered, and reading that one may bring new ones.
    fn close_dynamic_scope(&mut self) {
        loop {
            let missing: Vec<_> = (self.dynamic_names.iter())
                .flat_map(|name| self.resources.iter().map(move |&(base, direction)| (name.clone(), base, direction)))
                .filter(|wanted| !self.dynamic_anchors.contains_key(wanted))
                .collect();
            if missing.is_empty() {
                return;
            }
            for (name, base, direction) in missing {
                let id = self.resolver.dynamic_anchor(&name, base).map(|target| self.schema(target, direction));
                self.dynamic_anchors.insert((name, base, direction), id);
            }
            self.work();
        }
    }

    /// Members that may not travel in this direction: their schema becomes one that says so, and nobody may require them.
    fn apply_direction(&mut self) {
        let forbidden: Vec<Option<Reason>> = (0..self.schemas.len()).map(|id| self.forbidden(id as Id)).collect();
        if forbidden.iter().all(Option::is_none) {
            return;
        }
        let mut never = HashMap::new();
        let mut members = BTreeSet::new();
        for index in 0..self.schemas.len() {
            let Some(mut object) = self.schemas[index].object.take() else { continue };
            let named = object.properties.values_mut().chain(object.patterns.iter_mut().map(|(_, child)| child));
            for child in named.chain(object.additional.iter_mut()).chain(object.unevaluated.iter_mut()) {
                members.insert(*child);
                self.forbid(child, &forbidden, &mut never);
            }
            self.schemas[index].object = Some(object);
        }
        // A member may be one of several things of which some may not travel.
        let parts: BTreeSet<Id> = members.into_iter().flat_map(|member| self.made_of(member)).collect();
        for part in parts {
            let schema = &mut self.schemas[part as usize];
            let (mut any_of, mut one_of) = (std::mem::take(&mut schema.any_of), std::mem::take(&mut schema.one_of));
            any_of.iter_mut().chain(&mut one_of).for_each(|branch| self.forbid(branch, &forbidden, &mut never));
            let schema = &mut self.schemas[part as usize];
            (schema.any_of, schema.one_of) = (any_of, one_of);
        }
        self.exempt_forbidden_members();
    }

    /// Puts a schema that says so in the place of one that may not travel.
    fn forbid(&mut self, id: &mut Id, forbidden: &[Option<Reason>], never: &mut HashMap<Reason, Id>) {
        let Some(reason) = forbidden.get(*id as usize).copied().flatten() else { return };
        *id = *never.entry(reason).or_insert_with(|| {
            self.schemas.push(Schema { never: Some(reason), forbidden: Some(reason), ..Schema::default() });
            (self.schemas.len() - 1) as Id
        });
    }

    /// Whether a schema, as a member's, forbids the member: by itself or by what it is made of.
    fn forbidden(&self, id: Id) -> Option<Reason> {
        self.made_of(id).into_iter().find_map(|part| self.schemas[part as usize].forbidden)
    }

    /// The schema and everything it takes in through `$ref` and `allOf`.
    fn made_of(&self, id: Id) -> Vec<Id> {
        let mut parts = vec![id];
        let mut seen = HashSet::from([id]);
        let mut next = 0;
        while let Some(&part) = parts.get(next) {
            next += 1;
            let schema = &self.schemas[part as usize];
            let inner = schema.all_of.iter().copied().chain(schema.base());
            parts.extend(inner.filter(|&inner| seen.insert(inner)));
        }
        parts
    }

    /// Required but forbidden is not required: neither where the member stands, nor in a part that the same object is made of. Such a part may
    /// be asked of other objects too, which must not lose by it: what it is made of here is a copy.
    fn exempt_forbidden_members(&mut self) {
        for index in 0..self.schemas.len() {
            let parts = self.made_of(index as Id);
            let names: BTreeSet<Box<str>> = (parts.iter())
                .filter_map(|&part| self.schemas[part as usize].object.as_ref())
                .flat_map(|object| object.properties.iter())
                .filter(|(_, child)| self.schemas[**child as usize].forbidden.is_some())
                .map(|(name, _)| name.clone())
                .collect();
            if names.is_empty() {
                continue;
            }
            let mut copies = HashMap::new();
            self.schemas[index].exempt(&names);
            let all_of = std::mem::take(&mut self.schemas[index].all_of);
            self.schemas[index].all_of =
                all_of.into_iter().map(|part| self.exempted(part, &names, &mut copies)).collect();
        }
    }

    /// The part as it is where nobody may require `names`: itself if it does not. Ends because parts lead in no circle that is not a problem.
    fn exempted(&mut self, part: Id, names: &BTreeSet<Box<str>>, copies: &mut HashMap<Id, Id>) -> Id {
        if let Some(&copy) = copies.get(&part) {
            return copy;
        }
        // Also what a circle, which is rejected later, comes back to.
        copies.insert(part, part);
        let mut inner = self.schemas[part as usize].all_of.clone();
        let base = self.schemas[part as usize].base();
        inner.extend(base);
        let all_of: Vec<Id> = inner.iter().map(|&inner| self.exempted(inner, names, copies)).collect();
        if all_of != inner || self.schemas[part as usize].requires(names) {
            let mut copy = Schema { all_of, ..self.schemas[part as usize].clone() };
            copy.exempt(names);
            if base.is_some() {
                // Its subtypes would require the members, which nobody can send here.
                copy.discriminator = None;
            }
            self.schemas.push(copy);
            copies.insert(part, (self.schemas.len() - 1) as Id);
        }
        copies[&part]
    }

    /// A schema that applies itself to the same value would never end.
    fn find_circles(&mut self) {
        // 0: not looked at, 1: on the way, 2: done.
        let mut state = vec![0u8; self.schemas.len()];
        let mut circles = Vec::new();
        for start in 0..self.schemas.len() {
            let mut path = vec![(start as Id, 0usize)];
            while let Some((id, next)) = path.pop() {
                let index = id as usize;
                if next == 0 && state[index] != 0 {
                    continue;
                }
                state[index] = 1;
                let Some(&inner) = in_place(&self.schemas[index]).get(next) else {
                    state[index] = 2;
                    continue;
                };
                path.push((id, next + 1));
                match state[inner as usize] {
                    0 => path.push((inner, 0)),
                    1 => circles.push(self.schemas[inner as usize].place),
                    _ => {}
                }
            }
        }
        for place in circles {
            self.problem(place, "this schema leads back to itself without going into the value, so it has no meaning");
        }
    }
}

/// The schemas that are applied to the same value as this one.
pub(super) fn in_place(schema: &Schema) -> Vec<Id> {
    let mut ids: Vec<Id> = Vec::new();
    ids.extend(&schema.all_of);
    ids.extend(schema.base());
    ids.extend(&schema.any_of);
    ids.extend(&schema.one_of);
    ids.extend(schema.not);
    ids.extend(schema.condition.iter().flat_map(|condition| [condition.test, condition.then, condition.otherwise]));
    ids.extend(schema.object.iter().flat_map(|object| object.dependent_schemas.iter().map(|(_, id)| *id)));
    ids
}
