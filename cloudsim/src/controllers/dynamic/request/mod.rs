//! Converts an Application to an API request. Pure.

use crds::policy::ServiceAccountAccessSpec;
use http::{Request, header};
use kube::client::Body;
use serde_json::{Map, Value, json};
use wire::{
    application::{Application, PatchInfo, Target, Verb},
    names::is_path_segment,
    text::printable_short,
};

/// A parsed and validated call.
#[derive(Debug)]
pub(super) struct Call {
    /// The objects of the call; with a name exactly if the call concerns a single one.
    pub(super) target: Target,
    /// The verb of the call.
    pub(super) verb: Verb,
    /// The subresource; empty for the objects themselves.
    pub(super) part: String,
    /// The object that is written.
    pub(super) body: Value,
    option: Value,
    /// The patch and its media type.
    patch: Option<(Vec<u8>, String)>,
}

/// Query parameters of lists and watches.
const LIST_PARAMETERS: [&str; 6] = [
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
];
/// Query parameters of writes.
const WRITE_PARAMETERS: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];

impl Call {
    /// Parses an Application; the error says what is invalid.
    pub(super) fn of(application: &Application) -> Result<Self, String> {
        let verb = application.verb;
        let mut target = Target::parse(&application.key).ok_or("its key names no objects")?;
        let option = json_or_null(&application.option, "option")?;
        let body = json_or_null(&application.req_body, "body")?;
        let mut part = application.subresource.clone();
        let mut patch = None;
        match verb {
            Verb::UpdateStatus => part = "status".to_owned(),
            Verb::Patch => {
                let info: PatchInfo = serde_json::from_slice(&application.option)
                    .map_err(|error| format!("its option is no PatchInfo: {error}"))?;
                target.name = info.name;
                part = info.subresources.unwrap_or_default().join("/");
                patch = Some((info.data, info.patch_type));
                return Self {
                    target,
                    verb,
                    part,
                    body,
                    option: info.options,
                    patch,
                }
                .checked();
            }
            _ => {}
        }
        if matches!(verb, Verb::List | Verb::Watch) && !part.is_empty() {
            return Err("a subresource cannot be listed or watched".to_owned());
        }
        // Only the collection counts, as with CloudCore. A name would be authorized, and not be what the API is asked for.
        if matches!(verb, Verb::List | Verb::Watch) || verb == Verb::Create && part.is_empty() {
            target.name.clear();
        }
        let is_about_one = matches!(verb, Verb::Update | Verb::UpdateStatus) || !part.is_empty();
        if is_about_one && target.name.is_empty() {
            target.name = body
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
        }
        Self {
            target,
            verb,
            part,
            body,
            option,
            patch,
        }
        .checked()
    }

    /// Creates a call that is not made, to check whether it would be allowed.
    pub(super) fn question(target: Target, verb: Verb, part: String) -> Self {
        Self {
            target,
            verb,
            part,
            body: Value::Null,
            option: Value::Null,
            patch: None,
        }
    }

    /// Checks that no part of the call changes the path of the request.
    fn checked(self) -> Result<Self, String> {
        let Target {
            group,
            version,
            plural,
            namespace,
            name,
        } = &self.target;
        let parts = [group, version, plural, namespace, name, &self.part];
        match parts
            .iter()
            .find(|part| !part.is_empty() && !is_path_segment(part))
        {
            Some(part) => Err(format!("{:?} is no part of a path", printable_short(part))),
            None if self.target.name.is_empty()
                && !matches!(self.verb, Verb::List | Verb::Watch | Verb::Create) =>
            {
                Err("it names no object".to_owned())
            }
            None => Ok(self),
        }
    }

    /// Adds a field selector to the call's own, before it: the node's text cannot change the call's own.
    pub(super) fn within(mut self, selector: &str) -> Self {
        let own = self.option_text("fieldSelector");
        let all = if own.is_empty() {
            selector.to_owned()
        } else {
            format!("{selector},{own}")
        };
        if !self.option.is_object() {
            self.option = json!({});
        }
        self.option["fieldSelector"] = all.into();
        self
    }

    /// Returns the raw options of the call.
    pub(super) fn option_bytes(&self) -> Vec<u8> {
        self.option.to_string().into_bytes()
    }

    /// Returns a text option of the call.
    pub(super) fn option_text(&self, name: &str) -> String {
        self.option
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    /// Returns the HTTP request.
    pub(super) fn request(&self) -> Result<Request<Body>, http::Error> {
        let mut path = self.target.path();
        if !self.part.is_empty() {
            path = format!("{path}/{}", self.part);
        }
        let (method, known): (_, &[&str]) = match self.verb {
            Verb::Get => ("GET", &["resourceVersion"]),
            Verb::List | Verb::Watch => ("GET", &LIST_PARAMETERS),
            Verb::Create => ("POST", &WRITE_PARAMETERS),
            Verb::Update | Verb::UpdateStatus => ("PUT", &WRITE_PARAMETERS),
            Verb::Patch => ("PATCH", &WRITE_PARAMETERS),
            Verb::Delete => ("DELETE", &[]),
        };
        let query = query(&self.option, known);
        let uri = if query.is_empty() {
            path
        } else {
            format!("{path}?{query}")
        };
        let request = Request::builder().method(method).uri(uri);
        match (self.verb, &self.patch) {
            (Verb::Get | Verb::List | Verb::Watch, _) => request.body(Body::empty()),
            (Verb::Patch, Some((data, media_type))) => request
                .header(header::CONTENT_TYPE, media_type)
                .body(Body::from(data.clone())),
            (Verb::Delete, _) => {
                let options = if self.option.is_object() {
                    self.option.to_string()
                } else {
                    "{}".to_owned()
                };
                request
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Body::from(options.into_bytes()))
            }
            _ => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(self.body.to_string().into_bytes())),
        }
    }

    /// Reports whether an account with this access may make the call.
    pub(super) fn is_allowed_by(&self, access: &ServiceAccountAccessSpec) -> bool {
        let Target {
            group,
            plural,
            namespace,
            name,
            ..
        } = &self.target;
        let resource = if self.part.is_empty() {
            plural.clone()
        } else {
            format!("{plural}/{}", self.part)
        };
        let verb = self.verb_of_rules();
        access
            .rules_in(namespace)
            .any(|rule| kubeapi::rule_allows(&json!(rule), &verb, group, &resource, name))
    }

    fn verb_of_rules(&self) -> String {
        match self.verb {
            Verb::UpdateStatus => "update".to_owned(),
            verb => json!(verb).as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Returns the SubjectAccessReview for the call of the node.
    pub(super) fn review(&self, node: &str) -> Value {
        let Target {
            group,
            version,
            plural,
            namespace,
            name,
        } = &self.target;
        json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {
                "user": format!("system:node:{node}"), "groups": ["system:nodes", "system:authenticated"],
                "resourceAttributes": {
                    "verb": self.verb_of_rules(), "group": group, "version": version, "resource": plural, "subresource": self.part,
                    "namespace": namespace, "name": name,
                },
            },
        })
    }
}

fn query(option: &Value, known: &[&str]) -> String {
    let none = Map::new();
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in option
        .as_object()
        .unwrap_or(&none)
        .iter()
        .filter(|(name, _)| known.contains(&name.as_str()))
    {
        for value in value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice)
        {
            match value {
                Value::String(text) if !text.is_empty() => query.append_pair(name, text),
                Value::Number(number) => query.append_pair(name, &number.to_string()),
                Value::Bool(flag) => query.append_pair(name, &flag.to_string()),
                _ => &mut query,
            };
        }
    }
    query.finish()
}

fn json_or_null(bytes: &[u8], what: &str) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(bytes).map_err(|error| format!("its {what} is not JSON: {error}"))
}

#[cfg(test)]
mod tests;
