//! The functions and operators, with the types of their arguments and results. An expression that uses any other is refused by the
//! checker.

use std::{collections::BTreeMap, sync::LazyLock};

use super::decl::Decl;

/// An overload of a function. A receiver (`target.name(…)`) is its first argument.
#[derive(Clone, Debug)]
pub(super) struct Overload {
    pub(super) has_target: bool,
    pub(super) args: Vec<Decl>,
    pub(super) result: Decl,
}

/// Returns the overloads of `name`; none for an unknown name.
pub(super) fn overloads(name: &str) -> &'static [Overload] {
    TABLE.get(name).map_or(&[], Vec::as_slice)
}

static TABLE: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut table = BTreeMap::<_, Vec<_>>::new();
    for line in OVERLOADS
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if let Some((name, overload)) = read(line) {
            table.entry(name).or_default().push(overload);
        }
    }
    table
});

/// `target->name(args) result`.
fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let (target, rest) = match line.split_once("->") {
        Some((target, rest)) => (Some(target), rest),
        None => (None, line),
    };
    let (name, rest) = rest.split_once('(')?;
    let (args, result) = rest.rsplit_once(") ")?;
    let target = target.map(of);
    let args = target
        .iter()
        .cloned()
        .chain(split(args).into_iter().map(of))
        .collect();
    Some((
        name,
        Overload {
            has_target: target.is_some(),
            args,
            result: of(result),
        },
    ))
}

/// Splits at commas outside of brackets.
fn split(args: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, char) in args.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(args.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(args.get(start..).filter(|last| !last.is_empty()));
    parts
}

fn of(text: &'static str) -> Decl {
    let (name, inner) = match text.split_once('(') {
        Some((name, inner)) => (name, split(inner.strip_suffix(')').unwrap_or(inner))),
        None => (text, Vec::new()),
    };
    let at = |index: usize| inner.get(index).map_or(Decl::Dyn, |inner| of(inner));
    match name {
        "dyn" => Decl::Dyn,
        "free" => Decl::Free,
        "null" => Decl::Null,
        "bool" => Decl::Bool,
        "int" => Decl::Int,
        "uint" => Decl::Uint,
        "double" => Decl::Double,
        "string" => Decl::String,
        "bytes" => Decl::Bytes,
        "timestamp" => Decl::Timestamp,
        "duration" => Decl::Duration,
        "type" => Decl::Type,
        "list" => Decl::list(at(0)),
        "map" => Decl::map(at(0), at(1)),
        "optional" => Decl::optional(at(0)),
        "T" => Decl::Param(0),
        "V" => Decl::Param(1),
        other => Decl::Opaque(other),
    }
}

const OVERLOADS: &str = include_str!("functions.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let lines = OVERLOADS
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count();
        assert_eq!(TABLE.values().map(Vec::len).sum::<usize>(), lines);
        for overload in TABLE.values().flatten() {
            let opaque = [
                "quantity",
                "semver",
                "url",
                "ip",
                "cidr",
                "format",
                "authorizer",
                "path_check",
                "group_check",
                "resource_check",
                "decision",
            ];
            for decl in overload.args.iter().chain([&overload.result]) {
                assert!(
                    !matches!(decl, Decl::Opaque(name) if !opaque.contains(name)),
                    "{decl}"
                );
            }
        }
    }
}
