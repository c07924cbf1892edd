//! Annotations of pods that have a meaning: deletion cost, seccomp and AppArmor profiles.

use serde_json::Value;

use crate::{
    cause::Cause,
    object::{items, text_or_empty},
    validate::{formats, place::Place},
};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Checks the annotations of a pod.
pub fn of_pod(pod: &Place<'_>, causes: &mut Vec<Cause>) {
    annotations(pod, "metadata.annotations", causes);
}

/// Checks the annotations of a pod template, whose field Kubernetes calls `annotations`.
pub fn of_template(template: &Place<'_>, causes: &mut Vec<Cause>) {
    annotations(template, "annotations", causes);
}

fn annotations(pod: &Place<'_>, field: &str, causes: &mut Vec<Cause>) {
    let all = pod.child("metadata", "").get("annotations");
    let field = pod.field(field);
    for (key, value) in all.as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        if key == DELETION_COST && !is_cost(text) {
            causes.push(Cause::invalid(
                format!("{field}[{key}]"),
                value,
                "must be a 32bit integer",
            ));
        }
        if key == SECCOMP || key.starts_with(SECCOMP_CONTAINER) {
            let faults = seccomp_profile(text);
            causes.extend(
                faults
                    .iter()
                    .map(|why| Cause::invalid(format!("{field}.{key}"), value, why)),
            );
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            let field = format!("{field}[{key}]");
            let is_known = |list: &&str| {
                let containers = pod.child("spec", "spec");
                containers
                    .items(list)
                    .iter()
                    .any(|item| text_or_empty(item, "/name") == container)
            };
            if !LISTS.iter().any(is_known) {
                causes.push(Cause::invalid(
                    field.as_str(),
                    &container.into(),
                    "container not found",
                ));
            }
            if !matches!(text, "" | "runtime/default" | "unconfined")
                && !text.starts_with("localhost/")
            {
                let why = format!("invalid AppArmor profile name: {text:?}");
                causes.push(Cause::invalid(field, value, &why));
            }
        }
    }
}

/// Whether it is a number as `strconv.ParseInt` reads it, without a plus or leading zeros.
fn is_cost(text: &str) -> bool {
    text.is_empty()
        || text == "0"
        || text
            .parse::<i32>()
            .is_ok_and(|number| number.to_string() == text)
}

fn seccomp_profile(profile: &str) -> Vec<String> {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => Vec::new(),
        _ => match profile.strip_prefix("localhost/") {
            Some(path) => formats::relative_path(path),
            None => vec!["must be a valid seccomp profile".to_owned()],
        },
    }
}

/// Checks that annotations about profiles and the fields of the same meaning agree.
pub fn agree_with_fields(pod: &Place<'_>, causes: &mut Vec<Cause>) {
    let none = Value::Null;
    let annotations = pod.child("metadata", "").get("annotations");
    let spec = pod.child("spec", "spec");
    let of_pod = spec.child("securityContext", "securityContext");
    if let Some(said) = annotations.get(SECCOMP).and_then(Value::as_str) {
        let field = of_pod.field("seccompProfile");
        agree(
            "seccomp",
            said,
            of_pod.get("seccompProfile"),
            &field,
            causes,
        );
    }
    let is_windows = text_or_empty(spec.value, "/os/name") == "windows";
    for list in LISTS {
        for (index, container) in items(spec.value, &format!("/{list}")).iter().enumerate() {
            let name = text_or_empty(container, "/name");
            let field = |part: &str| spec.field(&format!("{list}[{index}].securityContext.{part}"));
            let own = |part: &str| {
                container
                    .pointer(&format!("/securityContext/{part}"))
                    .unwrap_or(&none)
            };
            let said = |prefix: &str| {
                annotations
                    .get(format!("{prefix}{name}"))
                    .and_then(Value::as_str)
            };
            if let Some(said) = said(SECCOMP_CONTAINER) {
                agree(
                    "seccomp",
                    said,
                    own("seccompProfile"),
                    &field("seccompProfile"),
                    causes,
                );
            }
            if let Some(said) = said(APP_ARMOR).filter(|_| !is_windows) {
                let profile = Some(own("appArmorProfile")).filter(|profile| !profile.is_null());
                let profile = profile.unwrap_or_else(|| of_pod.get("appArmorProfile"));
                agree("apparmor", said, profile, &field("appArmorProfile"), causes);
            }
        }
    }
}

fn agree(what: &str, said: &str, profile: &Value, field: &str, causes: &mut Vec<Cause>) {
    let fits = match text_or_empty(profile, "/type") {
        "Unconfined" => said == "unconfined",
        "RuntimeDefault" => {
            said == "runtime/default" || (what == "seccomp" && said == "docker/default")
        }
        "Localhost" => match said.strip_prefix("localhost/") {
            Some(path) if path == text_or_empty(profile, "/localhostProfile") => true,
            Some(_) => {
                let why = format!("{what} profile in annotation and field must match");
                return causes.push(Cause::forbidden(format!("{field}.localhostProfile"), &why));
            }
            None => false,
        },
        _ => true,
    };
    if !fits {
        let why = format!("{what} type in annotation and field must match");
        causes.push(Cause::forbidden(format!("{field}.type"), &why));
    }
}
