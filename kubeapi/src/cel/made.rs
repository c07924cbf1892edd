//! The lists, maps and optional values that expressions make. They share their parts, so one of a few parts may have more leaves than
//! anybody can walk: their depth is limited, and what walks them is paid for before (see [`super::weight`]).

use std::{collections::BTreeMap, ops::Deref};

use super::value::{Key, Val};

/// How many levels a made value may have. What reads one goes down as deep.
pub(super) const DEEPEST: usize = 128;

/// Parts, and how many levels of made values they are.
#[derive(Clone, Debug)]
pub(crate) struct Made<T> {
    part: T,
    depth: usize,
}

impl<T> Made<T> {
    pub(super) fn part(&self) -> &T {
        &self.part
    }
}

impl<T> Deref for Made<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl<'a> Made<Vec<Val<'a>>> {
    pub(super) fn list(part: Vec<Val<'a>>) -> Self {
        let depth = 1 + part.iter().map(Val::depth).max().unwrap_or_default();
        Self { part, depth }
    }

    pub(super) fn extend(&mut self, items: Vec<Val<'a>>) {
        let deepest = items.iter().map(Val::depth).max().unwrap_or_default();
        self.depth = self.depth.max(1 + deepest);
        self.part.extend(items);
    }
}

impl<'a> Made<BTreeMap<Key<'a>, Val<'a>>> {
    pub(super) fn map(part: BTreeMap<Key<'a>, Val<'a>>) -> Self {
        let depth = 1 + part.values().map(Val::depth).max().unwrap_or_default();
        Self { part, depth }
    }

    /// Whether the key is new.
    pub(super) fn insert(&mut self, key: Key<'a>, value: Val<'a>) -> bool {
        self.depth = self.depth.max(1 + value.depth());
        self.part.insert(key, value).is_none()
    }
}

impl<'a> Made<Val<'a>> {
    pub(super) fn optional(part: Val<'a>) -> Self {
        let depth = 1 + part.depth();
        Self { part, depth }
    }
}

impl Val<'_> {
    /// How many levels of made values it has: none where it stands in an object, which is no deeper than its reader allows.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::List(super::value::List::Made(made)) => made.depth,
            Self::Map(super::value::Map::Made(made)) => made.depth,
            Self::Optional(Some(made)) => made.depth,
            _ => 0,
        }
    }
}
