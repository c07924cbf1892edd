//! The order of a group's versions, as in `k8s.io/apimachinery/pkg/version`.

/// Returns the sort key: `v2` before `v1` before `v1beta2` before `v1alpha1`; `None` for any other text, which comes last.
pub fn version_priority(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    for (level, name) in [(1, "beta"), (0, "alpha")] {
        if let Some((major, minor)) = rest.split_once(name) {
            return Some((level, major.parse().ok()?, minor.parse().ok()?));
        }
    }
    Some((2, rest.parse().ok()?, 0))
}
