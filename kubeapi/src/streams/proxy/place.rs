//! The path of what is proxied, and the path within.

/// The path of what is proxied, as its clients see it.
pub(super) struct Place {
    /// Up to and with `/proxy`.
    pub(super) prefix: String,
    /// What follows, from the slash on; empty where the path ends with `/proxy`.
    pub(super) path: String,
    /// The encoded query, with its question mark.
    pub(super) query: String,
}

impl Place {
    /// Of the URI of a request; `namespaced`: what is proxied stands in a namespace.
    pub(super) fn of(uri: &http::Uri, namespaced: bool) -> Self {
        // api, v1, namespaces, namespace, kind, name, proxy
        let mut steps = if namespaced { 7 } else { 5 };
        let path = uri.path();
        let mut end = path.len();
        let mut inside = false;
        for (at, one) in path.char_indices() {
            if inside && one == '/' {
                steps -= 1;
                if steps == 0 {
                    end = at;
                    break;
                }
            }
            inside = one != '/';
        }
        let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
        Self { prefix: path[..end].to_owned(), path: path[end..].to_owned(), query }
    }

    /// What is asked of what is proxied.
    pub(super) fn path_and_query(&self) -> String {
        format!("{}{}", self.path, self.query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_behind_the_proxy_is_left_as_it_is() {
        let of = |path: &str, namespaced| {
            let place = Place::of(&path.parse().unwrap(), namespaced);
            (place.prefix.clone(), place.path_and_query())
        };
        let pair = |prefix: &str, path: &str| (prefix.to_owned(), path.to_owned());
        let pod = "/api/v1/namespaces/ns/pods/p:80/proxy";
        assert_eq!(of(pod, true), pair(pod, ""));
        assert_eq!(of(&format!("{pod}/"), true), pair(pod, "/"));
        assert_eq!(of(&format!("{pod}//a%2Fb/?x=%20"), true), pair(pod, "//a%2Fb/?x=%20"));
        assert_eq!(of("/api/v1/nodes/n/proxy/pods", false), pair("/api/v1/nodes/n/proxy", "/pods"));
    }
}
