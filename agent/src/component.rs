//! Names from outside that become components of paths.

use wire::names::is_path_segment;

/// Reports whether `text` is exactly one component of a path.
pub(crate) fn is_component(text: &str) -> bool {
    is_path_segment(text) && !text.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_never_leaves_its_directory() {
        for good in ["a", "0b3c-44", "..data", "x.y_z"] {
            assert!(is_component(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../x", "a\0b", "a:b", "é"] {
            assert!(!is_component(bad), "{bad}");
        }
    }
}
