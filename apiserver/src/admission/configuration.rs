//! The policies and webhooks in force, compiled.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    conditions::{self, Condition},
    mutating::compile::MutationPrograms,
    policy::compile::Programs,
    variables::declarations,
};
use kubeapi::{
    cause::Cause,
    object::{items, text, text_or_empty},
};

/// The policies and webhooks in force.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    pub(super) policies: Vec<Policy<Programs>>,
    pub(super) mutating_policies: Vec<Policy<MutationPrograms>>,
    pub(super) validating: Vec<Webhook>,
    pub(super) mutating: Vec<Webhook>,
}

/// A policy with the bindings that put it in force.
#[derive(Debug)]
pub(super) struct Policy<P> {
    pub(super) name: String,
    pub(super) spec: Value,
    pub(super) programs: Arc<P>,
    /// The compiled programs, or why they cannot be evaluated.
    pub(super) fault: Option<String>,
    /// By name.
    pub(super) bindings: Vec<(String, Value)>,
}

/// A webhook of a configuration.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) spec: Value,
    pub(super) conditions: Arc<Vec<Condition>>,
    /// Its endpoint, or why it cannot be called.
    pub(super) fault: Option<String>,
}

impl Webhook {
    /// Reports whether a write passes where the webhook fails (`failurePolicy: Ignore`).
    pub(super) fn fails_open(&self) -> bool {
        text(&self.spec, "/failurePolicy") == Some("Ignore")
    }

    /// Reports whether it is called again where later webhooks changed the object (`reinvocationPolicy`).
    pub(super) fn is_asked_again(&self) -> bool {
        text(&self.spec, "/reinvocationPolicy") == Some("IfNeeded")
    }
}

/// Caches the configuration until one of its objects is written.
#[derive(Debug, Default)]
pub(crate) struct ConfigurationCache {
    known: Mutex<Option<Arc<Configuration>>>,
    /// The number of changes: a configuration read before a change is not cached.
    changes: AtomicU64,
}

impl ConfigurationCache {
    /// Returns the cached configuration, unless one of its objects has been written since.
    pub(super) fn current(&self) -> Option<Arc<Configuration>> {
        self.known.lock().clone()
    }

    /// Returns the number of changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Caches what was read after `changes` changes, unless there was another one since.
    pub(super) fn keep(&self, changes: u64, read: &Arc<Configuration>) {
        let mut known = self.known.lock();
        if self.changes() == changes {
            *known = Some(Arc::clone(read));
        }
    }

    /// Drops the cached configuration, since one of its objects was written.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        *self.known.lock() = None;
    }
}

impl<P> Policy<P> {
    /// Reports whether a write passes where the policy fails (`failurePolicy: Ignore`).
    pub(super) fn fails_open(&self) -> bool {
        text(&self.spec, "/failurePolicy") == Some("Ignore")
    }
}

/// The stored objects of a kind of policies, and of its bindings.
#[derive(Debug, Default)]
pub(super) struct StoredPolicies {
    pub(super) policies: Vec<Value>,
    pub(super) bindings: Vec<Value>,
}

/// Compiles the objects of these kinds.
pub(super) fn compile(
    validating_policies: StoredPolicies,
    mutating_policies: StoredPolicies,
    (validating, mutating): (&[Value], &[Value]),
) -> Configuration {
    Configuration {
        policies: compile_policies(validating_policies, Programs::compile),
        mutating_policies: compile_policies(mutating_policies, MutationPrograms::compile),
        validating: webhooks(validating),
        mutating: webhooks(mutating),
    }
}

/// Compiles policies with their bindings.
fn compile_policies<P>(
    StoredPolicies { policies, bindings }: StoredPolicies,
    compile: impl Fn(&Value) -> (P, Vec<Cause>),
) -> Vec<Policy<P>> {
    let mut by_policy = BTreeMap::<String, Vec<(String, Value)>>::new();
    for binding in &bindings {
        let named = (
            text_or_empty(binding, "/metadata/name").to_owned(),
            binding.get("spec").cloned().unwrap_or_default(),
        );
        by_policy
            .entry(policy_name(binding).to_owned())
            .or_default()
            .push(named);
    }
    let policies = policies.into_iter().map(|policy| {
        let name = text_or_empty(&policy, "/metadata/name").to_owned();
        let spec = policy.get("spec").cloned().unwrap_or_default();
        let (programs, causes) = compile(&spec);
        Policy {
            bindings: by_policy.remove(&name).unwrap_or_default(),
            programs: Arc::new(programs),
            fault: causes.first().map(ToString::to_string),
            name,
            spec,
        }
    });
    policies.collect()
}

fn webhooks(configurations: &[Value]) -> Vec<Webhook> {
    let specs = configurations
        .iter()
        .flat_map(|configuration| items(configuration, "/webhooks"));
    let webhook = |spec: &Value| {
        let (conditions, causes) = conditions::compile(spec, "", &declarations(false));
        Webhook {
            name: text_or_empty(spec, "/name").to_owned(),
            conditions: Arc::new(conditions),
            fault: causes.first().map(ToString::to_string),
            spec: spec.clone(),
        }
    };
    specs.map(webhook).collect()
}

/// Returns the name of the policy that a binding refers to.
fn policy_name(binding: &Value) -> &str {
    text_or_empty(binding, "/spec/policyName")
}
