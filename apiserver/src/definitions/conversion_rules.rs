//! Validates how objects of a definition are converted between versions. Pure.

use serde_json::Value;

use crate::{go_url, review::ReviewVersion};
use kubeapi::{
    cause::Cause,
    object::{
        items,
        names::{dns_1035_label, dns_subdomain},
        text, text_or_empty,
    },
};

const CONVERSION: &str = "spec.conversion";

/// Returns what is invalid in the conversion of a definition, which replaces `old`.
pub(super) fn check(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let Some(conversion) = definition
        .pointer("/spec/conversion")
        .filter(|value| value.is_object())
    else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    let strategy = text_or_empty(conversion, "/strategy");
    let field = format!("{CONVERSION}.strategy");
    match strategy {
        "" => causes.push(Cause::required(field, "")),
        "None" | "Webhook" => {}
        other => causes.push(Cause::unsupported(
            field,
            &other.into(),
            &["None", "Webhook"],
        )),
    }
    let client = conversion
        .pointer("/webhook/clientConfig")
        .filter(|client| client.is_object());
    let versions = items(conversion, "/webhook/conversionReviewVersions");
    let client_field = format!("{CONVERSION}.webhookClientConfig");
    let versions_field = format!("{CONVERSION}.conversionReviewVersions");
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        causes.extend(client.map(|_| Cause::forbidden(client_field, why)));
        causes.extend((!versions.is_empty()).then(|| Cause::forbidden(versions_field, why)));
        return causes;
    }
    match client {
        None => causes.push(Cause::required(
            client_field,
            "required when strategy is set to Webhook",
        )),
        Some(client) => causes.extend(webhook(client, &client_field)),
    }
    let known = |versions: &[Value]| {
        ReviewVersion::first_known(versions.iter().filter_map(Value::as_str)).is_some()
    };
    let before = old.map(|old| items(old, "/spec/conversion/webhook/conversionReviewVersions"));
    let needs_known = before.is_none_or(|before| before.is_empty() || known(before));
    causes.extend(review_versions(versions, &versions_field));
    if needs_known && !versions.is_empty() && !known(versions) {
        let why = "must include at least one of v1, v1beta1";
        causes.push(Cause::invalid(
            versions_field,
            &versions.to_vec().into(),
            why,
        ));
    }
    causes
}

fn review_versions(versions: &[Value], field: &str) -> Vec<Cause> {
    if versions.is_empty() {
        return vec![Cause::required(field, "")];
    }
    let mut causes = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if versions.iter().take(index).any(|before| before == version) {
            causes.push(Cause::invalid(field, version, "duplicate version"));
            continue;
        }
        let faults = dns_1035_label(version.as_str().unwrap_or_default());
        causes.extend(
            faults
                .iter()
                .map(|fault| Cause::invalid(field.as_str(), version, fault)),
        );
    }
    causes
}

fn webhook(client: &Value, field: &str) -> Vec<Cause> {
    let service = client.get("service").filter(|service| service.is_object());
    match (text(client, "/url"), service) {
        (Some(url), None) => url_faults(url, &format!("{field}.url")),
        (None, Some(service)) => service_faults(service, &format!("{field}.service")),
        _ => vec![Cause::required(
            field,
            "exactly one of url or service is required",
        )],
    }
}

fn url_faults(text: &str, field: &str) -> Vec<Cause> {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match go_url::parse_absolute(text) {
        Ok(url) => url,
        Err(why) => {
            return vec![Cause::required(
                field,
                &format!("url must be a valid URL: {why}{FORM}"),
            )];
        }
    };
    let mut causes = Vec::new();
    let mut refuse =
        |value: &str, why: String| causes.push(Cause::invalid(field, &value.into(), &why));
    if url.scheme != "https" {
        refuse(
            &url.scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if url.host.is_empty() {
        refuse(&url.host, format!("host must be specified{FORM}"));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest
        .split_once("//")
        .map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    if let Some((user, _)) = authority.rsplit_once('@') {
        refuse(
            user,
            "user information is not permitted in the URL".to_owned(),
        );
    }
    if !fragment.is_empty() {
        refuse(
            fragment,
            "fragments are not permitted in the URL".to_owned(),
        );
    }
    if !query.is_empty() {
        refuse(
            query,
            "query parameters are not permitted in the URL".to_owned(),
        );
    }
    causes
}

fn service_faults(service: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    for name in ["name", "namespace"] {
        if text_or_empty(service, &format!("/{name}")).is_empty() {
            causes.push(Cause::required(format!("{field}.{name}"), ""));
        }
    }
    if let Some(port) = service.get("port")
        && !port
            .as_i64()
            .is_some_and(|port| (1..=65_535).contains(&port))
    {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(format!("{field}.port"), port, why));
    }
    let path = text_or_empty(service, "/path");
    let mut refuse =
        |why: &str| causes.push(Cause::invalid(format!("{field}.path"), &path.into(), why));
    match path {
        "" | "/" => return causes,
        "//" => {
            refuse("segment[0] may not be empty");
            return causes;
        }
        _ => {}
    }
    if !path.starts_with('/') {
        refuse("must start with a '/'");
    }
    let inner = path.get(1..).unwrap_or_default();
    for (index, step) in inner
        .strip_suffix('/')
        .unwrap_or(inner)
        .split('/')
        .enumerate()
    {
        if step.is_empty() {
            refuse(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for fault in dns_subdomain(step) {
            refuse(&format!("segment[{index}]: {fault}"));
        }
    }
    causes
}
