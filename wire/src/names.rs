//! Names that peers send and that become parts of URLs and files: a name must never change the path it is put into.

/// The longest name of an object, bytes, as in Kubernetes.
const MAX_NAME: usize = 253;
/// The longest DNS label, bytes (RFC 1123).
const MAX_LABEL: usize = 63;

/// Reports whether `text` is exactly one segment of a path, also where nothing encodes it: at most 253 ASCII letters, digits, `-`, `.`, `_`
/// and `:` (names of roles have it), and not `.` or `..`.
pub fn is_path_segment(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME
        && !matches!(text, "." | "..")
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte))
}

/// Reports whether `text` is exactly one component of a path in the file system: a segment without `:`.
pub fn is_path_component(text: &str) -> bool {
    is_path_segment(text) && !text.contains(':')
}

/// Reports whether `text` is a DNS label (RFC 1123), as every namespace's name.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_label(text)
}

/// Reports whether `text` matches `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
pub(crate) fn is_label(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| is_edge(Some(byte)) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What changes a URL, or a line of a log, if it is put there as it is.
    const EVIL: [&str; 18] = [
        "",
        ".",
        "..",
        "?x=",
        "?watch=true",
        "a?b",
        "a#b",
        "a/b",
        "../a",
        "default%2Fpods",
        "a%00",
        "a b",
        "a\nb",
        "a\u{1b}[31m",
        "a\\b",
        "ä",
        "a&b",
        "a;b",
    ];

    #[test]
    fn a_segment_never_leaves_its_place() {
        for good in [
            "a",
            "edge-1.example.com",
            "system:node:edge-1",
            "a_b",
            "..data",
            &"x".repeat(253),
        ] {
            assert!(is_path_segment(good), "{good}");
        }
        for bad in EVIL.into_iter().chain([&*"x".repeat(254)]) {
            assert!(!is_path_segment(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_namespace_is_a_dns_label() {
        for good in ["a", "default", "kube-node-lease", "0", &"x".repeat(63)] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in EVIL
            .into_iter()
            .chain(["A", "a.b", "-a", "a-", "a:b", "a_b", &*"x".repeat(64)])
        {
            assert!(!is_dns_label(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_path_component_never_leaves_its_directory() {
        for good in ["a", "0b3c-44", "..data", "x.y_z"] {
            assert!(is_path_component(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../x", "a\0b", "a:b", "é"] {
            assert!(!is_path_component(bad), "{bad}");
        }
    }
}
