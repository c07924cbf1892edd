//! Names: the valid names of nodes, labels and domains.

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
}
