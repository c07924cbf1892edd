//! Rewrites the `Location` of a backend's redirect. Pure.

use http::{HeaderValue, Uri};

/// Returns the location for the proxy's client; `None` where it is unchanged.
///
/// Source: `rewriteURL` of the real server's transport.
pub(super) fn rewritten(location: &str, prefix: &str) -> Option<HeaderValue> {
    // a location on another server is not the proxy's, nor is one that is relative
    let uri: Uri = location
        .parse()
        .ok()
        .filter(|_| location.starts_with('/') && !location.starts_with("//"))?;
    if uri.path().starts_with(prefix) {
        return None;
    }
    HeaderValue::from_str(&format!("{prefix}{location}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_become_the_proxys() {
        let of = |location: &str| {
            let value = rewritten(location, "/api/v1/nodes/n/proxy")?;
            Some(value.to_str().unwrap().to_owned())
        };
        assert_eq!(
            of("/a/?b=c").as_deref(),
            Some("/api/v1/nodes/n/proxy/a/?b=c")
        );
        for same in [
            "a",
            "../a",
            "https://example.com/a",
            "//example.com/a",
            "/api/v1/nodes/n/proxy/a",
            "\u{1}",
        ] {
            assert_eq!(of(same), None, "{same}");
        }
    }
}
