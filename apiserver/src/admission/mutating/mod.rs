//! Applies `MutatingAdmissionPolicy` objects to requests, before the mutating webhooks.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    attributes::{Attributes, Version},
    authorizer::authorizer,
    configuration::Policy,
    matching::matches,
    policy::params,
    variables::ExpressionInput,
};
use crate::{Server, blocking};
use kubeapi::{
    object::{text, text_or_empty},
    status::StatusError,
};

pub(super) mod compile;
mod evaluate;

use compile::MutationPrograms;

/// A policy with a binding and parameters, by their names.
type InvocationKey = (String, String, String);

/// The policies that a request has met, for their second invocation.
#[derive(Debug, Default)]
pub(super) struct Invocations {
    /// Whether the policies were invoked before.
    is_repeated: bool,
    /// Those that want to see what was changed after them, since the last change.
    previous: BTreeSet<InvocationKey>,
    /// Those after which something was changed.
    wanted: BTreeSet<InvocationKey>,
    /// The object after the last invocation.
    output: Arc<Value>,
}

impl Invocations {
    /// Notes that the object has changed.
    fn note_change(&mut self) {
        self.wanted.append(&mut self.previous);
    }
}

/// A policy that matches the request, with one of its parameters.
struct Invocation<'a> {
    policy: &'a Policy<MutationPrograms>,
    binding: &'a str,
    params: Value,
    version: Version,
}

impl Invocation<'_> {
    fn key(&self) -> InvocationKey {
        let params = ["/metadata/namespace", "/metadata/name"]
            .map(|field| text_or_empty(&self.params, field));
        (
            self.policy.name.clone(),
            self.binding.to_owned(),
            params.join("/"),
        )
    }
}

/// Why a policy cannot be applied.
struct PolicyFault<'a> {
    policy: &'a Policy<MutationPrograms>,
    binding: Option<&'a str>,
    why: String,
    /// Whether its expressions are at fault, and not its configuration.
    is_invalid: bool,
}

impl PolicyFault<'_> {
    fn message(&self) -> String {
        let (name, why) = (&self.policy.name, &self.why);
        match self.binding {
            Some(binding) => {
                format!("policy '{name}' with binding '{binding}' denied request: {why}")
            }
            None => format!("policy {name:?} denied request: {why}"),
        }
    }
}

/// Applies the policies to the object of `asked`. Called again, it applies those that want to see later changes.
pub(super) async fn mutate(
    api: &Server,
    policies: &[Policy<MutationPrograms>],
    (state, asked): (&mut Invocations, &mut Attributes),
    namespace: &Arc<Value>,
) -> Result<(), StatusError> {
    if asked.object.is_null() || policies.is_empty() {
        return Ok(());
    }
    if state.is_repeated && state.output != asked.object {
        state.note_change();
    }
    let (invocations, mut faults) = find_invocations(api, policies, asked, namespace).await;
    for invocation in invocations {
        let key = invocation.key();
        if state.is_repeated && !state.wanted.contains(&key) {
            continue;
        }
        let found = invoke(api, &invocation, asked, namespace).await?;
        let Some((object, whys)) = found else {
            continue;
        };
        faults.extend(whys.into_iter().map(|why| PolicyFault {
            policy: invocation.policy,
            binding: Some(invocation.binding),
            why,
            is_invalid: true,
        }));
        if object != asked.object {
            asked.object = object;
            state.note_change();
        }
        if text(&invocation.policy.spec, "/reinvocationPolicy") == Some("IfNeeded") {
            state.previous.insert(key);
        }
    }
    state.is_repeated = true;
    state.output = Arc::clone(&asked.object);
    faults.retain(|fault| !fault.policy.fails_open());
    let Some(first) = faults.first() else {
        return Ok(());
    };
    let messages: Vec<_> = faults.iter().map(PolicyFault::message).collect();
    Err(StatusError::of_mutating_policy(
        &asked.kind,
        &asked.name,
        first.is_invalid,
        &messages,
    ))
}

/// Returns the policies that match the request, with each of their parameters.
async fn find_invocations<'a>(
    api: &Server,
    policies: &'a [Policy<MutationPrograms>],
    asked: &Attributes,
    namespace: &Arc<Value>,
) -> (Vec<Invocation<'a>>, Vec<PolicyFault<'a>>) {
    let registry = api.registry();
    let place = (
        &registry,
        Some(&**namespace).filter(|namespace| namespace.is_object()),
    );
    let nothing = Value::Null;
    let (mut invocations, mut faults) = (Vec::new(), Vec::new());
    for policy in policies.iter().filter(|policy| !policy.bindings.is_empty()) {
        let misconfigured = |binding: Option<&'a str>, why: String| PolicyFault {
            policy,
            binding,
            why: match binding {
                Some(_) => format!("failed to configure binding: {why}"),
                None => format!("failed to configure policy: {why}"),
            },
            is_invalid: false,
        };
        let constraints = policy.spec.get("matchConstraints").unwrap_or(&nothing);
        let version = match matches(constraints, "resourceRules", asked, place) {
            Ok(Some(version)) => version,
            Ok(None) => continue,
            Err(why) => {
                faults.push(misconfigured(None, why));
                continue;
            }
        };
        if let Some(why) = &policy.fault {
            faults.push(misconfigured(None, why.clone()));
            continue;
        }
        for (binding, spec) in &policy.bindings {
            let resources = spec.get("matchResources").unwrap_or(&nothing);
            let params = match matches(resources, "resourceRules", asked, place) {
                Ok(Some(_)) => params::collect(api, &policy.spec, spec, &asked.namespace).await,
                Ok(None) => continue,
                Err(why) => Err(why),
            };
            match params {
                Ok(params) => invocations.extend(params.into_iter().map(|params| Invocation {
                    policy,
                    binding,
                    params,
                    version: version.clone(),
                })),
                Err(why) => faults.push(misconfigured(Some(binding), why)),
            }
        }
    }
    (invocations, faults)
}

/// Returns the object after the mutations of a policy, in the request's version, and why some failed; `None` if it does not apply.
async fn invoke(
    api: &Server,
    invocation: &Invocation<'_>,
    asked: &Attributes,
    namespace: &Arc<Value>,
) -> Result<Option<(Arc<Value>, Vec<String>)>, StatusError> {
    let seen = asked.in_version(api, &invocation.version).await?;
    let mut input =
        ExpressionInput::new(authorizer(api, &seen.caller), &seen, &asked.kind, namespace);
    input.params = invocation.params.clone();
    let (programs, kind) = (
        Arc::clone(&invocation.policy.programs),
        Arc::clone(&seen.kind),
    );
    let mutated = blocking::run(move || match evaluate::hold(&programs, &input) {
        Ok(true) => Some(Ok(evaluate::mutate(&programs, input, &kind))),
        Ok(false) => None,
        Err(why) => Some(Err(why)),
    })
    .await?;
    let (object, faults) = match mutated {
        None => return Ok(None),
        Some(Err(why)) => return Ok(Some((Arc::clone(&asked.object), vec![why]))),
        Some(Ok(mutated)) => mutated,
    };
    if object == *seen.object {
        return Ok(Some((Arc::clone(&asked.object), faults)));
    }
    let mutated = Attributes {
        object: Arc::new(object),
        ..seen
    };
    let own = Version {
        kind: Arc::clone(&asked.kind),
    };
    Ok(Some((mutated.in_version(api, &own).await?.object, faults)))
}
