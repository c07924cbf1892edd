//! Labels on the command line, checked by the rules of Kubernetes.

/// Parses `KEY=VALUE`.
///
/// # Errors
/// It has no `=`, or the key or the value is invalid.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("expected KEY=VALUE, for example zone=north")?;
    check_label_key(key)?;
    check_label_value(value)?;
    Ok((key.to_owned(), value.to_owned()))
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

/// Parses an object's name: DNS labels (RFC 1123) separated by dots.
///
/// # Errors
/// It is no such name.
pub fn subdomain(text: &str) -> Result<String, String> {
    if is_subdomain(text) {
        return Ok(text.to_owned());
    }
    Err(
        "expected lower-case letters and digits, with `-` and `.` between them (RFC 1123)"
            .to_owned(),
    )
}

fn is_subdomain(text: &str) -> bool {
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
    fn labels_follow_the_rules_of_kubernetes() {
        for good in ["zone=north", "example.com/rack=", "a.b/c_d=E-1.f"] {
            assert!(label(good).is_ok(), "{good}");
        }
        for (bad, part) in [
            ("zone", "KEY=VALUE"),
            ("=north", "not a valid key"),
            ("a b=c", "not a valid key"),
            ("a/b/c=d", "not a valid key"),
            ("Example.com/a=b", "not a valid key"),
            ("a=-", "not a valid value"),
            ("a=b c", "not a valid value"),
        ] {
            let error = label(bad).unwrap_err();
            assert!(error.contains(part), "{bad}: {error}");
        }
        let long = "a".repeat(64);
        assert!(check_label_value(&long).is_err() && check_label_key(&long).is_err());
    }
}
