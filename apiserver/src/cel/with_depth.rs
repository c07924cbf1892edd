//! Lists, maps and optional values that expressions compute, with their depth. They share their parts, so a few parts can have more
//! leaves than can ever be walked: the depth is limited, and a walk is paid for in advance (see [`super::weight`]).

use std::ops::Deref;

/// The greatest depth of a computed value, which bounds the recursion of its readers.
pub(super) const MAX_DEPTH: usize = 128;

/// A computed value and its depth.
#[derive(Clone, Debug)]
pub(crate) struct WithDepth<T> {
    part: T,
    depth: usize,
}

impl<T> WithDepth<T> {
    /// Makes a value whose deepest part has the depth `deepest`.
    pub(super) fn new(part: T, deepest: usize) -> Self {
        Self {
            part,
            depth: 1 + deepest,
        }
    }

    pub(super) fn part(&self) -> &T {
        &self.part
    }

    /// Returns the parts for a change by which the deepest new one has the depth `deepest`.
    pub(super) fn part_mut(&mut self, deepest: usize) -> &mut T {
        self.depth = self.depth.max(1 + deepest);
        &mut self.part
    }

    /// Returns the depth.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }
}

impl<T> Deref for WithDepth<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}
