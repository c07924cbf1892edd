//! Topic names and filters (section 4.7): validation and matching.

#[cfg(test)]
mod tests;

use crate::reason::{Fault, Reason};

/// The most levels of a name or a filter. A string could have sixty thousand, and each level of a subscription is a node of a tree.
pub(crate) const MAX_LEVELS: usize = 128;

/// The prefix of a shared subscription's filter (section 4.8.2).
const SHARE: &str = "$share/";

/// A parsed subscription filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filter<'a> {
    /// The share name of a shared subscription.
    pub(crate) share: Option<&'a str>,
    /// The filter that topics are matched with.
    pub(crate) filter: &'a str,
}

/// Checks that `name` is a topic name: not empty, without wildcards, and not too deep.
pub(crate) fn check_name(name: &str) -> Result<(), Fault> {
    let said = match () {
        () if name.is_empty() => "an empty topic name",
        () if name.contains(['+', '#']) => "a topic name with a wildcard",
        () if too_deep(name) => "a topic name of more than 128 levels",
        () => return Ok(()),
    };
    Err(Fault::new(Reason::TopicNameInvalid, said))
}

/// Reports whether this text is a valid filter for a subscription.
#[must_use]
pub fn is_filter(text: &str) -> bool {
    text.len() <= usize::from(u16::MAX) && !text.contains('\0') && parse_filter(text).is_ok()
}

/// Parses a subscription's filter.
pub(crate) fn parse_filter(text: &str) -> Result<Filter<'_>, Fault> {
    let invalid = |said| Fault::new(Reason::TopicFilterInvalid, said);
    let Some(shared) = text.strip_prefix(SHARE) else {
        check_filter(text)?;
        return Ok(Filter {
            share: None,
            filter: text,
        });
    };
    let (share, filter) = shared
        .split_once('/')
        .ok_or(invalid("a shared subscription without a filter"))?;
    if share.is_empty() || share.contains(['+', '#']) {
        return Err(invalid("a share's name that is empty or has a wildcard"));
    }
    check_filter(filter)?;
    Ok(Filter {
        share: Some(share),
        filter,
    })
}

fn check_filter(filter: &str) -> Result<(), Fault> {
    let said = match () {
        () if filter.is_empty() => "an empty topic filter",
        () if too_deep(filter) => "a topic filter of more than 128 levels",
        () if filter
            .split('/')
            .any(|level| level.len() > 1 && level.contains(['+', '#'])) =>
        {
            "a wildcard that is not a whole level"
        }
        () if filter.split('/').rev().skip(1).any(|level| level == "#") => {
            "a # that is not the last level"
        }
        () => return Ok(()),
    };
    Err(Fault::new(Reason::TopicFilterInvalid, said))
}

fn too_deep(text: &str) -> bool {
    text.split('/').count() > MAX_LEVELS
}

/// Reports whether `text` is a system topic (`$…`), whose first level no wildcard matches.
pub(crate) fn is_hidden(text: &str) -> bool {
    text.starts_with('$')
}

/// Reports whether `filter` (without a share) matches the topic `name`.
#[must_use]
pub fn filter_matches(filter: &str, name: &str) -> bool {
    if is_hidden(name) && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = name.split('/');
    for wanted in filter.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Returns the part of `filter` before its first wildcard: every matching topic begins with it, except for the `/` at its end.
pub(crate) fn literal_prefix(filter: &str) -> &str {
    filter
        .find(['+', '#'])
        .map_or(filter, |wildcard| filter[..wildcard].trim_end_matches('/'))
}
