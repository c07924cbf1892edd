//! Pod Security admission: the labels of a namespace say which of Kubernetes' Pod Security Standards its pods keep to. Nobody and
//! nothing is exempt. Source: `k8s.io/pod-security-admission`, whose checks and texts these are.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    Api,
    admission::namespace::namespace,
    call::Call,
    object::text_or_empty,
    path::Target,
    registry::{Builtin, Kind},
    status::StatusError,
    subresource::Part,
};

mod checks;
mod existing;
mod labels;
mod pod;
#[cfg(test)]
mod tests;
mod update;

use checks::Violations;
use labels::{Level, Policy, Standard};
use pod::Pod;

/// Holds a write against the labels of its namespace, and a namespace against what such labels may be. What only deserves a warning
/// is added to those of the call.
///
/// # Errors
/// 403 for a pod that violates what its namespace enforces, 422 for labels with values that there are not.
pub(super) async fn review(
    api: &Api,
    call: &Call,
    target: &Target,
    (old, new): (Option<&Value>, &Value),
) -> Result<(), StatusError> {
    match (target.kind.builtin, target.part) {
        (Some(Builtin::Namespace), None) => review_namespace(api, call, target, (old, new)).await,
        (Some(Builtin::Pod), None | Some(Part::EphemeralContainers)) => {
            if old.is_some_and(|old| !update::is_significant(old, new)) {
                return Ok(());
            }
            let (policy, faults) = policy_of(api, target).await?;
            if let Some(refusal) =
                judge(call, target, &Rules { policy, faults, enforces: true }, Pod::of(new))
            {
                return Err(StatusError::forbidden(&target.kind, &target.name, &refusal));
            }
            Ok(())
        }
        (_, None) => {
            let Some(template) = template(&target.kind).and_then(|pointer| new.pointer(pointer)) else {
                return Ok(());
            };
            let (policy, faults) = policy_of(api, target).await?;
            judge(call, target, &Rules { policy, faults, enforces: false }, Pod::of(template));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Where objects of a kind have the template of their pods.
fn template(kind: &Kind) -> Option<&'static str> {
    use Builtin as B;
    match kind.builtin? {
        B::PodTemplate => Some("/template"),
        B::ReplicationController | B::ReplicaSet | B::Deployment | B::DaemonSet | B::StatefulSet | B::Job => {
            Some("/spec/template")
        }
        B::CronJob => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// What the labels of a namespace ask of its pods, and what is wrong with them. A namespace that has gone meanwhile asks nothing.
async fn policy_of(api: &Api, target: &Target) -> Result<(Policy, Vec<String>), StatusError> {
    let namespace = namespace(api, target).await?;
    let (policy, faults) = Policy::of(&namespace);
    Ok((policy, faults.iter().map(ToString::to_string).collect()))
}

/// What pods are held against.
struct Rules {
    policy: Policy,
    /// What is wrong with the labels that it was read from.
    faults: Vec<String>,
    /// Whether a violation of what is enforced refuses: of pods, not of what pods are made from.
    enforces: bool,
}

/// Warns of a pod, notes it for the audit, or answers why it is refused.
fn judge(call: &Call, target: &Target, rules: &Rules, pod: Pod<'_>) -> Option<String> {
    let Rules { policy, faults, enforces } = rules;
    let (namespace, resource) = (target.namespace.as_str(), target.kind.plural.as_str());
    if !faults.is_empty() {
        let error = format!("Failed to parse policy: {}", faults.join(", "));
        tracing::warn!(target: "audit", namespace, resource, name = target.name, error, "labels of Pod Security cannot be read");
    }
    let mut known = BTreeMap::<Standard, Violations>::new();
    let mut violations =
        |standard| known.entry(standard).or_insert_with(|| checks::evaluate(standard, &pod)).clone();
    let mut refusal = None;
    if *enforces && policy.enforce.level != Level::Privileged {
        let enforced = policy.enforce.to_string();
        tracing::info!(target: "audit", namespace, resource, name = target.name, "enforce-policy" = enforced, "Pod Security judges a pod");
        let found = violations(policy.enforce);
        if !found.is_empty() {
            refusal = Some(format!("violates PodSecurity {enforced:?}: {}", found.details()));
        }
    }
    let would_violate = |standard: Standard, found: &Violations| {
        format!("would violate PodSecurity {:?}: {}", standard.to_string(), found.details())
    };
    let audited = violations(policy.audit);
    if !audited.is_empty() {
        let audit_violations = would_violate(policy.audit, &audited);
        tracing::warn!(target: "audit", namespace, resource, name = target.name, "audit-violations" = audit_violations, "Pod Security notes");
    }
    // whoever is refused needs no warning as well
    if refusal.is_none() {
        let warned = violations(policy.warn);
        if !warned.is_empty() {
            call.warnings.add(would_violate(policy.warn, &warned));
        }
    }
    refusal
}

/// Refuses labels that cannot be read, and warns of the pods that violate what is enforced from now on.
async fn review_namespace(
    api: &Api,
    call: &Call,
    target: &Target,
    (old, new): (Option<&Value>, &Value),
) -> Result<(), StatusError> {
    let (policy, faults) = Policy::of(new);
    let before = old.map(Policy::of);
    let is_known = before.as_ref().is_some_and(|(_, before)| *before == faults);
    if !faults.is_empty() && !is_known {
        let kind = &target.kind;
        return Err(StatusError::invalid(&kind.group, &kind.kind, &target.name, faults));
    }
    let Some((before, _)) = before else { return Ok(()) };
    if policy.enforce.is_stricter_than(before.enforce) {
        let name = text_or_empty(new, "/metadata/name");
        let warnings = existing::warnings(api, name, policy.enforce).await?;
        warnings.into_iter().for_each(|warning| call.warnings.add(warning));
    }
    Ok(())
}
