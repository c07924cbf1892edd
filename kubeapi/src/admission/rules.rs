//! Validates policies, bindings and webhook configurations. Pure.

use serde_json::Value;
use url::Url;

use super::{conditions, policy::compile::Programs, variables::declared};
use crate::{
    cause::Cause,
    object::{items, text, text_or_empty},
    registry::Builtin,
};

/// Returns what is invalid in a policy, a binding or a webhook configuration.
pub(crate) fn check(builtin: Builtin, object: &Value) -> Vec<Cause> {
    let nothing = Value::Null;
    let spec = object.get("spec").unwrap_or(&nothing);
    match builtin {
        Builtin::ValidatingAdmissionPolicy => policy(spec),
        Builtin::ValidatingAdmissionPolicyBinding => binding(spec),
        Builtin::ValidatingWebhookConfiguration | Builtin::MutatingWebhookConfiguration => {
            let webhooks = items(object, "/webhooks").iter().enumerate();
            webhooks.flat_map(|(index, webhook)| of_webhook(webhook, &format!("webhooks[{index}]"))).collect()
        }
        _ => Vec::new(),
    }
}

fn policy(spec: &Value) -> Vec<Cause> {
    let mut causes = one_of(spec, "spec", "failurePolicy", &["Fail", "Ignore"]);
    match spec.get("matchConstraints").filter(|constraints| constraints.is_object()) {
        None => causes.push(Cause::required("spec.matchConstraints", "")),
        Some(constraints) if items(constraints, "/resourceRules").is_empty() => {
            causes.push(Cause::required("spec.matchConstraints.resourceRules", ""));
        }
        Some(constraints) => causes.extend(rules(constraints, "resourceRules", "spec.matchConstraints")),
    }
    if items(spec, "/validations").is_empty() && items(spec, "/auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.push(Cause::required("spec.validations", why));
    }
    causes.extend(Programs::compile(spec).1);
    causes
}

fn binding(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if text_or_empty(spec, "/policyName").is_empty() {
        causes.push(Cause::required("spec.policyName", ""));
    }
    let actions = items(spec, "/validationActions");
    if actions.is_empty() {
        causes.push(Cause::required("spec.validationActions", "at least one validation action is required"));
    }
    for (index, action) in actions.iter().enumerate() {
        if !matches!(action.as_str(), Some("Audit" | "Deny" | "Warn")) {
            let field = format!("spec.validationActions[{index}]");
            causes.push(Cause::unsupported(field, action, &["Audit", "Deny", "Warn"]));
        }
    }
    let has = |wanted: &str| actions.iter().any(|action| action == wanted);
    if has("Deny") && has("Warn") {
        let value = Value::from(actions.to_vec());
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        causes.push(Cause::invalid("spec.validationActions", &value, why));
    }
    if let Some(param_ref) = spec.get("paramRef").filter(|reference| reference.is_object()) {
        let (name, selector) = (text_or_empty(param_ref, "/name"), param_ref.get("selector"));
        if name.is_empty() && selector.is_none() {
            causes.push(Cause::required("spec.paramRef", "one of name or selector must be specified"));
        } else if !name.is_empty() && selector.is_some() {
            causes.push(Cause::forbidden("spec.paramRef.name", "name and selector are mutually exclusive"));
        }
        let field = "spec.paramRef.parameterNotFoundAction";
        match text(param_ref, "/parameterNotFoundAction") {
            Some("Allow" | "Deny") => {}
            None => causes.push(Cause::required(field, "")),
            Some(other) => causes.push(Cause::unsupported(field, &other.into(), &["Deny", "Allow"])),
        }
    }
    causes
}

fn of_webhook(webhook: &Value, path: &str) -> Vec<Cause> {
    let mut causes = one_of(webhook, path, "failurePolicy", &["Fail", "Ignore"]);
    causes.extend(one_of(webhook, path, "matchPolicy", &["Equivalent", "Exact"]));
    causes.extend(one_of(webhook, path, "sideEffects", &["None", "NoneOnDryRun"]));
    causes.extend(one_of(webhook, path, "reinvocationPolicy", &["IfNeeded", "Never"]));
    if text_or_empty(webhook, "/name").split('.').filter(|part| !part.is_empty()).count() < 3 {
        let name = text_or_empty(webhook, "/name").into();
        let why = "should be a domain with at least three segments separated by dots";
        causes.push(Cause::invalid(format!("{path}.name"), &name, why));
    }
    if webhook.get("sideEffects").is_none() {
        let why = "must specify one of None, NoneOnDryRun";
        causes.push(Cause::required(format!("{path}.sideEffects"), why));
    }
    let versions = items(webhook, "/admissionReviewVersions");
    if versions.is_empty() {
        let why = "must specify one of v1, v1beta1";
        causes.push(Cause::required(format!("{path}.admissionReviewVersions"), why));
    } else if !versions.iter().any(|version| version == "v1") {
        let value = Value::from(versions.to_vec());
        let why = "must include at least one of v1";
        causes.push(Cause::invalid(format!("{path}.admissionReviewVersions"), &value, why));
    }
    if let Some(seconds) = webhook
        .get("timeoutSeconds")
        .filter(|seconds| !seconds.as_i64().is_some_and(|seconds| (1..=30).contains(&seconds)))
    {
        let why = "the timeout value must be between 1 and 30 seconds";
        causes.push(Cause::invalid(format!("{path}.timeoutSeconds"), seconds, why));
    }
    causes.extend(rules(webhook, "rules", path));
    causes.extend(client(webhook, &format!("{path}.clientConfig")));
    let (_, faults) = conditions::compile(webhook, &format!("{path}."), &declared(false));
    causes.extend(faults);
    causes
}

fn client(webhook: &Value, path: &str) -> Vec<Cause> {
    let nothing = Value::Null;
    let client = webhook.get("clientConfig").unwrap_or(&nothing);
    let mut causes = Vec::new();
    match (text(client, "/url"), client.get("service").filter(|service| service.is_object())) {
        (Some(_), Some(_)) | (None, None) => {
            causes.push(Cause::required(path, "exactly one of url or service is required"));
        }
        (Some(url), None) => {
            let field = format!("{path}.url");
            let refuse = |why: &str| Cause::invalid(field.as_str(), &url.into(), why);
            match Url::parse(url) {
                Err(error) => {
                    let why =
                        format!("url must be a valid URL: {error}; desired format: https://host[/path]");
                    causes.push(refuse(&why));
                }
                Ok(read) => {
                    if read.scheme() != "https" {
                        causes.push(refuse(
                            "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                        ));
                    }
                    if !read.username().is_empty() || read.password().is_some() {
                        causes.push(refuse("user information is not permitted in the URL; desired format: https://host[/path]"));
                    }
                    if read.fragment().is_some() {
                        causes.push(refuse(
                            "fragments are not permitted in the URL; desired format: https://host[/path]",
                        ));
                    }
                    if read.query().is_some() {
                        causes.push(refuse("query parameters are not permitted in the URL; desired format: https://host[/path]"));
                    }
                }
            }
        }
        (None, Some(service)) => {
            for name in ["name", "namespace"] {
                if text_or_empty(service, &format!("/{name}")).is_empty() {
                    let why = format!("service {name} is required");
                    causes.push(Cause::required(format!("{path}.service.{name}"), &why));
                }
            }
        }
    }
    causes
}

fn rules(spec: &Value, list: &str, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, rule) in items(spec, &format!("/{list}")).iter().enumerate() {
        let path = format!("{path}.{list}[{index}]");
        for part in ["operations", "apiGroups", "apiVersions", "resources"] {
            if items(rule, &format!("/{part}")).is_empty() {
                causes.push(Cause::required(format!("{path}.{part}"), ""));
            }
        }
        for (index, operation) in items(rule, "/operations").iter().enumerate() {
            if !matches!(operation.as_str(), Some("*" | "CONNECT" | "CREATE" | "DELETE" | "UPDATE")) {
                let field = format!("{path}.operations[{index}]");
                let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
                causes.push(Cause::unsupported(field, operation, &known));
            }
        }
    }
    causes
}

/// Returns a cause where a text is set and is none of these.
fn one_of(spec: &Value, path: &str, name: &str, known: &[&str]) -> Vec<Cause> {
    match text(spec, &format!("/{name}")) {
        Some(other) if !known.contains(&other) => {
            vec![Cause::unsupported(format!("{path}.{name}"), &other.into(), known)]
        }
        _ => Vec::new(),
    }
}
