//! Sets of completion indexes of indexed jobs, in the form of statuses and policies: `0-3,7`. Pure.

use std::{collections::BTreeMap, fmt};

/// Completion indexes as ranges: the first index of each with its last. No two of them touch, so that a range of two thousand million
/// indexes, which any user may write, takes no more memory than one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeMap<i32, i32>);

impl Indexes {
    /// Parses `0-3,7`. Indexes that are not below `completions` are left out, as is anything invalid.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let mut all = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.trim().parse::<i32>(), last.trim().parse::<i32>())
            {
                all.insert_range(first.max(0), last.min(completions.saturating_sub(1)));
            }
        }
        all
    }

    /// Returns the last index of the range with this one; `None` if it is not in the set.
    pub(super) fn end_of_range(&self, index: i32) -> Option<i32> {
        let (_, last) = self.0.range(..=index).next_back()?;
        Some(*last).filter(|last| *last >= index)
    }

    /// Reports whether the index is in the set.
    pub(super) fn contains(&self, index: i32) -> bool {
        self.end_of_range(index).is_some()
    }

    /// Adds an index.
    pub(super) fn insert(&mut self, index: i32) {
        self.insert_range(index, index);
    }

    fn insert_range(&mut self, mut first: i32, mut last: i32) {
        if first > last {
            return;
        }
        // adjacent ranges are merged
        while let Some((&start, &end)) = self.0.range(..=last.saturating_add(1)).next_back() {
            if end < first.saturating_sub(1) {
                break;
            }
            self.0.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.0.insert(first, last);
    }

    /// Returns the number of indexes.
    pub(super) fn count(&self) -> i32 {
        number(self.0.iter().map(|(first, last)| (*first, *last)))
    }

    /// Returns the number of common indexes.
    pub(super) fn common(&self, other: &Self) -> i32 {
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&(&first, &last)), Some(&(&start, &end))) = (mine.peek(), theirs.peek()) {
            if first.max(start) <= last.min(end) {
                both.push((first.max(start), last.min(end)));
            }
            // the range that ends first meets no more of the other set
            let _ = if last < end {
                mine.next()
            } else {
                theirs.next()
            };
        }
        number(both.into_iter())
    }

    /// Returns the text for a status; `None` for an empty set.
    pub(super) fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.to_string())
    }
}

/// Returns the number of indexes in disjoint ranges.
fn number(ranges: impl Iterator<Item = (i32, i32)>) -> i32 {
    let count: i64 = ranges
        .map(|(first, last)| i64::from(last) - i64::from(first) + 1)
        .sum();
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            // two indexes are no range, as in Kubernetes
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_ranges_and_read_again() {
        for (text, completions, expected) in [
            ("", 5, ""),
            ("0-2,4", 5, "0-2,4"),
            ("3-4", 5, "3,4"),
            ("0-2,4", 3, "0-2"),
            ("0-2147483647", 2, "0,1"),
            ("a,1,2-b,-3", 5, "1"),
            ("4-1", 5, ""),
            ("0-2147483646", i32::MAX, "0-2147483646"),
            ("5-7,0-1,2-3,6-9,11", 20, "0-3,5-9,11"),
            ("0", i32::MIN, ""),
        ] {
            assert_eq!(
                Indexes::parse(text, completions).to_string(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_are_counted_and_compared_as_if_each_stood_alone() {
        let texts = ["", "0", "0-4", "1,3,5", "2-3,7-9", "0-9", "9"];
        for (one, other) in texts
            .iter()
            .flat_map(|one| texts.iter().map(move |other| (one, other)))
        {
            let (a, b) = (Indexes::parse(one, 10), Indexes::parse(other, 10));
            let both = (0..10)
                .filter(|index| a.contains(*index) && b.contains(*index))
                .count();
            assert_eq!(
                a.common(&b),
                i32::try_from(both).unwrap(),
                "{one:?} {other:?}"
            );
            let mut all = a.clone();
            (0..10)
                .filter(|index| b.contains(*index))
                .for_each(|index| all.insert(index));
            let either = (0..10)
                .filter(|index| a.contains(*index) || b.contains(*index))
                .count();
            assert_eq!(
                all.count(),
                i32::try_from(either).unwrap(),
                "{one:?} {other:?}"
            );
        }
        let all = Indexes::parse("0-2147483646", i32::MAX);
        assert_eq!((all.count(), all.common(&all)), (i32::MAX, i32::MAX));
    }
}
