//! Evaluates tables of rules over objects. A row is a path, a rule and Kubernetes' message; the tables are in `tables/`.
//!
//! A path consists of the names of fields, separated by dots. A field that is absent is `null`, so that rules for required fields see
//! it. `name?` leaves the row out if the field is absent; `name[*]` stands for each item, `name[-]` for the same without an index in
//! messages, `name{*}` for each value of a map; `name>other` is called `other` in messages, and `name>` is not named there.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    labels,
    numbers::{self, percent},
    place::Place,
};
use crate::{
    cause::Cause,
    object::{names, quantity::Quantity},
};

/// Returns the fault of a text.
pub type Faults = fn(&str) -> Vec<String>;

/// One row of a table.
#[derive(Debug)]
pub struct Row {
    at: &'static str,
    rule: Rule,
}

/// The required type or range of a value.
#[derive(Debug)]
pub enum Rule {
    /// There, and not empty; the text says why.
    Required(&'static str),
    /// There, but possibly empty.
    Present(&'static str),
    /// Absent; the text says why.
    Absent(&'static str),
    /// One of these texts, unless it is empty.
    OneOf(&'static [&'static str]),
    /// One of these texts.
    Supported(&'static [&'static str]),
    /// One of these texts; an empty one is missing.
    Choice(&'static [&'static str]),
    /// Of this format, unless it is empty.
    Format(Faults),
    /// Of this format, unless it is absent.
    FormatIfSet(Faults),
    /// Of this format, also if it is absent.
    Always(Faults),
    /// Of this format; an empty text is missing.
    Name(Faults),
    /// A number that is not negative.
    NonNegative,
    /// A number that is at least this, if there is one; the text says so.
    AtLeast(i64, &'static str),
    /// A number that is at least this; an absent one is 0.
    Least(i64, &'static str),
    /// A number between these two, if there is one.
    Between(i64, i64),
    /// A number between these two; an absent one is 0.
    Within(i64, i64),
    /// A number between these two, if there is one; the text says so.
    Limited(i64, i64, &'static str),
    /// The number or the name of a port; an absent one is 0.
    Port,
    /// A quantity that is not negative.
    Quantity,
    /// A number of pods that is not negative, or a percentage.
    IntOrPercent,
    /// No more than 100%.
    AtMostAll,
    /// Labels.
    Labels,
    /// A selector of labels.
    Selector,
    /// No two items have the same text under this key; without a key, no two items are equal.
    Unique(&'static str),
    /// At most this many items.
    MaxItems(usize),
    /// At most this many bytes.
    MaxBytes(usize),
    /// One of the members, which excludes the others.
    Union(&'static Union),
    /// Each row of another table.
    Table(&'static [Row]),
    /// A limit of bytes, which is checked before anything else.
    Limit(fn(&Place<'_>, &mut Vec<Cause>)),
    /// A rule between fields.
    Check(fn(&Place<'_>, &mut Vec<Cause>)),
}

/// Fields of which one may be set.
#[derive(Debug)]
pub struct Union {
    /// The alternatives.
    pub members: &'static [Member],
    /// Why a second one is refused.
    pub many: &'static str,
    /// Why none is refused.
    pub none: &'static str,
}

/// A field of a union.
#[derive(Debug)]
pub struct Member {
    field: &'static str,
    /// What messages call a second one, and what they call the only one.
    names: [&'static str; 2],
    rows: &'static [Row],
}

impl Member {
    /// The name of the field.
    pub fn name(&self) -> &'static str {
        self.field
    }
}

/// Makes a row.
pub const fn row(at: &'static str, rule: Rule) -> Row {
    Row { at, rule }
}

/// Makes a member.
pub const fn member(field: &'static str, rows: &'static [Row]) -> Member {
    Member {
        field,
        names: [field, field],
        rows,
    }
}

/// Makes a member that Kubernetes' messages call otherwise: as a second one, and as the only one.
pub const fn rename(field: &'static str, names: [&'static str; 2], rows: &'static [Row]) -> Member {
    Member { field, names, rows }
}

/// Adds the faults of `place` by all rows.
pub fn check(rows: &[Row], place: &Place<'_>, causes: &mut Vec<Cause>) {
    for row in rows {
        let before = causes.len();
        follow(row.at, place, &mut |place| apply(&row.rule, place, causes));
        // the rules that follow would look at each of too many, and some of them at all others for each
        if matches!(row.rule, Rule::MaxItems(_)) && causes.len() > before {
            return;
        }
    }
}

/// Adds the faults of `place` by the rows that limit numbers of items and bytes, before all that takes time for each of them.
pub fn check_limits(rows: &[Row], place: &Place<'_>, causes: &mut Vec<Cause>) {
    for row in rows {
        match &row.rule {
            Rule::Table(rows) => follow(row.at, place, &mut |place| {
                check_limits(rows, place, causes)
            }),
            Rule::MaxItems(_) => follow(row.at, place, &mut |place| {
                causes.extend(single(&row.rule, place))
            }),
            Rule::Limit(check) => follow(row.at, place, &mut |place| check(place, causes)),
            _ => {}
        }
        if !causes.is_empty() {
            return;
        }
    }
}

/// Visits all values at the path.
fn follow(at: &str, place: &Place<'_>, visit: &mut dyn FnMut(&Place<'_>)) {
    if at.is_empty() {
        return visit(place);
    }
    let (step, rest) = at.split_once('.').unwrap_or((at, ""));
    let (step, suffix) = ["?", "[*]", "[-]", "{*}"]
        .into_iter()
        .find_map(|suffix| Some((step.strip_suffix(suffix)?, suffix)))
        .unwrap_or((step, ""));
    let (name, shown) = step.split_once('>').unwrap_or((step, step));
    let child = place.child(name, shown);
    match suffix {
        "?" if child.value.is_null() => {}
        "[*]" => {
            for (index, value) in child.list().iter().enumerate() {
                follow(rest, &child.item(index, value), visit);
            }
        }
        "[-]" => child
            .list()
            .iter()
            .for_each(|value| follow(rest, &child.hidden(value), visit)),
        "{*}" => {
            child
                .entries()
                .for_each(|(key, value)| follow(rest, &child.entry(key, value), visit));
        }
        _ => follow(rest, &child, visit),
    }
}

fn apply(rule: &Rule, place: &Place<'_>, causes: &mut Vec<Cause>) {
    match rule {
        Rule::Table(rows) => check(rows, place, causes),
        Rule::Union(union) => of_union(union, place, causes),
        Rule::Check(check) | Rule::Limit(check) => check(place, causes),
        Rule::Labels => labels::labels(place, causes),
        Rule::Selector => labels::selector(place, causes),
        Rule::Unique(key) => unique(key, place, causes),
        Rule::Port => port(place, causes),
        Rule::Format(_) | Rule::FormatIfSet(_) | Rule::Always(_) | Rule::Name(_) => {
            text(rule, place, causes)
        }
        rule => causes.extend(single(rule, place)),
    }
}

/// Returns the fault of a rule that finds at most one.
fn single(rule: &Rule, place: &Place<'_>) -> Option<Cause> {
    let value = place.value;
    let written = value.as_str().unwrap_or_default();
    let fault = |is_wrong: bool, why: &str| is_wrong.then(|| place.refusal(why));
    match rule {
        Rule::Required(why) => is_empty(value).then(|| Cause::required(place.path(), why)),
        Rule::Present(why) => value.is_null().then(|| Cause::required(place.path(), why)),
        Rule::Absent(why) => (!is_absent(value)).then(|| Cause::forbidden(place.path(), why)),
        Rule::OneOf(_) if written.is_empty() => None,
        Rule::Choice(_) if written.is_empty() => Some(Cause::required(place.path(), "")),
        Rule::OneOf(known) | Rule::Choice(known) | Rule::Supported(known) => (!known
            .contains(&written))
        .then(|| Cause::unsupported(place.path(), &written.into(), known)),
        Rule::MaxItems(most) => {
            let count = place.list().len();
            (count > *most).then(|| Cause::too_many(place.path(), count as u64, *most as u64))
        }
        Rule::MaxBytes(most) => {
            (written.len() > *most).then(|| Cause::too_long(place.path(), *most))
        }
        Rule::Quantity => {
            let is_negative = Quantity::parse(written).is_some_and(Quantity::is_negative);
            fault(is_negative, numbers::NEGATIVE)
        }
        Rule::AtMostAll => fault(
            percent(value).is_some_and(|percent| percent > 100),
            "must not be greater than 100%",
        ),
        rule => numbers::fault(rule_of_number(rule)?, place),
    }
}

/// Returns the rule of a number, if it is one.
fn rule_of_number(rule: &Rule) -> Option<numbers::Bound> {
    use numbers::Bound;
    Some(match rule {
        Rule::NonNegative => Bound::Least {
            least: 0,
            why: numbers::NEGATIVE,
            is_required: false,
        },
        Rule::AtLeast(least, why) => Bound::Least {
            least: *least,
            why,
            is_required: false,
        },
        Rule::Least(least, why) => Bound::Least {
            least: *least,
            why,
            is_required: true,
        },
        Rule::Between(from, to) => Bound::Range {
            from: *from,
            to: *to,
            is_required: false,
        },
        Rule::Within(from, to) => Bound::Range {
            from: *from,
            to: *to,
            is_required: true,
        },
        Rule::Limited(from, to, why) => Bound::Limited {
            from: *from,
            to: *to,
            why,
        },
        Rule::IntOrPercent => Bound::IntOrPercent,
        _ => return None,
    })
}

fn text(rule: &Rule, place: &Place<'_>, causes: &mut Vec<Cause>) {
    let text = place.value.as_str().unwrap_or_default();
    let faults = match rule {
        Rule::Name(_) if text.is_empty() => return causes.push(Cause::required(place.path(), "")),
        Rule::Format(_) if text.is_empty() => return,
        Rule::FormatIfSet(_) if place.value.is_null() => return,
        Rule::Format(faults)
        | Rule::FormatIfSet(faults)
        | Rule::Always(faults)
        | Rule::Name(faults) => faults,
        _ => return,
    };
    causes.extend(
        faults(text)
            .iter()
            .map(|why| Cause::invalid(place.path(), &text.into(), why)),
    );
}

fn port(place: &Place<'_>, causes: &mut Vec<Cause>) {
    match place.value {
        Value::String(name) => {
            let faults = names::port_name(name);
            causes.extend(faults.iter().map(|why| place.refusal(why)));
        }
        _ => {
            let bound = numbers::Bound::Range {
                from: 1,
                to: numbers::LAST_PORT,
                is_required: true,
            };
            causes.extend(numbers::fault(bound, place));
        }
    }
}

fn unique(key: &str, place: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken = HashSet::new();
    for (index, item) in place.list().iter().enumerate() {
        let item = place.item(index, item);
        if key.is_empty() {
            if !taken.insert(item.value.to_string()) {
                causes.push(Cause::duplicate_value(item.path(), item.value));
            }
        } else if !item.text(key).is_empty() && !taken.insert(item.text(key).to_owned()) {
            causes.push(Cause::duplicate(item.field(key), item.text(key)));
        }
    }
}

fn of_union(union: &Union, place: &Place<'_>, causes: &mut Vec<Cause>) {
    let mut found = union
        .members
        .iter()
        .filter(|member| place.has(member.field));
    match found.next() {
        Some(first) => check(
            first.rows,
            &place.child(first.field, first.names[1]),
            causes,
        ),
        None => causes.push(Cause::required(place.path(), union.none)),
    }
    causes.extend(found.map(|member| Cause::forbidden(place.field(member.names[0]), union.many)));
}

/// Whether a value counts as missing where one is required.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

/// Whether a value counts as absent where none is allowed.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
