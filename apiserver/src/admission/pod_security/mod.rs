//! Pod Security admission: the labels of a namespace say which of Kubernetes' Pod Security Standards its pods keep to. There are no
//! exemptions. Source: `k8s.io/pod-security-admission`, whose checks and texts these are.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Server, admission::namespace::namespace};
use kubeapi::{
    object::text_or_empty,
    registry::{Builtin, Kind},
    request::{call::Call, path::Target, subresource::Subresource},
    status::StatusError,
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

/// Checks a write against the labels of its namespace, and the labels of a namespace themselves. Warnings are added to those of the
/// call.
///
/// # Errors
/// 403 for a pod that violates the enforced level, 422 for invalid labels.
pub(super) async fn review(
    api: &Server,
    call: &Call,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    match (target.kind.builtin, target.part) {
        (Some(Builtin::Namespace), None) => review_namespace(api, call, target, old, new).await,
        (Some(Builtin::Pod), None | Some(Subresource::EphemeralContainers)) => {
            if old.is_some_and(|old| !update::is_significant(old, new)) {
                return Ok(());
            }
            let (policy, faults) = policy_of(api, target).await?;
            if let Some(refusal) = judge(
                call,
                target,
                &NamespacePolicy {
                    policy,
                    faults,
                    enforces: true,
                },
                Pod::of(new),
            ) {
                return Err(StatusError::forbidden(&target.kind, &target.name, &refusal));
            }
            Ok(())
        }
        (_, None) => {
            let Some(template) = template(&target.kind).and_then(|pointer| new.pointer(pointer))
            else {
                return Ok(());
            };
            let (policy, faults) = policy_of(api, target).await?;
            judge(
                call,
                target,
                &NamespacePolicy {
                    policy,
                    faults,
                    enforces: false,
                },
                Pod::of(template),
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the path of the pod template in objects of a kind.
fn template(kind: &Kind) -> Option<&'static str> {
    use Builtin as B;
    match kind.builtin? {
        B::PodTemplate => Some("/template"),
        B::ReplicationController
        | B::ReplicaSet
        | B::Deployment
        | B::DaemonSet
        | B::StatefulSet
        | B::Job => Some("/spec/template"),
        B::CronJob => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// Returns the policy of a namespace, and the faults of its labels. A namespace that no longer exists has no policy.
async fn policy_of(api: &Server, target: &Target) -> Result<(Policy, Vec<String>), StatusError> {
    let namespace = namespace(api, target).await?;
    let (policy, faults) = Policy::of(&namespace);
    Ok((policy, faults.iter().map(ToString::to_string).collect()))
}

/// The Pod Security policy of a namespace, as applied to one kind of object.
struct NamespacePolicy {
    policy: Policy,
    /// Faults in the namespace's labels.
    faults: Vec<String>,
    /// Whether a violation of the enforced level denies the request: for pods, not for pod templates.
    enforces: bool,
}

/// Evaluates a pod: adds warnings, writes the audit log, or returns why it is refused.
fn judge(call: &Call, target: &Target, rules: &NamespacePolicy, pod: Pod<'_>) -> Option<String> {
    let NamespacePolicy {
        policy,
        faults,
        enforces,
    } = rules;
    let (namespace, resource) = (target.namespace.as_str(), target.kind.plural.as_str());
    if !faults.is_empty() {
        let error = format!("Failed to parse policy: {}", faults.join(", "));
        tracing::warn!(target: "audit", namespace, resource, name = target.name, error, "cannot parse Pod Security labels");
    }
    let mut known = BTreeMap::<Standard, Violations>::new();
    let mut violations = |standard| {
        known
            .entry(standard)
            .or_insert_with(|| checks::evaluate(standard, &pod))
            .clone()
    };
    let mut refusal = None;
    if *enforces && policy.enforce.level != Level::Privileged {
        let enforced = policy.enforce.to_string();
        tracing::info!(target: "audit", namespace, resource, name = target.name, "enforce-policy" = enforced, "Pod Security enforce level evaluated");
        let found = violations(policy.enforce);
        if !found.is_empty() {
            refusal = Some(format!(
                "violates PodSecurity {enforced:?}: {}",
                found.details()
            ));
        }
    }
    let would_violate = |standard: Standard, found: &Violations| {
        format!(
            "would violate PodSecurity {:?}: {}",
            standard.to_string(),
            found.details()
        )
    };
    let audited = violations(policy.audit);
    if !audited.is_empty() {
        let audit_violations = would_violate(policy.audit, &audited);
        tracing::warn!(target: "audit", namespace, resource, name = target.name, "audit-violations" = audit_violations, "Pod Security audit level violated");
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

/// Refuses invalid labels, and warns about existing pods that violate the newly enforced level.
async fn review_namespace(
    api: &Server,
    call: &Call,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), StatusError> {
    let (policy, faults) = Policy::of(new);
    let before = old.map(Policy::of);
    let is_known = before.as_ref().is_some_and(|(_, before)| *before == faults);
    if !faults.is_empty() && !is_known {
        let kind = &target.kind;
        return Err(StatusError::invalid(
            &kind.group,
            &kind.kind,
            &target.name,
            faults,
        ));
    }
    let Some((before, _)) = before else {
        return Ok(());
    };
    if policy.enforce.is_stricter_than(before.enforce) {
        let name = text_or_empty(new, "/metadata/name");
        let warnings = existing::warnings(api, name, policy.enforce).await?;
        warnings
            .into_iter()
            .for_each(|warning| call.warnings.add(warning));
    }
    Ok(())
}
