//! Names: the valid names of nodes, and suggestions for mistyped keys.

/// Reports whether `name` is a DNS-1123 subdomain of at most 253 characters, as Kubernetes requires for a node's name.
pub(super) fn is_node_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    label.starts_with(alphanumeric)
        && label.ends_with(alphanumeric)
        && label.chars().all(|c| alphanumeric(c) || c == '-')
}

/// Returns the known name nearest to `name`, if it is near enough for a typing error: one letter in three, at most three.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let limit = (name.chars().count() / 3).min(3);
    let (distance, best) = known.map(|known| (distance(name, known), known)).min()?;
    (distance <= limit).then(|| best.to_owned())
}

/// Returns the Levenshtein distance, ignoring case. Both names are cut to a limited length.
fn distance(left: &str, right: &str) -> usize {
    let letters = |text: &str| {
        text.chars()
            .take(64)
            .map(|c| c.to_ascii_lowercase())
            .collect::<Vec<_>>()
    };
    let (left, right) = (letters(left), letters(right));
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, a) in left.iter().enumerate() {
        let mut diagonal = above;
        let mut before = above + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&right) {
            let next = (diagonal + usize::from(a != b))
                .min(*cell + 1)
                .min(before + 1);
            diagonal = *cell;
            *cell = next;
            before = next;
        }
        if let Some(first) = row.first_mut() {
            *first = above + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names() {
        for good in ["a", "edge-1", "edge-1.example.com", "0"] {
            assert!(is_node_name(good), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a_b",
            "a..b",
            ".a",
            "a.",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(!is_node_name(bad), "{bad}");
        }
    }

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
    }
}
