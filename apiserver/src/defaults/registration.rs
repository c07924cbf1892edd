//! Defaults of admission policies, webhooks, flow control and registered API services.
//!
//! Source: `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/flowcontrol/v1/defaults.go` of Kubernetes and
//! `pkg/apis/apiregistration/v1/defaults.go` of its aggregator.

use serde_json::{Map, Value, json};

use kubeapi::defaults::fields::{default_text, map_at, maps};
use kubeapi::object::default_to;

pub(super) fn validating_policy(spec: &mut Map<String, Value>) {
    default_text(spec, "failurePolicy", "Fail");
    if let Some(resources) = map_at(spec, "matchConstraints") {
        match_resources(resources);
    }
}

pub(super) fn mutating_policy(spec: &mut Map<String, Value>) {
    validating_policy(spec);
}

pub(super) fn policy_binding(spec: &mut Map<String, Value>) {
    if let Some(resources) = map_at(spec, "matchResources") {
        match_resources(resources);
    }
}

fn match_resources(resources: &mut Map<String, Value>) {
    default_text(resources, "matchPolicy", "Equivalent");
    default_to(resources, "namespaceSelector", json!({}));
    default_to(resources, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        maps(resources, list).for_each(|rule| default_text(rule, "scope", "*"));
    }
}

/// `mutating`: the webhooks may be called a second time.
pub(super) fn webhooks(configuration: &mut Map<String, Value>, mutating: bool) {
    for webhook in maps(configuration, "webhooks") {
        default_text(webhook, "failurePolicy", "Fail");
        default_text(webhook, "matchPolicy", "Equivalent");
        default_to(webhook, "namespaceSelector", json!({}));
        default_to(webhook, "objectSelector", json!({}));
        default_to(webhook, "timeoutSeconds", 10);
        if mutating {
            default_text(webhook, "reinvocationPolicy", "Never");
        }
        if let Some(service) =
            map_at(webhook, "clientConfig").and_then(|client| map_at(client, "service"))
        {
            default_to(service, "port", 443);
        }
        maps(webhook, "rules").for_each(|rule| default_text(rule, "scope", "*"));
    }
}

pub(super) fn flow_schema(spec: &mut Map<String, Value>) {
    default_to(spec, "matchingPrecedence", 1000);
}

pub(super) fn priority_level(spec: &mut Map<String, Value>) {
    if let Some(limited) = map_at(spec, "limited") {
        default_to(limited, "nominalConcurrencyShares", 30);
        default_to(limited, "lendablePercent", 0);
        let response = map_at(limited, "limitResponse");
        if let Some(queuing) = response.and_then(|response| map_at(response, "queuing")) {
            default_to(queuing, "queues", 64);
            default_to(queuing, "handSize", 8);
            default_to(queuing, "queueLengthLimit", 50);
        }
    }
    if let Some(exempt) = map_at(spec, "exempt") {
        default_to(exempt, "nominalConcurrencyShares", 0);
        default_to(exempt, "lendablePercent", 0);
    }
}

pub(super) fn api_service(spec: &mut Map<String, Value>) {
    if let Some(service) = map_at(spec, "service") {
        default_to(service, "port", 443);
    }
}
