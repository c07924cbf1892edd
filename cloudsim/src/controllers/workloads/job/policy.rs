//! The pod failure policy and success policy of a job. Pure.

use k8s_openapi::api::{
    batch::v1::{JobSpec, PodFailurePolicyRule, SuccessPolicyRule},
    core::v1::Pod,
};
use kube::ResourceExt;

use super::indexes::Indexes;

/// The action for a failed pod: that of the first matching rule, else `Count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Count it as a failure.
    Count,
    /// Do not count it.
    Ignore,
    /// Fail its index.
    FailIndex,
    /// Fail the job, with this message.
    FailJob(String),
}

/// Returns the action for a failed pod.
pub(super) fn on_failure(spec: &JobSpec, pod: &Pod) -> Action {
    let rules = spec
        .pod_failure_policy
        .iter()
        .flat_map(|policy| policy.rules.iter().enumerate());
    for (index, rule) in rules {
        let Some(why) = cause(rule, pod) else {
            continue;
        };
        return match rule.action.as_str() {
            "FailJob" => Action::FailJob(format!("{why} matching FailJob rule at index {index}")),
            "FailIndex" => Action::FailIndex,
            "Ignore" => Action::Ignore,
            _ => Action::Count,
        };
    }
    Action::Count
}

/// Returns what in the pod matches the rule, in the words of Kubernetes.
fn cause(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    if let Some(codes) = &rule.on_exit_codes {
        let containers = [&status.container_statuses, &status.init_container_statuses]
            .into_iter()
            .flatten()
            .flatten();
        for container in containers {
            let named = codes
                .container_name
                .as_ref()
                .is_none_or(|name| *name == container.name);
            let ended = container
                .state
                .as_ref()
                .and_then(|state| state.terminated.as_ref());
            let Some(code) = ended
                .map(|ended| ended.exit_code)
                .filter(|code| named && *code != 0)
            else {
                continue;
            };
            if codes.values.contains(&code) == (codes.operator == "In") {
                let container = &container.name;
                return Some(format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code {code}"
                ));
            }
        }
        return None;
    }
    let held = rule.on_pod_conditions.iter().flatten().find(|pattern| {
        let mut conditions = status.conditions.iter().flatten();
        conditions
            .any(|condition| condition.type_ == pattern.type_ && condition.status == pattern.status)
    })?;
    Some(format!(
        "Pod {namespace}/{name} has condition {}",
        held.type_
    ))
}

/// Returns the message with which the success policy ends the job, if it does.
pub(super) fn success(spec: &JobSpec, succeeded: &Indexes) -> Option<String> {
    let rules = &spec.success_policy.as_ref()?.rules;
    let completions = spec.completions.unwrap_or_default();
    let met = |rule: &SuccessPolicyRule| {
        let required = rule
            .succeeded_indexes
            .as_ref()
            .map(|text| Indexes::parse(text, completions));
        match (required, rule.succeeded_count) {
            (Some(required), Some(count)) => succeeded.common(&required) >= count,
            (Some(required), None) => succeeded.common(&required) >= required.count(),
            (None, Some(count)) => succeeded.count() >= count,
            (None, None) => false,
        }
    };
    let index = rules.iter().position(met)?;
    Some(format!("Matched rules at index {index}"))
}
