//! Evaluates `ValidatingAdmissionPolicy` objects on requests.

use std::sync::Arc;

use serde_json::Value;

use super::{
    attributes::Attributes, authorizer::authorizer, configuration::Policy, matching::matches,
    variables::ExpressionInput,
};
use crate::{Server, blocking};
use kubeapi::{object::items, registry::Kind, request::call::Call, status::StatusError};

pub(super) mod compile;
mod evaluate;
pub(super) mod params;

use compile::Programs;
use evaluate::{Denial, judge};

/// A denial, with its policy and binding.
struct PolicyDenial<'a> {
    policy: &'a str,
    binding: Option<&'a str>,
    denial: Denial,
}

impl PolicyDenial<'_> {
    fn message(&self) -> String {
        let Self {
            policy,
            binding,
            denial,
        } = self;
        match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
                denial.message
            ),
            None => format!(
                "ValidatingAdmissionPolicy '{policy}' denied request: {}",
                denial.message
            ),
        }
    }
}

/// Holds the request against the policies.
pub(super) async fn review(
    api: &Server,
    call: &Call,
    policies: &[Policy<Programs>],
    asked: &Attributes,
    namespace: &Arc<Value>,
) -> Result<(), StatusError> {
    let mut denied = Vec::new();
    for policy in policies {
        if policy.bindings.is_empty() {
            continue;
        }
        let found = of_policy(api, call, policy, (asked, namespace)).await?;
        let fails = !policy.fails_open();
        denied.extend(
            found
                .into_iter()
                .filter(|denied| fails || !denied.denial.is_fault),
        );
    }
    match denied.first() {
        None => Ok(()),
        Some(first) => {
            let reason = &first.denial.reason;
            Err(StatusError::of_policy(
                &asked.kind,
                &asked.name,
                reason,
                &first.message(),
            ))
        }
    }
}

async fn of_policy<'a>(
    api: &Server,
    call: &Call,
    policy: &'a Policy<Programs>,
    (asked, namespace): (&Attributes, &Arc<Value>),
) -> Result<Vec<PolicyDenial<'a>>, StatusError> {
    let name = policy.name.as_str();
    let misconfigured = |binding: Option<&'a str>, why: String| {
        let what = if binding.is_some() {
            "binding"
        } else {
            "policy"
        };
        PolicyDenial {
            policy: name,
            binding,
            denial: Denial::fault(format!("failed to configure {what}: {why}")),
        }
    };
    let registry = api.registry();
    let place = (
        &registry,
        Some(&**namespace).filter(|namespace| namespace.is_object()),
    );
    let nothing = Value::Null;
    let constraints = policy.spec.get("matchConstraints").unwrap_or(&nothing);
    let version = match matches(constraints, "resourceRules", asked, place) {
        Ok(Some(version)) => version,
        Ok(None) => return Ok(Vec::new()),
        Err(why) => return Ok(vec![misconfigured(None, why)]),
    };
    if let Some(why) = &policy.fault {
        return Ok(vec![misconfigured(None, why.clone())]);
    }
    let mut denied = Vec::new();
    for (binding, spec) in &policy.bindings {
        let resources = spec.get("matchResources").unwrap_or(&nothing);
        match matches(resources, "resourceRules", asked, place) {
            Ok(Some(_)) => {}
            Ok(None) => continue,
            Err(why) => {
                denied.push(misconfigured(Some(binding), why));
                continue;
            }
        }
        let params = match params::collect(api, &policy.spec, spec, &asked.namespace).await {
            Ok(params) => params,
            Err(why) => {
                denied.push(misconfigured(Some(binding), why));
                continue;
            }
        };
        let seen = asked.in_version(api, &version).await?;
        let input =
            ExpressionInput::new(authorizer(api, &seen.caller), &seen, &asked.kind, namespace);
        let programs = Arc::clone(&policy.programs);
        let judgements = blocking::run(move || {
            let judged = params.into_iter().map(|params| {
                judge(
                    &programs,
                    &ExpressionInput {
                        params,
                        ..input.clone()
                    },
                )
            });
            judged.collect::<Vec<_>>()
        })
        .await?;
        for judgement in judgements {
            for (key, value) in &judgement.annotations {
                tracing::info!(target: "audit", policy = name, binding, key, value, "admission policy audit annotation");
            }
            for denial in judgement.denials {
                denied.extend(acted_on(call, policy, binding, spec, &asked.kind, denial));
            }
            let faults = judgement.annotation_faults.into_iter();
            denied.extend(faults.map(|denial| PolicyDenial {
                policy: name,
                binding: Some(binding),
                denial,
            }));
        }
    }
    Ok(denied)
}

/// Does what the binding says of a refusal; answers it where it is to be one.
fn acted_on<'a>(
    call: &Call,
    policy: &'a Policy<Programs>,
    binding: &'a str,
    spec: &Value,
    kind: &Kind,
    denial: Denial,
) -> Option<PolicyDenial<'a>> {
    let name = policy.name.as_str();
    // what nobody may be told of is not acted on
    if denial.is_fault && policy.fails_open() {
        return None;
    }
    let mut denied = None;
    for action in items(spec, "/validationActions")
        .iter()
        .filter_map(Value::as_str)
    {
        match action {
            "Deny" => {
                denied = Some(PolicyDenial { policy: name, binding: Some(binding), denial: denial.clone() })
            }
            "Warn" => call.warnings.add(format!(
                "Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{binding}': {}",
                denial.message
            )),
            "Audit" => {
                let message = &denial.message;
                tracing::warn!(target: "audit", policy = name, binding, kind = kind.kind, message, "admission policy violated");
            }
            _ => {}
        }
    }
    denied
}
