//! Labels on the command line, checked by the rules of Kubernetes.

use crate::config::is_subdomain;
pub use crate::config::{check_label_key, check_label_value};

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
