//! From document nodes to [`Schemas`]: every schema once per direction, references followed, work kept in a queue so that no document can exhaust
//! the stack. Reading keywords is `keywords`, making it fast is `lower`.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::contradictions;
use super::evaluate::Anchors;
use super::ir::{self, ArrayRules, Discriminator, FALSE, Id, Schema, Schemas, TRUE};
use super::keywords;
use super::lower::{self, Looks};
use super::program::{Program, SchemaId};
use super::source::{Base, Direction, Options, Problem, Resolver, Target};
use super::tags;
use super::types::Types;
use super::vocabulary;
use crate::node::{Kind, Node, Place};
use crate::pattern;
use crate::reason::Reason;

/// Looks at schemas that leaving out what may not travel may take, all together, and finding families that lead back to themselves. With the 10,000
/// links of one chain the former takes 30,000.
const MAX_LOOKS: usize = 500_000;

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
    /// What makes a schema unusable, with the schema.
    problems: Vec<(Id, Problem)>,
    warnings: Vec<Problem>,
    /// The schema that is being read.
    current: Id,
    roots: Vec<Id>,
    /// The place of a schema among the roots.
    root_numbers: HashMap<Id, u32>,
    /// Every resource that a schema was compiled in.
    resources: HashSet<(Base, Direction)>,
    /// Resources whose metaschema does not have the validation vocabulary.
    without_validation: HashSet<Base>,
    /// Names that some `$dynamicRef` asks for.
    dynamic_names: HashSet<Box<str>>,
    dynamic_anchors: HashMap<(Box<str>, Base, Direction), Option<Id>>,
    /// Looks at schemas that finding out what they are made of took.
    looks: Looks,
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
            warnings: Vec::new(),
            current: TRUE,
            roots: Vec::new(),
            root_numbers: HashMap::new(),
            resources: HashSet::new(),
            without_validation: HashSet::new(),
            dynamic_names: HashSet::new(),
            dynamic_anchors: HashMap::new(),
            looks: Looks::default(),
        }
    }

    /// Adds a schema with everything it refers to. The same node, base and direction give the same program. What is wrong with it is reported by
    /// [`Builder::finish`].
    pub fn add(&mut self, target: Target<'n>, direction: Direction) -> SchemaId {
        let id = self.schema(target, direction);
        self.add_root(id)
    }

    /// As [`Builder::add`], for an array whose elements are these, and which is `whole` as well.
    pub fn add_list_of(&mut self, element: Target<'n>, whole: Option<Target<'n>>, direction: Direction) -> SchemaId {
        let items = Some(self.schema(element, direction));
        let schema = Schema {
            place: element.node.place,
            resource: (element.base, direction),
            types: Types::ARRAY,
            array: Some(Box::new(ArrayRules { items, ..ArrayRules::default() })),
            all_of: whole.into_iter().map(|whole| self.schema(whole, direction)).collect(),
            ..Schema::default()
        };
        let id = Id::try_from(self.schemas.len()).unwrap_or(FALSE);
        self.schemas.push(schema);
        self.add_root(id)
    }

    fn add_root(&mut self, id: Id) -> SchemaId {
        self.work();
        let next = u32::try_from(self.roots.len()).unwrap_or(u32::MAX);
        let root = *self.root_numbers.entry(id).or_insert(next);
        if root == next {
            self.roots.push(id);
        }
        SchemaId(root)
    }

    /// The program for all that was added, or every problem found.
    ///
    /// # Errors
    /// A keyword that is malformed or cannot be honoured; a reference that leads nowhere or round in a circle; a pattern that cannot be
    /// translated; where options are strict, also a keyword that is unknown.
    pub fn finish(self) -> Result<Program, Vec<Problem>> {
        let Built { program, problems, .. } = self.finish_usable();
        if problems.is_empty() { Ok(program) } else { Err(problems) }
    }

    /// The program for all that was added. A schema with a problem allows nothing, and [`Built::unusable`] tells which of those that were added
    /// depend on one.
    pub fn finish_usable(mut self) -> Built {
        self.close_dynamic_scope();
        self.open_circular_families();
        self.find_circles();
        for (id, place, what) in contradictions::find(&self.schemas) {
            self.current = id;
            self.warn(place, what);
        }
        let mut unusable = self.unusable_roots();
        self.allow_nothing(0);
        let known = self.problems.len();
        self.apply_direction();
        if self.problems.len() > known {
            let more = self.unusable_roots();
            unusable.iter_mut().zip(more).for_each(|(problem, more)| *problem = problem.take().or(more));
            self.allow_nothing(known);
        }
        tags::learn_all(&mut self.schemas);
        let mut anchors = Anchors::new();
        for ((name, base, direction), id) in self.dynamic_anchors {
            if let Some(id) = id {
                anchors.entry(name).or_default().insert((base, direction), id);
            }
        }
        let mut problems: Vec<Problem> = self.problems.into_iter().map(|(_, problem)| problem).collect();
        let program = lower::program(self.schemas, anchors, &self.roots, &self.options, &self.looks);
        problems.sort_by_key(|problem| problem.place);
        problems.dedup();
        Built { program, problems, warnings: self.warnings, unusable, looks: self.looks.count() }
    }

    /// Has schemas with problems allow nothing, from the problem with this number on.
    fn allow_nothing(&mut self, first: usize) {
        for (id, _) in self.problems.iter().skip(first) {
            let schema = &mut self.schemas[*id as usize];
            *schema = Schema {
                place: schema.place,
                resource: schema.resource,
                never: Some(Reason::False),
                ..Schema::default()
            };
        }
    }

    /// Of each root, a problem of something that it applies. Each schema is looked at once, whatever the number of problems.
    fn unusable_roots(&self) -> Vec<Option<Problem>> {
        let mut found: Vec<Option<u32>> = vec![None; self.schemas.len()];
        let mut open = Vec::new();
        for (number, (id, _)) in (0u32..).zip(&self.problems) {
            if found[*id as usize].is_none() {
                found[*id as usize] = Some(number);
                open.push(*id);
            }
        }
        if open.is_empty() {
            return vec![None; self.roots.len()];
        }
        let mut applied_by: Vec<Vec<Id>> = vec![Vec::new(); self.schemas.len()];
        for (id, schema) in (0..).zip(&self.schemas) {
            let anchors = schema.dynamic.iter().flat_map(|dynamic| self.anchored(&dynamic.name));
            let fallback = schema.dynamic.iter().map(|dynamic| dynamic.fallback);
            for child in lower::children(schema).into_iter().chain(fallback).chain(anchors) {
                applied_by[child as usize].push(id);
            }
        }
        let mut next = 0;
        while let Some(&id) = open.get(next) {
            next += 1;
            for &by in &applied_by[id as usize] {
                if found[by as usize].is_none() {
                    found[by as usize] = found[id as usize];
                    open.push(by);
                }
            }
        }
        let problem = |number: u32| self.problems.get(number as usize).map(|(_, problem)| problem.clone());
        self.roots.iter().map(|&root| found[root as usize].and_then(problem)).collect()
    }

    /// Wherever a `$dynamicRef` of this name may lead.
    fn anchored(&self, name: &str) -> impl Iterator<Item = Id> {
        self.dynamic_anchors.iter().filter(move |((known, ..), _)| **known == *name).filter_map(|(_, id)| *id)
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

    /// The schema that allows what this one does, and null.
    pub(super) fn or_null(&mut self, mut schema: Schema) -> Schema {
        let outer = Schema {
            place: schema.place,
            resource: schema.resource,
            forbidden: schema.forbidden.take(),
            any_of: vec![ir::NULL, self.schemas.len() as Id],
            ..Schema::default()
        };
        self.schemas.push(schema);
        outer
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

    /// Notes what makes the schema that is being read unusable.
    pub(super) fn problem(&mut self, place: Place, message: impl Into<String>) {
        self.problems.push((self.current, Problem { place, message: message.into() }));
    }

    /// Notes what weakens nothing; a problem where options are strict.
    pub(super) fn warn(&mut self, place: Place, message: impl Into<String>) {
        match self.options.strict {
            true => self.problem(place, message),
            false => self.warnings.push(Problem { place, message: message.into() }),
        }
    }

    /// The schema that a reference means. Where members must be declared, a reference to the base of others means the base with the members that its
    /// subtypes declare; but not where one of them takes in its base. `from` is the schema in which the reference stands.
    pub(super) fn referred(&mut self, from: &'n Node, target: Target<'n>, direction: Direction) -> Id {
        let base = self.schema(target, direction);
        let key = (std::ptr::from_ref(target.node), target.base, direction);
        if !self.options.reject_unknown_fields || self.resolver.is_link_to_base(from) {
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
                self.current = id;
                let schema = keywords::read(self, target, direction);
                self.schemas[id as usize] = schema;
            } else if let Some((id, target, direction)) = self.family_queue.pop() {
                self.current = id;
                self.fill_family(id, target, direction);
            } else {
                return;
            }
        }
    }

    /// A family that would choose itself among its own subtypes, through a reference other than theirs to it, is only its base.
    fn open_circular_families(&mut self) {
        let mut families: Vec<Id> = self.families.values().copied().collect();
        families.sort_unstable();
        let first = self.looks.count();
        for family in families {
            let mut seen = HashSet::new();
            let mut open = self.chosen_or_in_place(family);
            while let Some(id) = open.pop() {
                self.looks.add(1);
                // Nor does one have subtypes that would take too long to look through: only that many more members are not declared.
                if id == family || self.looks.count() - first > MAX_LOOKS {
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
        let forbidden = self.forbidden();
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
        let mut parts = self.made_of(members);
        parts.sort_unstable();
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
        if self.options.reject_read_only == Some(false) {
            // It may be there all the same, and is not required.
            self.schemas[*id as usize].forbidden = Some(reason);
            return;
        }
        *id = *never.entry(reason).or_insert_with(|| {
            self.schemas.push(Schema { never: Some(reason), forbidden: Some(reason), ..Schema::default() });
            (self.schemas.len() - 1) as Id
        });
    }

    /// Of each schema, whether it forbids the member whose schema it is: by itself or by what it is made of.
    fn forbidden(&self) -> Vec<Option<Reason>> {
        let mut found: Vec<Option<Reason>> = self.schemas.iter().map(|schema| schema.forbidden).collect();
        let mut open: Vec<Id> = (0..).zip(&found).filter_map(|(id, reason)| reason.map(|_| id)).collect();
        if open.is_empty() {
            return found;
        }
        let part_of = self.part_of();
        while let Some(id) = open.pop() {
            for &whole in &part_of[id as usize] {
                if found[whole as usize].is_none() {
                    found[whole as usize] = found[id as usize];
                    open.push(whole);
                }
            }
        }
        found
    }

    /// Of each schema, those that take it in through `$ref` and `allOf`.
    fn part_of(&self) -> Vec<Vec<Id>> {
        let mut part_of: Vec<Vec<Id>> = vec![Vec::new(); self.schemas.len()];
        for (id, schema) in (0..).zip(&self.schemas) {
            schema.all_of.iter().copied().chain(schema.base()).for_each(|part| part_of[part as usize].push(id));
        }
        part_of
    }

    /// The schemas and everything they take in through `$ref` and `allOf`.
    fn made_of(&self, ids: impl IntoIterator<Item = Id>) -> Vec<Id> {
        let mut parts: Vec<Id> = ids.into_iter().collect();
        let mut seen: HashSet<Id> = parts.iter().copied().collect();
        let mut next = 0;
        while let Some(&part) = parts.get(next) {
            next += 1;
            let schema = &self.schemas[part as usize];
            let inner = schema.all_of.iter().copied().chain(schema.base());
            parts.extend(inner.filter(|&inner| seen.insert(inner)));
        }
        self.looks.add(next);
        parts
    }

    /// Of each schema, whether a value is validated by it for another reason than that it is part of another one.
    fn applied(&self) -> Vec<bool> {
        let mut applied = vec![false; self.schemas.len()];
        let anchors = self.dynamic_anchors.values().flatten();
        let fallbacks =
            self.schemas.iter().filter_map(|schema| schema.dynamic.as_ref()).map(|dynamic| &dynamic.fallback);
        anchors.chain(&self.roots).chain(fallbacks).for_each(|&id| applied[id as usize] = true);
        self.schemas.iter().flat_map(lower::applied_aside).for_each(|id| applied[id as usize] = true);
        applied
    }

    /// Required but forbidden is not required: neither where the member stands, nor in a part that the same object is made of. Such a part may
    /// be asked of other objects too, which must not lose by it: what it is made of here is a copy. What is only part of others needs none of its own.
    fn exempt_forbidden_members(&mut self) {
        let (wholes, applied) = (self.made_of_forbidden_members(), self.applied());
        let first = self.looks.count();
        for index in wholes.into_iter().filter(|index| applied[*index]) {
            if self.looks.count() - first > MAX_LOOKS {
                self.current = index as Id;
                let what = "too many schemas with readOnly or writeOnly members are made of each other through `allOf`";
                self.problem(self.schemas[index].place, what);
                continue;
            }
            let parts = self.made_of([index as Id]);
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

    /// The schemas of which one part forbids a member and another one requires it, in order.
    fn made_of_forbidden_members(&mut self) -> BTreeSet<usize> {
        let mut forbidding = Vec::new();
        let mut all = BTreeSet::new();
        for index in 0..self.schemas.len() {
            let Some(object) = &self.schemas[index].object else { continue };
            let is_forbidden = |child: Id| self.schemas[child as usize].forbidden.is_some();
            let own: BTreeSet<Box<str>> = (object.properties.iter())
                .filter(|(_, child)| is_forbidden(**child))
                .map(|(name, _)| name.clone())
                .collect();
            if !own.is_empty() {
                // Wherever it applies, the member may not be there.
                self.schemas[index].exempt(&own);
                forbidding.push(index as Id);
                all.extend(own);
            }
        }
        let requiring =
            (0..).zip(&self.schemas).filter(|(_, schema)| schema.requires(&all)).map(|(id, _)| id).collect();
        let part_of = self.part_of();
        let taking_in = |mut open: Vec<Id>| {
            let mut found = BTreeSet::new();
            while let Some(id) = open.pop() {
                if found.insert(id as usize) {
                    open.extend(&part_of[id as usize]);
                }
            }
            found
        };
        let requiring: BTreeSet<usize> = taking_in(requiring);
        if requiring.is_empty() { requiring } else { &taking_in(forbidding) & &requiring }
    }

    /// The part as it is where nobody may require `names`: itself if it does not. Ends because parts lead in no circle.
    fn exempted(&mut self, part: Id, names: &BTreeSet<Box<str>>, copies: &mut HashMap<Id, Id>) -> Id {
        let (mut open, mut done) = (vec![part], HashSet::new());
        while let Some(&id) = open.last() {
            let base = self.schemas[id as usize].base();
            let inner: Vec<Id> = self.schemas[id as usize].all_of.iter().copied().chain(base).collect();
            if let std::collections::hash_map::Entry::Vacant(entry) = copies.entry(id) {
                entry.insert(id);
                done.insert(id);
                open.extend(inner.iter().filter(|inner| !copies.contains_key(inner)));
                continue;
            }
            open.pop();
            if !done.remove(&id) {
                continue;
            }
            let all_of: Vec<Id> = inner.iter().map(|inner| copies.get(inner).copied().unwrap_or(*inner)).collect();
            if all_of != inner || self.schemas[id as usize].requires(names) {
                let mut copy = Schema { all_of, ..self.schemas[id as usize].clone() };
                copy.exempt(names);
                if base.is_some() {
                    // Its subtypes would require the members, which nobody can send here.
                    copy.discriminator = None;
                }
                self.schemas.push(copy);
                copies.insert(id, (self.schemas.len() - 1) as Id);
            }
        }
        self.looks.add(copies.len());
        copies.get(&part).copied().unwrap_or(part)
    }

    /// A schema that applies itself to the same value would never end.
    fn find_circles(&mut self) {
        // 0: not looked at, 1: on the way, 2: done.
        let mut state = vec![0u8; self.schemas.len()];
        let mut circles = Vec::new();
        for start in 0..self.schemas.len() {
            if state[start] != 0 {
                continue;
            }
            state[start] = 1;
            let mut path = vec![(start, in_place(&self.schemas[start]).into_iter())];
            while let Some((index, inner)) = path.last_mut() {
                let Some(inner) = inner.next() else {
                    state[*index] = 2;
                    path.pop();
                    continue;
                };
                self.looks.add(1);
                match state[inner as usize] {
                    0 => {
                        state[inner as usize] = 1;
                        path.push((inner as usize, in_place(&self.schemas[inner as usize]).into_iter()));
                    }
                    1 => circles.push(inner),
                    _ => {}
                }
            }
        }
        for id in circles {
            self.current = id;
            self.problem(
                self.schemas[id as usize].place,
                "this schema leads back to itself without going into the value, so it has no meaning",
            );
        }
    }
}

/// A program, and what was left out of it.
#[derive(Debug)]
pub struct Built {
    /// The program. What is unusable allows nothing in it.
    pub program: Program,
    /// What makes schemas unusable.
    pub problems: Vec<Problem>,
    /// What weakens nothing.
    pub warnings: Vec<Problem>,
    /// By number of what was added: a problem of a schema that it depends on.
    pub unusable: Vec<Option<Problem>>,
    /// How often a schema was looked at to find out what is made of what: the measure of the work that compositions make.
    #[doc(hidden)]
    pub looks: usize,
}

impl Built {
    /// Why a schema that was added cannot be relied on.
    pub fn unusable(&self, id: SchemaId) -> Option<&Problem> {
        self.unusable.get(id.0 as usize)?.as_ref()
    }
}

/// The schemas that are applied to the same value as this one.
pub(super) fn in_place(schema: &Schema) -> Vec<Id> {
    let mut ids = schema.all_of.clone();
    ids.extend(schema.base());
    ids.extend(aside(schema));
    ids
}

/// Those that it does not take in as parts of itself.
pub(super) fn aside(schema: &Schema) -> Vec<Id> {
    let mut ids = schema.any_of.clone();
    ids.extend(&schema.one_of);
    ids.extend(schema.not);
    ids.extend(schema.condition.iter().flat_map(|condition| [condition.test, condition.then, condition.otherwise]));
    ids.extend(schema.object.iter().flat_map(|object| object.dependent_schemas.iter().map(|(_, id)| *id)));
    ids
}
