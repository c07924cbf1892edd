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
    policy::compile::Programs,
    variables::declared,
};
use crate::object::{items, text, text_or_empty};

/// What is asked about a write.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    pub(super) policies: Vec<Policy>,
    pub(super) validating: Vec<Webhook>,
    pub(super) mutating: Vec<Webhook>,
}

/// A policy with the bindings that put it in force.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) spec: Value,
    pub(super) programs: Arc<Programs>,
    /// Why it cannot be evaluated.
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
    /// Why it cannot be asked.
    pub(super) fault: Option<String>,
}

impl Webhook {
    /// Whether a write passes where the webhook cannot be asked.
    pub(super) fn fails_open(&self) -> bool {
        text(&self.spec, "/failurePolicy") == Some("Ignore")
    }

    /// Whether it is asked again about what others changed after it.
    pub(super) fn is_asked_again(&self) -> bool {
        text(&self.spec, "/reinvocationPolicy") == Some("IfNeeded")
    }
}

/// The configuration that was read last.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    known: Mutex<Option<Arc<Configuration>>>,
    /// How often it changed: what was read before a change is not kept.
    changes: AtomicU64,
}

impl Loaded {
    /// What is known, unless something in it has been written since.
    pub(super) fn known(&self) -> Option<Arc<Configuration>> {
        self.known.lock().clone()
    }

    /// How often it has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Keeps what was read when it had changed `changes` times, unless it has changed since.
    pub(super) fn keep(&self, changes: u64, read: &Arc<Configuration>) {
        let mut known = self.known.lock();
        if self.changes() == changes {
            *known = Some(Arc::clone(read));
        }
    }

    /// Something in it has been written.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        *self.known.lock() = None;
    }
}

/// Compiles the objects of these kinds.
pub(super) fn compiled(
    policies: Vec<Value>,
    bindings: &[Value],
    (validating, mutating): (&[Value], &[Value]),
) -> Configuration {
    let mut by_policy = BTreeMap::<String, Vec<(String, Value)>>::new();
    for binding in bindings {
        let named = (
            text_or_empty(binding, "/metadata/name").to_owned(),
            binding.get("spec").cloned().unwrap_or_default(),
        );
        by_policy.entry(bound(binding).to_owned()).or_default().push(named);
    }
    let policies = policies.into_iter().map(|policy| {
        let name = text_or_empty(&policy, "/metadata/name").to_owned();
        let spec = policy.get("spec").cloned().unwrap_or_default();
        let (programs, causes) = Programs::compile(&spec);
        Policy {
            bindings: by_policy.remove(&name).unwrap_or_default(),
            programs: Arc::new(programs),
            fault: causes.first().map(ToString::to_string),
            name,
            spec,
        }
    });
    Configuration {
        policies: policies.collect(),
        validating: webhooks(validating),
        mutating: webhooks(mutating),
    }
}

fn webhooks(configurations: &[Value]) -> Vec<Webhook> {
    let specs = configurations.iter().flat_map(|configuration| items(configuration, "/webhooks"));
    let webhook = |spec: &Value| {
        let (conditions, causes) = conditions::compile(spec, "", &declared(false));
        Webhook {
            name: text_or_empty(spec, "/name").to_owned(),
            conditions: Arc::new(conditions),
            fault: causes.first().map(ToString::to_string),
            spec: spec.clone(),
        }
    };
    specs.map(webhook).collect()
}

/// The name of the policy that a binding puts in force.
fn bound(binding: &Value) -> &str {
    text_or_empty(binding, "/spec/policyName")
}
