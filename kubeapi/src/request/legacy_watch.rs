//! The older way to ask for a watch: `/api/v1/watch/<path of a collection or an object>`.

use http::{Uri, request::Parts, uri::PathAndQuery};

use crate::{
    registry::Registry,
    request::path::{self, RequestPath},
};

/// Rewrites such a request as one with `watch=true`, with the object's name as a field selector. Others stay as they are.
pub(crate) fn rewrite(registry: &Registry, parts: &mut Parts) {
    let Some(plain) = without_watch(parts.uri.path()) else {
        return;
    };
    let RequestPath::Objects(target) = path::parse(registry, &plain) else {
        return;
    };
    if target.part.is_some() {
        return;
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    let mut selector = String::new();
    for (name, value) in form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "watch" => {}
            "fieldSelector" if !target.name.is_empty() => selector = value.into_owned(),
            _ => drop(query.append_pair(&name, &value)),
        }
    }
    query.append_pair("watch", "true");
    let mut collection = plain.as_str();
    if !target.name.is_empty() {
        let separator = if selector.is_empty() { "" } else { "," };
        query.append_pair(
            "fieldSelector",
            &format!("{selector}{separator}metadata.name={}", target.name),
        );
        collection = plain
            .trim_end_matches('/')
            .rsplit_once('/')
            .map_or("", |(collection, _)| collection);
    }
    let written: Option<PathAndQuery> = format!("{collection}?{}", query.finish()).parse().ok();
    let mut uri = parts.uri.clone().into_parts();
    uri.path_and_query = written.or(uri.path_and_query);
    if let Ok(uri) = Uri::from_parts(uri) {
        parts.uri = uri;
    }
}

/// The path without its step `watch`, where that stands behind the version.
fn without_watch(path: &str) -> Option<String> {
    let steps: Vec<_> = path.split('/').filter(|step| !step.is_empty()).collect();
    let (head, rest) = match steps.as_slice() {
        ["api", version, "watch", rest @ ..] => (format!("/api/{version}"), rest),
        ["apis", group, version, "watch", rest @ ..] => (format!("/apis/{group}/{version}"), rest),
        _ => return None,
    };
    (!rest.is_empty()).then(|| format!("{head}/{}", rest.join("/")))
}
