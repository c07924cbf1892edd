//! Suggests the known name that was probably meant by a mistyped one. Pure.

/// Returns the known name nearest to `name`, if it is near enough for a typing error: one letter in three, at most three.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let limit = (name.chars().count() / 3).min(3);
    let (distance, best) = known.map(|known| (distance(name, known), known)).min()?;
    (distance <= limit).then(|| best.to_owned())
}

/// Returns the number of letters that are missing, superfluous, wrong or swapped with their neighbour (optimal string alignment),
/// ignoring case. Both names are cut to a limited length.
fn distance(left: &str, right: &str) -> usize {
    let letters = |text: &str| {
        text.chars()
            .take(64)
            .map(|c| c.to_ascii_lowercase())
            .collect::<Vec<_>>()
    };
    let (left, right) = (letters(left), letters(right));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut least = (above[j] + usize::from(a != b))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

/// Returns the known name that was probably meant, in parentheses; nothing if none is near.
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips() {
        let known = ["websocket", "quic", "heartbeat"];
        let near = |name| nearest(name, known.into_iter());
        assert_eq!(near("websockt").as_deref(), Some("websocket"));
        assert_eq!(near("hearthbeat").as_deref(), Some("heartbeat"));
        assert_eq!(near("quick").as_deref(), Some("quic"));
        assert_eq!(near("lease"), None);
        assert_eq!(near(""), None);
        assert_eq!(nearest("a", std::iter::empty()), None);
    }

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("ABC", "abc"), 0);
        assert_eq!(distance("nmae", "name"), 1);
        assert_eq!(distance("ca", "abc"), 3);
    }
}
