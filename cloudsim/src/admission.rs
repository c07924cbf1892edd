//! The part of CloudCore's admission webhook that this cloud has: devices are validated against their models, rules against their
//! endpoints, node groups by themselves. Node jobs are validated by the rules in their definitions.

use apiserver::{Admission, FieldError, Review};
use async_trait::async_trait;
use crds::{
    devices::{self, DeviceModelSpec, DeviceSpec},
    rules::{RuleEndpointSpec, RuleSpec},
};
use objectstore::{Key, Resource, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::controllers::{node_groups, rules::check as rule_check};

const GROUP: &str = "devices.kubeedge.io";
const RULES: &str = "rules.kubeedge.io";
const APPS: &str = "apps.kubeedge.io";

/// Validates devices against their models, rules against their endpoints, and models and endpoints by themselves.
#[derive(Debug)]
pub(crate) struct KubeEdgeAdmission;

#[async_trait]
impl Admission for KubeEdgeAdmission {
    /// A write that leaves the spec unchanged is not validated: an object that was admitted before its model changed stays valid.
    async fn review(&self, review: Review<'_>) -> Result<Vec<FieldError>, StoreError> {
        let is_new = review
            .old
            .is_none_or(|old| old.get("spec") != review.new.get("spec"));
        if is_new && review.group == RULES {
            return rules(&review).await;
        }
        if review.group == APPS && review.kind == "NodeGroup" && review.old.is_none() {
            return Ok(Vec::from_iter(node_group(&review)));
        }
        if review.group != GROUP || !is_new {
            return Ok(Vec::new());
        }
        let faults = match review.kind {
            "Device" => match spec::<DeviceSpec>(review.new) {
                Some(device) => {
                    devices::check::device(&device, model(&review, &device).await?.as_ref())
                }
                None => Vec::new(),
            },
            "DeviceModel" => spec::<DeviceModelSpec>(review.new)
                .as_ref()
                .map(devices::check::model)
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        let objection = |fault: devices::check::Fault| FieldError {
            field: fault.path,
            value: fault.value,
            why: fault.why,
        };
        Ok(faults.into_iter().map(objection).collect())
    }
}

/// The name of an object never changes.
fn node_group(review: &Review<'_>) -> Option<FieldError> {
    let name = review.new.pointer("/metadata/name")?.as_str()?;
    let why = node_groups::check_name(name).err()?;
    Some(FieldError {
        field: "metadata.name".to_owned(),
        value: name.into(),
        why,
    })
}

/// Rules may be applied before their endpoints: a missing endpoint is not an error here; the rule's status reports it.
async fn rules(review: &Review<'_>) -> Result<Vec<FieldError>, StoreError> {
    let faults = match review.kind {
        "RuleEndpoint" => spec::<RuleEndpointSpec>(review.new)
            .as_ref()
            .map(rule_check::endpoint)
            .unwrap_or_default(),
        "Rule" => match spec::<RuleSpec>(review.new) {
            Some(rule) => {
                let source = endpoint(review, &rule.source).await?;
                let target = endpoint(review, &rule.target).await?;
                rule_check::rule(&rule, source.as_ref(), target.as_ref())
            }
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    let objection = |fault: rule_check::FieldError| FieldError {
        field: fault.field,
        value: fault.value.into(),
        why: fault.why,
    };
    Ok(faults.into_iter().map(objection).collect())
}

async fn endpoint(review: &Review<'_>, name: &str) -> Result<Option<RuleEndpointSpec>, StoreError> {
    let key = Key::new(
        Resource::new(RULES, "ruleendpoints"),
        review.namespace,
        name,
    );
    let found = review.store.get(&key).await?;
    Ok(found
        .map(|endpoint| endpoint.value())
        .transpose()?
        .as_ref()
        .and_then(spec))
}

/// Returns `None` if the model does not exist yet: devices may be applied before their model.
async fn model(
    review: &Review<'_>,
    device: &DeviceSpec,
) -> Result<Option<DeviceModelSpec>, StoreError> {
    let Some(reference) = &device.device_model_ref else {
        return Ok(None);
    };
    let key = Key::new(
        Resource::new(GROUP, "devicemodels"),
        review.namespace,
        reference.name.as_str(),
    );
    let found = review.store.get(&key).await?;
    Ok(found
        .map(|model| model.value())
        .transpose()?
        .as_ref()
        .and_then(spec))
}

/// Deserializes the spec; the schema has been validated before.
fn spec<T: DeserializeOwned>(object: &Value) -> Option<T> {
    serde_json::from_value(object.get("spec")?.clone()).ok()
}
