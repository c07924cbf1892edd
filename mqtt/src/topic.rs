//! Topic names and filters (section 4.7): what is one, and what matches what.

#[cfg(test)]
mod tests;

use crate::reason::{Fault, Reason};

/// Levels of a name or a filter. Sixty thousand fit into a string, and each level of a subscription is a node of a tree.
pub(crate) const MAX_LEVELS: usize = 128;

/// What a shared subscription's filter begins with (section 4.8.2).
const SHARE: &str = "$share/";

/// A subscription's filter, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filter<'a> {
    /// The share's name, of a shared subscription.
    pub(crate) share: Option<&'a str>,
    /// What matches topics.
    pub(crate) filter: &'a str,
}

/// Whether `name` is a topic's name: not empty, no wildcard, not too deep.
pub(crate) fn check_name(name: &str) -> Result<(), Fault> {
    let said = match () {
        () if name.is_empty() => "an empty topic name",
        () if name.contains(['+', '#']) => "a topic name with a wildcard",
        () if too_deep(name) => "a topic name of more than 128 levels",
        () => return Ok(()),
    };
    Err(Fault::new(Reason::TopicNameInvalid, said))
}

/// Whether something can be subscribed to by this text.
#[must_use]
pub fn is_filter(text: &str) -> bool {
    text.len() <= usize::from(u16::MAX) && !text.contains('\0') && parse_filter(text).is_ok()
}

/// Takes a subscription's filter apart.
pub(crate) fn parse_filter(text: &str) -> Result<Filter<'_>, Fault> {
    let invalid = |said| Fault::new(Reason::TopicFilterInvalid, said);
    let Some(shared) = text.strip_prefix(SHARE) else {
        check_filter(text)?;
        return Ok(Filter { share: None, filter: text });
    };
    let (share, filter) = shared.split_once('/').ok_or(invalid("a shared subscription without a filter"))?;
    if share.is_empty() || share.contains(['+', '#']) {
        return Err(invalid("a share's name that is empty or has a wildcard"));
    }
    check_filter(filter)?;
    Ok(Filter { share: Some(share), filter })
}

fn check_filter(filter: &str) -> Result<(), Fault> {
    let said = match () {
        () if filter.is_empty() => "an empty topic filter",
        () if too_deep(filter) => "a topic filter of more than 128 levels",
        () if filter.split('/').any(|level| level.len() > 1 && level.contains(['+', '#'])) => {
            "a wildcard that is not a whole level"
        }
        () if filter.split('/').rev().skip(1).any(|level| level == "#") => "a # that is not the last level",
        () => return Ok(()),
    };
    Err(Fault::new(Reason::TopicFilterInvalid, said))
}

fn too_deep(text: &str) -> bool {
    text.split('/').count() > MAX_LEVELS
}

/// Whether a wildcard may stand for the first level of `text`: topics of the system are asked for by name.
pub(crate) fn hidden(text: &str) -> bool {
    text.starts_with('$')
}

/// Whether `filter` (without a share) matches the topic `name`.
#[must_use]
pub fn filter_matches(filter: &str, name: &str) -> bool {
    if hidden(name) && filter.starts_with(['+', '#']) {
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

/// The part of `filter` before its first wildcard: every matching topic begins with it, but for the `/` at its end.
pub(crate) fn literal_prefix(filter: &str) -> &str {
    filter.find(['+', '#']).map_or(filter, |wildcard| filter[..wildcard].trim_end_matches('/'))
}
