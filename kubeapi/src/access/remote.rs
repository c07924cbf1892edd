//! What a request asks for that another server answers.

use super::{attributes::Attributes, selected_name};
use crate::request::{query::Query, remote::RemotePath};

/// Returns what the request asks for, as kube-apiserver reads paths of resources; `None` if it is about no resource.
///
/// Source: `RequestInfoFactory` of Kubernetes' apiserver library.
pub(super) fn remote_attributes(
    remote: &RemotePath,
    method: &str,
    query: &Query,
) -> Option<Attributes> {
    let rest: Vec<&str> = remote.rest.iter().flatten().map(String::as_str).collect();
    let (special, rest) = match rest.as_slice() {
        [special @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (Some(*special), rest),
        rest => (None, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, "status" | "finalize", ..] => (*namespace, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        ["namespaces", namespace] => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, name, part) = match rest {
        [] => return None,
        [resource] => (*resource, "", ""),
        [resource, name] => (*resource, *name, ""),
        // what follows is a path within what is proxied
        [resource, name, ..] if special == Some("proxy") => (*resource, *name, ""),
        [resource, name, part, ..] => (*resource, *name, *part),
    };
    let (verb, name) = match (special, method) {
        (Some(special), _) => (special, name.to_owned()),
        (None, "GET" | "HEAD") if name.is_empty() => {
            let verb = if query.flag("watch") { "watch" } else { "list" };
            (verb, selected_name(query))
        }
        (None, "GET" | "HEAD") => ("get", name.to_owned()),
        (None, "POST") => ("create", name.to_owned()),
        (None, "PUT") => ("update", name.to_owned()),
        (None, "PATCH") => ("patch", name.to_owned()),
        (None, "DELETE") if name.is_empty() => ("deletecollection", String::new()),
        (None, "DELETE") => ("delete", name.to_owned()),
        (None, _) => ("options", name.to_owned()),
    };
    Some(Attributes {
        verb: verb.to_owned(),
        group: remote.group.clone(),
        resource: match part {
            "" => resource.to_owned(),
            part => format!("{resource}/{part}"),
        },
        namespace: namespace.to_owned(),
        name,
        path: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::remote::RemoteVersion;

    #[test]
    fn paths_of_other_servers_are_read_as_resources() {
        let versions = [RemoteVersion {
            group: "metrics.example.com".into(),
            version: "v1".into(),
            group_priority: 100,
            version_priority: 10,
        }];
        let root = "/apis/metrics.example.com/v1";
        let rows = [
            ("GET", "", "", None),
            ("GET", "/nodes", "", Some("list nodes  ")),
            ("GET", "/nodes", "watch=1", Some("watch nodes  ")),
            ("GET", "/nodes", "watch=false", Some("list nodes  ")),
            ("GET", "/nodes/a", "watch=1", Some("get nodes  a")),
            (
                "GET",
                "/nodes",
                "fieldSelector=metadata.name%3Da",
                Some("list nodes  a"),
            ),
            (
                "DELETE",
                "/nodes",
                "fieldSelector=metadata.name%3Da",
                Some("deletecollection nodes  "),
            ),
            ("GET", "/watch/nodes/a", "", Some("watch nodes  a")),
            ("GET", "/watch/namespaces/n/pods", "", Some("watch pods n ")),
            (
                "PUT",
                "/proxy/namespaces/n/pods/p/x/y",
                "",
                Some("proxy pods n p"),
            ),
            (
                "DELETE",
                "/namespaces/n/pods",
                "",
                Some("deletecollection pods n "),
            ),
            (
                "PATCH",
                "/namespaces/n/pods/p/status",
                "",
                Some("patch pods/status n p"),
            ),
            ("GET", "/namespaces/n", "", Some("get namespaces n n")),
            (
                "PUT",
                "/namespaces/n/status",
                "",
                Some("update namespaces/status n n"),
            ),
            // an escaped slash ends a segment as any other, in the other server too
            (
                "PUT",
                "/namespaces/n/pods/p%2Fstatus",
                "",
                Some("update pods/status n p"),
            ),
            ("GET", "/namespaces%2Fn%2Fpods", "", Some("list pods n ")),
            ("GET", "//nodes//a", "", Some("get nodes  a")),
        ];
        for (method, rest, query, expected) in rows {
            let place = RemotePath::find(&versions, &format!("{root}{rest}")).unwrap();
            let found = remote_attributes(&place, method, &Query::parse(query));
            let found = found.map(|wanted| {
                format!(
                    "{} {} {} {}",
                    wanted.verb, wanted.resource, wanted.namespace, wanted.name
                )
            });
            assert_eq!(found.as_deref(), expected, "{method} {rest}?{query}");
        }
        let document = "/openapi/v3/apis/metrics.example.com/v1";
        let document = RemotePath::find(&versions, document).unwrap();
        assert_eq!(remote_attributes(&document, "GET", &Query::parse("")), None);
        // the version may be escaped
        assert!(RemotePath::find(&versions, "/apis/metrics.example.com/%761/nodes").is_some());
        for path in [
            "/apis/metrics.example.com",
            "/apis/metrics.example.com/v2/nodes",
            "/api/v1/pods",
            "/",
        ] {
            assert_eq!(RemotePath::find(&versions, path), None, "{path}");
        }
    }
}
