//! Names from outside that become parts of paths.

/// Whether `text`, which came from outside, can be one component of a path and nothing more.
pub(crate) fn is_component(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text != "."
        && text != ".."
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_never_leaves_its_directory() {
        for good in ["a", "0b3c-44", "..data", "x.y_z"] {
            assert!(is_component(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../x", "a\0b", "é"] {
            assert!(!is_component(bad), "{bad}");
        }
    }
}
