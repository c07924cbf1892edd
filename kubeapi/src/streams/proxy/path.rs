//! The path of a proxied request: the prefix of the proxy, and the path at the backend.

/// The parts of a proxied request's path.
pub(super) struct ProxyPath {
    /// The prefix, up to and including `/proxy`.
    pub(super) prefix: String,
    /// The path after the prefix, with its slash; empty where the path ends with `/proxy`.
    pub(super) path: String,
    /// The encoded query, with its question mark.
    pub(super) query: String,
}

impl ProxyPath {
    /// Splits the URI of a request; `namespaced`: the proxied object has a namespace.
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
        let query = uri
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        Self {
            prefix: path[..end].to_owned(),
            path: path[end..].to_owned(),
            query,
        }
    }

    /// Returns the path and query for the backend. A request whose path ends with `/proxy` is for its root.
    pub(super) fn path_and_query(&self) -> String {
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        format!("{path}{}", self.query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_behind_the_proxy_is_left_as_it_is() {
        let of = |path: &str, namespaced| {
            let place = ProxyPath::of(&path.parse().unwrap(), namespaced);
            (place.prefix.clone(), place.path_and_query())
        };
        let pair = |prefix: &str, path: &str| (prefix.to_owned(), path.to_owned());
        let pod = "/api/v1/namespaces/ns/pods/p:80/proxy";
        assert_eq!(of(pod, true), pair(pod, "/"));
        assert_eq!(of(&format!("{pod}?x=1"), true), pair(pod, "/?x=1"));
        assert_eq!(of(&format!("{pod}/"), true), pair(pod, "/"));
        assert_eq!(
            of(&format!("{pod}//a%2Fb/?x=%20"), true),
            pair(pod, "//a%2Fb/?x=%20")
        );
        assert_eq!(
            of("/api/v1/nodes/n/proxy/pods", false),
            pair("/api/v1/nodes/n/proxy", "/pods")
        );
    }
}
