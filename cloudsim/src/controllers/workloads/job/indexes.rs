//! Sets of an indexed job's numbers, as statuses and policies write them: `0-3,7`. Pure.

use std::{collections::BTreeSet, fmt};

/// Numbers of an indexed job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<i32>);

impl Indexes {
    /// Reads `0-3,7`. Numbers that are not below `completions` are left out, as is what is not a number or range.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let ranges = text.split(',').filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse::<i32>().ok()?, last.trim().parse::<i32>().ok()?);
            // cut before it is counted out: the text may come from anybody
            Some(first.max(0)..=last.min(completions - 1))
        });
        Self(ranges.flatten().collect())
    }

    /// Whether the number is among them.
    pub(super) fn contains(&self, index: i32) -> bool {
        self.0.contains(&index)
    }

    /// One more.
    pub(super) fn insert(&mut self, index: i32) {
        self.0.insert(index);
    }

    /// How many they are.
    pub(super) fn count(&self) -> i32 {
        i32::try_from(self.0.len()).unwrap_or(i32::MAX)
    }

    /// How many are in both.
    pub(super) fn common(&self, other: &Self) -> i32 {
        i32::try_from(self.0.intersection(&other.0).count()).unwrap_or(i32::MAX)
    }

    /// The text of a status, which has none for no numbers.
    pub(super) fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.to_string())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for index in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => ranges.push((*index, *index)),
            }
        }
        for (place, (first, last)) in ranges.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
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
            ("3,4", 5, "3-4"),
            ("0-2,4", 3, "0-2"),
            ("0-2147483647", 2, "0-1"),
            ("a,1,2-b,-3", 5, "1"),
        ] {
            assert_eq!(Indexes::parse(text, completions).to_string(), expected, "{text}");
        }
    }
}
