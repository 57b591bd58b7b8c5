//! Whether two `when` can hold at once: routes of which no request suits both are no conflict.

use config::{Comparison, Condition, Conditions, Expression, HostPattern, Relation, ValueCondition, ValueMatch, Which};
use ipnet::IpNet;
use wire::http::Method;

/// Whether no request suits both (but for one that carries a name twice), as far as that is plain to see. Each condition of one tree meets each of the other
/// at most twice.
pub(super) fn exclude(one: &Conditions, other: &Conditions, comparison: &mut Comparison) -> bool {
    contradict(one, other, comparison) || contradict(other, one, comparison)
}

/// Whether some condition of `ones` cannot hold beside the others. Of alternatives that is so if it is so of each.
fn contradict(ones: &Conditions, others: &Conditions, comparison: &mut Comparison) -> bool {
    ones.0.iter().any(|one| match one {
        Condition::All(items) => items.iter().any(|item| contradict(item, others, comparison)),
        Condition::Any(items) => items.iter().all(|item| contradict(item, others, comparison)),
        Condition::Not(conditions) => conditions.follow_from(others),
        leaf => contradicts(leaf, others, comparison),
    })
}

/// Whether a leaf cannot hold beside the others.
fn contradicts(leaf: &Condition, others: &Conditions, comparison: &mut Comparison) -> bool {
    others.0.iter().any(|other| match other {
        Condition::All(items) => items.iter().any(|item| contradicts(leaf, item, comparison)),
        Condition::Any(items) => items.iter().all(|item| contradicts(leaf, item, comparison)),
        Condition::Not(_) => false,
        other => leaves_exclude(leaf, other, comparison),
    })
}

fn leaves_exclude(one: &Condition, other: &Condition, comparison: &mut Comparison) -> bool {
    use Condition::{Asn, Client, Country, Ja4, Method, Port, Scheme, ServerName, Value, Version};
    let apart = |one: &IpNet, other: &IpNet| !one.contains(other) && !other.contains(one);
    match (one, other) {
        (Value(one), Value(other)) => {
            (one.of, &one.name) == (other.of, &other.name) && values_exclude(one, other, comparison)
        }
        (Method(ones), Method(others)) => no_common(ones, others, serve_one),
        (Scheme(one), Scheme(other)) => one != other,
        (Port(ones), Port(others)) => no_common(ones, others, PartialEq::eq),
        (Version(ones), Version(others)) => no_common(ones, others, PartialEq::eq),
        (Client(ones), Client(others)) => no_common(ones, others, |one, other| !apart(one, other)),
        (ServerName(ones), ServerName(others)) => no_common(ones, others, HostPattern::overlaps),
        (Ja4(ones), Ja4(others)) => no_common(ones, others, |one, other| !one.excludes(other)),
        (Country(ones), Country(others)) => no_common(ones, others, PartialEq::eq),
        (Asn(ones), Asn(others)) => no_common(ones, others, PartialEq::eq),
        _ => false,
    }
}

/// Whether some method is both.
fn serve_one(one: &Method, other: &Method) -> bool {
    one == other || matches!((one, other), (Method::Get, Method::Head) | (Method::Head, Method::Get))
}

/// Whether two lists have nothing in common.
fn no_common<T>(ones: &[T], others: &[T], meet: impl Fn(&T, &T) -> bool) -> bool {
    ones.iter().all(|one| !others.iter().any(|other| meet(one, other)))
}

fn values_exclude(one: &ValueCondition, other: &ValueCondition, comparison: &mut Comparison) -> bool {
    one.any.iter().all(|one| other.any.iter().all(|other| matches_exclude(one, other, comparison)))
}

fn matches_exclude(one: &ValueMatch, other: &ValueMatch, comparison: &mut Comparison) -> bool {
    use ValueMatch::{Absent, Count, Exact, Length, Number, Of, Prefix, Present, Regex};
    match (one, other) {
        (Count(one), Count(other)) | (Length(one), Length(other)) | (Number(one), Number(other)) => one.exclude(*other),
        (Absent, Count(bounds)) | (Count(bounds), Absent) => !bounds.hold(0),
        (Count(bounds), _) | (_, Count(bounds)) => bounds.most == 0,
        (Absent, Absent) => false,
        (Absent, _) | (_, Absent) => true,
        (Present, _) | (_, Present) => false,
        // Two values of one name may be the first and the last.
        (Of(Which::First, _), Of(Which::Last, _)) | (Of(Which::Last, _), Of(Which::First, _)) => false,
        (Of(_, one), Of(_, other)) => matches_exclude(one, other, comparison),
        // One of any is as good as each, where there is one.
        (Of(_, one), other) | (other, Of(_, one)) => matches_exclude(one, other, comparison),
        (Exact(text), Length(bounds)) | (Length(bounds), Exact(text)) => !bounds.hold(text.len() as u64),
        (Exact(text), Number(bounds)) | (Number(bounds), Exact(text)) => !bounds.hold_text(text.as_bytes()),
        (Length(_) | Number(_), _) | (_, Length(_) | Number(_)) => false,
        (Exact(one), Exact(other)) => one != other,
        (Exact(text), Prefix(start)) | (Prefix(start), Exact(text)) => !text.starts_with(start.as_str()),
        (Exact(text), Regex(expression)) | (Regex(expression), Exact(text)) => !expression.matches(text.as_bytes()),
        (Prefix(one), Prefix(other)) => !one.starts_with(other.as_str()) && !other.starts_with(one.as_str()),
        (Prefix(start), Regex(expression)) | (Regex(expression), Prefix(start)) => {
            Expression::of_prefix(start).is_some_and(|start| start.relation(expression, comparison) == Relation::Apart)
        }
        // Values may hold bytes that are not compared; those are no letters, so two expressions that share one of these share others.
        (Regex(one), Regex(other)) => one.relation(other, comparison) == Relation::Apart,
    }
}
