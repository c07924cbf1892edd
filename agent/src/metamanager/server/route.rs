//! Parses what a request asks for. Pure.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;
use wire::application::{Target, Verb};

use super::query::Query;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Discovery: versions, kinds, schemas, health.
    Discovery,
    /// A request for objects.
    Objects(ObjectRequest),
    /// A request that this server does not support; the text says why.
    Refused(&'static str),
    /// A path that the API does not have.
    Unknown,
}

/// A request for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectRequest {
    /// The object or collection.
    pub(super) target: Target,
    /// The subresource; empty for the objects themselves.
    pub(super) part: String,
    /// The verb.
    pub(super) verb: Verb,
}

impl ObjectRequest {
    /// Reports whether the kubelet answers this: a log, or a session in a container.
    pub(super) fn is_stream(&self) -> bool {
        self.part == "log" || self.is_session()
    }

    /// Reports whether this is a session: a command in a pod, or its ports.
    pub(super) fn is_session(&self) -> bool {
        matches!(self.part.as_str(), "exec" | "attach" | "portforward")
    }
}

/// Parses a request's method and path.
pub(super) fn route(method: &Method, uri: &Uri) -> Route {
    let Some(segments) = segments(uri.path()) else {
        return Route::Unknown;
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        [
            "api" | "apis" | "version" | "healthz" | "livez" | "readyz" | "openapi",
            ..,
        ] => {
            return if *method == Method::GET {
                Route::Discovery
            } else {
                Route::Refused("only GET is possible here")
            };
        }
        _ => return Route::Unknown,
    };
    let (namespace, plural, name, part) = match rest {
        // subresources of a namespace itself
        ["namespaces", name, part @ ("status" | "finalize")] => ("", "namespaces", *name, *part),
        ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
        ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
        ["namespaces", namespace, plural, name, part] => (*namespace, *plural, *name, *part),
        [plural] => ("", *plural, "", ""),
        [plural, name] => ("", *plural, *name, ""),
        [plural, name, part] => ("", *plural, *name, *part),
        _ => return Route::Unknown,
    };
    if part == "proxy" {
        return Route::Refused("MetaServer is no proxy into nodes, pods and services");
    }
    let is_of_pods = group.is_empty() && version == "v1" && plural == "pods";
    if matches!(part, "log" | "exec" | "attach" | "portforward") && !is_of_pods {
        return Route::Unknown;
    }
    let watches = || Query::of(uri).flag("watch");
    let verb = match (method.as_str(), name.is_empty()) {
        ("GET", true) if watches() => Verb::Watch,
        ("GET", true) => Verb::List,
        ("GET", false) => Verb::Get,
        ("POST", _) if !part.is_empty() || name.is_empty() => Verb::Create,
        ("PUT", false) if part == "status" => Verb::UpdateStatus,
        ("PUT", false) => Verb::Update,
        ("PATCH", false) => Verb::Patch,
        ("DELETE", false) => Verb::Delete,
        ("DELETE", true) => {
            return Route::Refused("MetaServer deletes objects one by one, not collections");
        }
        _ => return Route::Refused("the API has no such method for this path"),
    };
    let text = str::to_owned;
    let target = Target {
        group: text(group),
        version: text(version),
        plural: text(plural),
        namespace: text(namespace),
        name: text(name),
    };
    Route::Objects(ObjectRequest {
        target,
        part: text(part),
        verb,
    })
}

/// Returns the path's segments; `None` if one of them is empty, which other servers read differently, or has an encoded
/// separator.
fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/')
        .map(|segment| {
            let text = percent_decode_str(segment).decode_utf8().ok()?.into_owned();
            let is_plain = !text.is_empty()
                && !text.contains(['/', '%', '?', '#'])
                && text != "."
                && text != "..";
            is_plain.then_some(text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Route {
        let (method, uri) = line.split_once(' ').unwrap();
        route(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table or one story")]
    fn requests_are_parsed() {
        let ask = |verb: Verb, parts: [&str; 5], part: &str| {
            let [group, version, plural, namespace, name] = parts.map(str::to_owned);
            let target = Target {
                group,
                version,
                plural,
                namespace,
                name,
            };
            Route::Objects(ObjectRequest {
                target,
                part: part.to_owned(),
                verb,
            })
        };
        let rows = [
            (
                "GET /api/v1/pods",
                ask(Verb::List, ["", "v1", "pods", "", ""], ""),
            ),
            (
                "GET /api/v1/pods?watch=1",
                ask(Verb::Watch, ["", "v1", "pods", "", ""], ""),
            ),
            (
                "GET /api/v1/namespaces",
                ask(Verb::List, ["", "v1", "namespaces", "", ""], ""),
            ),
            (
                "GET /api/v1/namespaces/a",
                ask(Verb::Get, ["", "v1", "namespaces", "", "a"], ""),
            ),
            (
                "GET /api/v1/namespaces/a/status",
                ask(Verb::Get, ["", "v1", "namespaces", "", "a"], "status"),
            ),
            (
                "GET /api/v1/namespaces/a/pods/b",
                ask(Verb::Get, ["", "v1", "pods", "a", "b"], ""),
            ),
            (
                "PUT /api/v1/namespaces/a/pods/b/status",
                ask(Verb::UpdateStatus, ["", "v1", "pods", "a", "b"], "status"),
            ),
            (
                "PATCH /apis/x.io/v1/things/b",
                ask(Verb::Patch, ["x.io", "v1", "things", "", "b"], ""),
            ),
            (
                "DELETE /apis/x.io/v1/things/b",
                ask(Verb::Delete, ["x.io", "v1", "things", "", "b"], ""),
            ),
            (
                "POST /api/v1/namespaces/a/configmaps",
                ask(Verb::Create, ["", "v1", "configmaps", "a", ""], ""),
            ),
            (
                "POST /api/v1/namespaces/a/serviceaccounts/b/token",
                ask(
                    Verb::Create,
                    ["", "v1", "serviceaccounts", "a", "b"],
                    "token",
                ),
            ),
            (
                "GET /api/v1/namespaces/a/pods/b/log?follow=true&watch=1",
                ask(Verb::Get, ["", "v1", "pods", "a", "b"], "log"),
            ),
            (
                "POST /api/v1/namespaces/a/pods/b/exec?command=sh",
                ask(Verb::Create, ["", "v1", "pods", "a", "b"], "exec"),
            ),
            (
                "GET /apis/apps/v1/namespaces/a/deployments/b/log",
                Route::Unknown,
            ),
            ("GET /apis", Route::Discovery),
            ("GET /api/v1", Route::Discovery),
            ("GET /openapi/v3/apis/apps/v1", Route::Discovery),
            ("GET /version", Route::Discovery),
            ("GET /", Route::Unknown),
            ("GET /metrics/../x", Route::Unknown),
            ("GET /api/v1/namespaces/a/pods/b%2Fc", Route::Unknown),
            ("GET /api/v1/namespaces/a/pods/b/c/d/e", Route::Unknown),
            ("GET /api/v1/namespaces/..%2f..%2f/secrets", Route::Unknown),
            ("GET /apis//v1/secrets", Route::Unknown),
            ("GET /api//v1/secrets", Route::Unknown),
            ("GET //api/v1/secrets", Route::Unknown),
            ("GET /api/v1/", Route::Discovery),
        ];
        for (line, expected) in rows {
            assert_eq!(of(line), expected, "{line}");
        }
        for line in [
            "DELETE /api/v1/pods",
            "POST /apis",
            "GET /api/v1/nodes/a/proxy",
            "POST /api/v1/nodes/a",
        ] {
            assert!(matches!(of(line), Route::Refused(_)), "{line}");
        }
    }
}
