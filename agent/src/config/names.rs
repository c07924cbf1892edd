//! Names: the valid names of nodes, labels and domains, and suggestions for mistyped keys.

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

/// Checks the key of a label or taint: a name, or a domain and a name.
///
/// # Errors
/// It is no key.
pub fn check_label_key(key: &str) -> Result<(), String> {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    if domain.is_none_or(is_subdomain) && is_word(name) {
        return Ok(());
    }
    Err(format!(
        "{key:?} is not a valid key, such as zone or example.com/zone"
    ))
}

/// Checks the value of a label or taint.
///
/// # Errors
/// It is no value.
pub fn check_label_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_word(value) {
        return Ok(());
    }
    Err(format!(
        "{value:?} is not a valid value: at most 63 letters and digits, with `-`, `_` and `.` between them"
    ))
}

/// Reports whether `text` is a DNS-1123 subdomain whose labels have at most 63 characters, as names of most objects are.
pub fn is_subdomain(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    let outer = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && outer(text.bytes().next())
        && outer(text.bytes().last())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

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
        assert_eq!(distance("nmae", "name"), 1);
        assert_eq!(distance("ca", "abc"), 3);
    }
}
