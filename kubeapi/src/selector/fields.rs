//! Field selectors: `spec.nodeName=edge-1,status.phase!=Failed`. Which fields there are depends on the kind.

use std::borrow::Cow;

use serde_json::Value;

use crate::registry::{Builtin, Kind};
use objectstore::{Object, StoreError};

/// One requirement of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldRequirement {
    label: String,
    /// JSON Pointers: the first that leads to a value counts.
    pointers: Vec<String>,
    value: String,
    /// `!=`
    negated: bool,
}

impl FieldRequirement {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let found = self
            .pointers
            .iter()
            .map(|pointer| text(object.pointer(pointer)))
            .find(|text| !text.is_empty());
        self.wants(found.as_deref().unwrap_or(self.absent()))
    }

    /// Reports whether a stored object matches; parses no more of it than it must.
    pub(super) fn selects(&self, object: &Object) -> Result<bool, StoreError> {
        match self.label.as_str() {
            "metadata.name" => return Ok(self.wants(&object.key.name)),
            "metadata.namespace" => return Ok(self.wants(&object.key.namespace)),
            _ => {}
        }
        for pointer in &self.pointers {
            let path: Vec<_> = pointer.split('/').skip(1).collect();
            let found: Option<Value> = object.part(&path)?;
            let found = text(found.as_ref());
            if !found.is_empty() {
                return Ok(self.wants(&found));
            }
        }
        Ok(self.wants(self.absent()))
    }

    fn wants(&self, found: &str) -> bool {
        (found == self.value) != self.negated
    }

    /// Returns the value of an absent field.
    fn absent(&self) -> &'static str {
        match self.label.as_str() {
            "spec.unschedulable" | "spec.hostNetwork" => "false",
            "status.replicas" | "status.successful" => "0",
            _ => "",
        }
    }
}

fn text(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        Some(Value::String(text)) => text.into(),
        Some(Value::Bool(true)) => "true".into(),
        Some(Value::Bool(false)) => "false".into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "".into(),
    }
}

/// Parses a field selector.
pub(super) fn parse(kind: &Kind, text: &str) -> Result<Vec<FieldRequirement>, String> {
    terms(text)
        .filter(|term| !term.is_empty())
        .map(|term| requirement(kind, text, term))
        .collect()
}

/// Returns the value that `label` must have, whatever the kind.
pub(super) fn exact_value(text: &str, label: &str) -> Option<String> {
    terms(text)
        .filter_map(split)
        .find(|(found, negated, _)| *found == label && !negated)
        .and_then(|(_, _, value)| unescape(value).ok())
}

/// Splits at commas that are not escaped.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |char| {
        let cut = char == ',' && !escaped;
        escaped = char == '\\' && !escaped;
        cut
    })
}

fn requirement(kind: &Kind, whole: &str, term: &str) -> Result<FieldRequirement, String> {
    let (label, negated, value) = split(term)
        .ok_or_else(|| format!("invalid selector: '{whole}'; can't understand '{term}'"))?;
    let value = unescape(value)?;
    // the name of this field before v1
    let label = if label == "spec.host" && kind.is(Builtin::Pod) {
        "spec.nodeName"
    } else {
        label
    };
    let pointers = pointers(kind, label)?;
    Ok(FieldRequirement {
        label: label.to_owned(),
        pointers,
        value,
        negated,
    })
}

fn split(term: &str) -> Option<(&str, bool, &str)> {
    let at = term
        .find(['=', '!'])
        .filter(|at| !term[*at..].starts_with('!') || term[*at..].starts_with("!="));
    let at = at.or_else(|| term.find('='))?;
    let (label, rest) = term.split_at(at);
    let rest = rest
        .strip_prefix("!=")
        .map(|value| (true, value))
        .or_else(|| {
            let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
            Some((false, value))
        });
    rest.map(|(negated, value)| (label, negated, value))
}

/// `\\`, `\,` and `\=` stand for the second character.
fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some(char @ ('\\' | ',' | '=')) => out.push(char),
                Some(other) => {
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    ));
                }
                None => {
                    return Err("invalid field selector: invalid escape sequence: \\".to_owned());
                }
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    char as u32
                ));
            }
            char => out.push(char),
        }
    }
    Ok(out)
}

/// The fields by which events of the core group are selected.
const EVENT_FIELDS: [&str; 13] = [
    "metadata.name",
    "metadata.namespace",
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
/// The fields by which events of `events.k8s.io` are selected.
const NEW_EVENT_FIELDS: [&str; 12] = [
    "metadata.name",
    "metadata.namespace",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Returns the pointers of the field `label` in objects of this kind.
fn pointers(kind: &Kind, label: &str) -> Result<Vec<String>, String> {
    let known: Option<&[&str]> = match kind.builtin {
        Some(Builtin::Pod) => Some(&[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]),
        Some(Builtin::ReplicationController) => {
            Some(&["metadata.name", "metadata.namespace", "status.replicas"])
        }
        Some(Builtin::Job) => Some(&["metadata.name", "metadata.namespace", "status.successful"]),
        Some(Builtin::Node) => Some(&["metadata.name", "spec.unschedulable"]),
        Some(Builtin::Namespace) => Some(&["metadata.name", "status.phase"]),
        Some(Builtin::CertificateSigningRequest) => Some(&["metadata.name", "spec.signerName"]),
        Some(Builtin::Secret) => Some(&["metadata.name", "metadata.namespace", "type"]),
        Some(Builtin::Service) => Some(&[
            "metadata.name",
            "metadata.namespace",
            "spec.clusterIP",
            "spec.type",
        ]),
        Some(Builtin::Event) => Some(&EVENT_FIELDS),
        Some(Builtin::NewEvent) => Some(&NEW_EVENT_FIELDS),
        None if kind
            .defined
            .as_ref()
            .is_some_and(|defined| defined.selectable.iter().any(|field| field == label)) =>
        {
            return Ok(places(kind, label));
        }
        None if kind.namespaced => Some(&["metadata.name", "metadata.namespace"]),
        None => Some(&["metadata.name"]),
        Some(_) => None,
    };
    match known {
        Some(known) if !known.contains(&label) && kind.is(Builtin::Job) => {
            Err(format!("field label {label:?} not supported for Job"))
        }
        Some(known) if !known.contains(&label) => {
            Err(format!("field label not supported: {label}"))
        }
        None if !matches!(label, "metadata.name" | "metadata.namespace") => Err(format!(
            "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )),
        _ => Ok(places(kind, label)),
    }
}

fn places(kind: &Kind, label: &str) -> Vec<String> {
    match label {
        "status.successful" => vec!["/status/succeeded".into()],
        // the reporter of an event stands in either of two fields
        "source" if kind.is(Builtin::Event) => {
            vec!["/source/component".into(), "/reportingComponent".into()]
        }
        _ => vec![format!("/{}", label.replace('.', "/"))],
    }
}
