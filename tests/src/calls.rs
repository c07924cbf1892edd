//! The calls that were made of a cluster's API, for the test that compares them with the rules of the roles.

use std::{collections::BTreeSet, sync::Arc};

use cloudsim::{Observer, Right};
use http::{Method, Uri};
use parking_lot::Mutex;

/// The calls that were made, each once; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<BTreeSet<Right>>>);

impl Calls {
    /// Returns all calls, with the namespace of the request.
    pub(crate) fn all_calls(&self) -> BTreeSet<Right> {
        self.0.lock().clone()
    }

    /// Returns what records the requests of a cloud.
    pub(crate) fn observer(&self) -> Observer {
        let calls = self.clone();
        Observer::new(move |method, uri| calls.note(method, uri))
    }

    fn note(&self, method: &Method, uri: &Uri) {
        if let Some(call) = right_of(method, uri.path(), uri.query().unwrap_or_default()) {
            self.0.lock().insert(call);
        }
    }
}

/// Returns the right that a request needs; `None` for discovery and other paths that every authenticated user may read.
pub fn right_of(method: &Method, path: &str, query: &str) -> Option<Right> {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let (group, rest) = match segments.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, name, part) = match rest {
        [resource] => (*resource, false, None),
        [resource, _] => (*resource, true, None),
        [resource, _, part, ..] => (*resource, true, Some(*part)),
        [] => return None,
    };
    let watches = form_urlencoded::parse(query.as_bytes())
        .any(|(key, value)| key == "watch" && value != "false");
    let verb = match (method.as_str(), name) {
        ("GET", _) if watches => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return None,
    };
    let resource = part.map_or_else(|| resource.to_owned(), |part| format!("{resource}/{part}"));
    Some(Right {
        namespace: namespace.to_owned(),
        group: group.to_owned(),
        resource,
        verb: verb.to_owned(),
        name: String::new(),
    })
}
