//! The lists, maps and optional values that expressions make. They share their parts, so one of a few parts may have more leaves than
//! anybody can walk: their depth is limited, and what walks them is paid for before (see [`super::weight`]).

use std::ops::Deref;

/// How many levels a made value may have. What reads one goes down as deep.
pub(super) const DEEPEST: usize = 128;

/// Parts, and how many levels of made values they are.
#[derive(Clone, Debug)]
pub(crate) struct Made<T> {
    part: T,
    depth: usize,
}

impl<T> Made<T> {
    /// Of parts of which the deepest has so many levels.
    pub(super) fn new(part: T, deepest: usize) -> Self {
        Self { part, depth: 1 + deepest }
    }

    pub(super) fn part(&self) -> &T {
        &self.part
    }

    /// To change the parts, where the deepest of the new ones has so many levels.
    pub(super) fn part_mut(&mut self, deepest: usize) -> &mut T {
        self.depth = self.depth.max(1 + deepest);
        &mut self.part
    }

    /// How many levels of made values it is.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }
}

impl<T> Deref for Made<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}
