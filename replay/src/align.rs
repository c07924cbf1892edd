//! Aligns two sequences of messages about one resource, in time near to linear. Pure.

use std::collections::{HashMap, VecDeque};

/// How the messages of one resource correspond, by their places in the two sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Messages with a counterpart in the same order. Their contents may differ.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// Messages of the same meaning in another order.
    pub(crate) moved: Vec<(usize, usize)>,
    /// Messages of the first sequence without counterpart.
    pub(crate) missing: Vec<usize>,
    /// Messages of the second sequence without counterpart.
    pub(crate) additional: Vec<usize>,
}

/// The operation and the meaning of a message, as hashes.
pub(crate) type Hashes = (u64, u64);

/// Aligns two sequences. Messages of equal meaning are paired, the first with the first and so on. Of these pairs, the largest number that
/// is in order stays. What is left between two such pairs is paired in order, if the operation is the same.
pub(crate) fn align(first: &[Hashes], second: &[Hashes]) -> Alignment {
    let mut places: HashMap<&Hashes, VecDeque<usize>> = HashMap::new();
    for (place, hash) in second.iter().enumerate() {
        places.entry(hash).or_default().push_back(place);
    }
    let equal: Vec<(usize, usize)> = first
        .iter()
        .enumerate()
        .filter_map(|(place, hash)| Some((place, places.get_mut(hash)?.pop_front()?)))
        .collect();
    let in_order = longest_increasing(&equal);
    let mut result = Alignment::default();
    let mut is_free = [vec![true; first.len()], vec![true; second.len()]];
    for (pair, is_in_order) in equal.iter().zip(&in_order) {
        is_free[0][pair.0] = false;
        is_free[1][pair.1] = false;
        if !is_in_order {
            result.moved.push(*pair);
        }
    }
    let kept = equal.iter().zip(&in_order).filter(|(_, kept)| **kept);
    let ends = kept
        .map(|(pair, _)| Some(*pair))
        .chain(std::iter::once(None));
    let mut begin = (0, 0);
    for end in ends {
        let (a, b) = end.unwrap_or((first.len(), second.len()));
        let mut left: HashMap<u64, VecDeque<usize>> = HashMap::new();
        for place in (begin.0..a).filter(|place| is_free[0][*place]) {
            left.entry(first[place].0).or_default().push_back(place);
        }
        for place in (begin.1..b).filter(|place| is_free[1][*place]) {
            let found = left.get_mut(&second[place].0);
            match found.and_then(VecDeque::pop_front) {
                Some(a) => result.pairs.push((a, place)),
                None => result.additional.push(place),
            }
        }
        result.missing.extend(left.into_values().flatten());
        if end.is_some() {
            result.pairs.push((a, b));
            begin = (a + 1, b + 1);
        }
    }
    result.missing.sort_unstable();
    result
}

/// Reports for each pair whether it belongs to a longest sequence of pairs whose second places increase.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<bool> {
    // of each length, the pair with the smallest end
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for (place, (_, value)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *value);
        before[place] = length.checked_sub(1).map(|length| ends[length]);
        if length == ends.len() {
            ends.push(place);
        } else {
            ends[length] = place;
        }
    }
    let mut kept = vec![false; pairs.len()];
    let mut next = ends.last().copied();
    while let Some(place) = next {
        kept[place] = true;
        next = before[place];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: &[u64], second: &[u64], expected: [&[(usize, usize)]; 2], lost: [&[usize]; 2]) {
        // a number is an operation (hundreds) and a meaning
        let [a, b] =
            [first, second].map(|all| all.iter().map(|n| (n / 100, *n)).collect::<Vec<_>>());
        let found = align(&a, &b);
        let expected = Alignment {
            pairs: expected[0].to_vec(),
            moved: expected[1].to_vec(),
            missing: lost[0].to_vec(),
            additional: lost[1].to_vec(),
        };
        assert_eq!(found, expected, "{first:?} {second:?}");
    }

    #[test]
    fn equal_messages_are_paired_and_the_rest_between_them() {
        check(&[], &[], [&[], &[]], [&[], &[]]);
        check(&[1, 2], &[1, 2], [&[(0, 0), (1, 1)], &[]], [&[], &[]]);
        check(&[1, 2, 3], &[1, 3], [&[(0, 0), (2, 1)], &[]], [&[1], &[]]);
        check(&[1, 3], &[1, 2, 3], [&[(0, 0), (1, 2)], &[]], [&[], &[1]]);
        check(
            &[1, 2, 3],
            &[1, 9, 3],
            [&[(0, 0), (1, 1), (2, 2)], &[]],
            [&[], &[]],
        );
        check(&[1, 1, 1], &[1, 1], [&[(0, 0), (1, 1)], &[]], [&[2], &[]]);
        check(&[1], &[2, 3], [&[(0, 0)], &[]], [&[], &[1]]);
        check(&[1, 101], &[102], [&[(1, 0)], &[]], [&[0], &[]]);
        check(&[1], &[101], [&[], &[]], [&[0], &[0]]);
    }

    #[test]
    fn another_order_is_found() {
        check(
            &[1, 2, 3],
            &[2, 3, 1],
            [&[(1, 0), (2, 1)], &[(0, 2)]],
            [&[], &[]],
        );
    }

    #[test]
    fn long_sequences_take_no_quadratic_time() {
        let first: Vec<Hashes> = (0..200_000).map(|n| (0, n)).collect();
        let second: Vec<Hashes> = first.iter().copied().rev().collect();
        assert_eq!(align(&first, &second).moved.len(), 199_999);
        let same = vec![(0, 7); 200_000];
        assert_eq!(align(&same, &same[1..]).missing, [199_999]);
    }
}
