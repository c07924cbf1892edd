//! Functions of strings, whose indexes count characters.

use super::{context::Context, format, quote::quote};
use crate::cel::{
    error::{EvalError, Evaluated},
    value::{List, Text, Val},
};

/// Calls a function of strings.
pub(super) fn call<'a>(
    name: &str,
    args: &[Val<'a>],
    context: &mut Context<'_>,
) -> Option<Evaluated<'a>> {
    let (text, rest) = match (name, args) {
        ("size", [Val::Bytes(bytes)]) => return Some(Ok(Val::size(bytes.len()))),
        ("join", [Val::List(list)]) => return Some(join(list, "", context)),
        ("join", [Val::List(list), Val::String(separator)]) => {
            return Some(join(list, separator, context));
        }
        (_, [Val::String(text), rest @ ..]) => (text, rest),
        _ => return None,
    };
    Some(match (name, rest) {
        ("size", []) => Ok(Val::size(text.chars().count())),
        ("contains", [Val::String(part)]) => Ok(Val::Bool(text.contains(&**part))),
        ("startsWith", [Val::String(part)]) => Ok(Val::Bool(text.starts_with(&**part))),
        ("endsWith", [Val::String(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("matches", [Val::String(pattern)]) => context
            .patterns
            .get(pattern, text.len(), context.budget)
            .map(|pattern| Val::Bool(pattern.is_match(text))),
        ("find", [Val::String(pattern)]) => context
            .patterns
            .get(pattern, text.len(), context.budget)
            .map_err(illegal)
            .map(|pattern| Val::text(pattern.find(text).map_or("", |found| found.as_str()))),
        ("findAll", [Val::String(pattern)]) => find_all(text, pattern, -1, context),
        ("findAll", [Val::String(pattern), Val::Int(limit)]) => {
            find_all(text, pattern, *limit, context)
        }
        ("charAt", [Val::Int(at)]) => char_at(text, *at),
        ("indexOf", [Val::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Val::String(part), Val::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Val::String(part)]) => Ok(last_index_of(text, part, usize::MAX)),
        ("lastIndexOf", [Val::String(part), Val::Int(to)]) => last_index_before(text, part, *to),
        ("lowerAscii", []) => Ok(Val::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Val::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Val::text(text.trim())),
        ("replace", [Val::String(old), Val::String(new)]) => replace(text, old, new, -1, context),
        ("replace", [Val::String(old), Val::String(new), Val::Int(limit)]) => {
            replace(text, old, new, *limit, context)
        }
        ("split", [Val::String(separator)]) => split(text, separator, -1, context),
        ("split", [Val::String(separator), Val::Int(limit)]) => {
            split(text, separator, *limit, context)
        }
        ("substring", [Val::Int(from)]) => substring(text, *from, None),
        ("substring", [Val::Int(from), Val::Int(to)]) => substring(text, *from, Some(*to)),
        ("format", [Val::List(list)]) => format::format(text, list, context),
        ("strings.quote", []) => Ok(Val::text(quote(text))),
        ("jsonpatch.escapeKey", []) => Ok(Val::text(text.replace('~', "~0").replace('/', "~1"))),
        _ => return None,
    })
}

fn join<'a>(list: &List<'a>, separator: &str, context: &mut Context<'_>) -> Evaluated<'a> {
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Val::String(text) = item else {
            return EvalError::fail(format!("join: invalid input: {}", item.type_name()));
        };
        context.budget.spend_bytes(text.len() + separator.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(&text);
    }
    Ok(Val::text(joined))
}

fn find_all<'a>(text: &str, pattern: &str, limit: i64, context: &mut Context<'_>) -> Evaluated<'a> {
    let pattern = context
        .patterns
        .get(pattern, text.len(), context.budget)
        .map_err(illegal)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for found in pattern.find_iter(text).take(limit) {
        // the search for the next may go to the end of the text
        context
            .budget
            .spend(1 + (text.len() - found.end()) as u64 / 256)?;
        all.push(Val::text(found.as_str()));
    }
    Ok(Val::list(all))
}

fn illegal(error: EvalError) -> EvalError {
    match error {
        EvalError::Failed(why) => EvalError::Failed(format!("Illegal regex: {why}")),
        error => error,
    }
}

fn out_of_range<T>(index: i64) -> Result<T, EvalError> {
    EvalError::fail(format!("index out of range: {index}"))
}

fn char_at<'a>(text: &str, at: i64) -> Evaluated<'a> {
    let Ok(position) = usize::try_from(at) else {
        return out_of_range(at);
    };
    match text.chars().nth(position) {
        Some(char) => Ok(Val::text(char.to_string())),
        None if position == text.chars().count() => Ok(Val::text("")),
        None => out_of_range(at),
    }
}

/// Returns the byte offset of the n-th character.
fn byte_of(text: &str, index: usize) -> usize {
    text.char_indices()
        .nth(index)
        .map_or(text.len(), |(at, _)| at)
}

fn characters(text: &str, bytes: usize) -> usize {
    text.get(..bytes).map_or(0, |before| before.chars().count())
}

/// The first occurrence at `from` or after; none beyond the end, where only nothing occurs.
fn index_of<'a>(text: &str, part: &str, from: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(from));
    }
    let Ok(start) = usize::try_from(from) else {
        return out_of_range(from);
    };
    let start = byte_of(text, start);
    let found = text.get(start..).and_then(|rest| rest.find(part));
    Ok(found.map_or(Val::Int(-1), |found| {
        Val::size(characters(text, start + found))
    }))
}

/// The last occurrence that begins at `to` or before; none if `to` is beyond the end.
fn last_index_before<'a>(text: &str, part: &str, to: i64) -> Evaluated<'a> {
    if part.is_empty() {
        return Ok(Val::Int(to));
    }
    let Ok(end) = usize::try_from(to) else {
        return out_of_range(to);
    };
    match part {
        _ if end >= text.chars().count() => Ok(Val::Int(-1)),
        part => Ok(last_index_of(text, part, end)),
    }
}

/// Returns the last occurrence that begins with the character `to` or before.
fn last_index_of<'a>(text: &str, part: &str, to: usize) -> Val<'a> {
    let last = text.char_indices().nth(to).map_or(text.len(), |(at, _)| at);
    let end = (last + part.len()).min(text.len());
    // one that begins there ends with the part's last byte, which may be within a character of the text
    let end = (0..=end)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or_default();
    let found = text.get(..end).and_then(|before| before.rfind(part));
    found.map_or(Val::Int(-1), |found| Val::size(characters(text, found)))
}

fn replace<'a>(
    text: &str,
    old: &str,
    new: &str,
    limit: i64,
    context: &mut Context<'_>,
) -> Evaluated<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = text.matches(old).take(limit).count();
    context
        .budget
        .spend_bytes(text.len().saturating_add(found.saturating_mul(new.len())))?;
    Ok(Val::text(text.replacen(old, new, limit)))
}

fn split<'a>(text: &str, separator: &str, limit: i64, context: &mut Context<'_>) -> Evaluated<'a> {
    let most = if separator.is_empty() {
        text.len()
    } else {
        1 + text.matches(separator).count()
    };
    context
        .budget
        .spend(most.min(usize::try_from(limit).unwrap_or(usize::MAX)) as u64)?;
    let parts: Vec<_> = match (usize::try_from(limit).unwrap_or(usize::MAX), separator) {
        (0, _) => Vec::new(),
        (limit, "") => {
            let mut parts: Vec<_> = text.chars().map(String::from).collect();
            if parts.len() > limit {
                let rest = parts.split_off(limit - 1).concat();
                parts.push(rest);
            }
            parts
        }
        (limit, separator) => text.splitn(limit, separator).map(str::to_owned).collect(),
    };
    Ok(Val::list(parts.into_iter().map(Val::text).collect()))
}

fn substring<'a>(text: &Text<'a>, from: i64, to: Option<i64>) -> Evaluated<'a> {
    let length = text.chars().count();
    if let Some(to) = to.filter(|to| from > *to) {
        return EvalError::fail(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let (Ok(start), Ok(end)) = (
        usize::try_from(from),
        to.map_or(Ok(length), usize::try_from),
    ) else {
        return out_of_range(if from < 0 {
            from
        } else {
            to.unwrap_or_default()
        });
    };
    if start > length {
        return out_of_range(from);
    }
    if end > length {
        return out_of_range(to.unwrap_or_default());
    }
    let part: String = text.chars().skip(start).take(end - start).collect();
    Ok(Val::text(part))
}
