//! The policies and webhooks in force, compiled: read again after every write of one.

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
    conditions,
    policy::{Policy, Programs, bound},
    variables::declared,
    webhook::Webhook,
};
use crate::{
    Api,
    object::{items, text_or_empty},
    registry::Builtin,
    status::StatusError,
    store::{Page, Scope},
    verbs::beside,
};

/// What is asked about a write.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    pub(super) policies: Vec<Policy>,
    pub(super) validating: Vec<Webhook>,
    pub(super) mutating: Vec<Webhook>,
}

/// What was read last.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    known: Mutex<Option<Arc<Configuration>>>,
    /// How often it changed: what was read before a change is not kept.
    changes: AtomicU64,
}

impl Loaded {
    /// Something in it has been written.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        *self.known.lock() = None;
    }
}

/// The policies and webhooks in force now.
pub(super) async fn current(api: &Api) -> Result<Arc<Configuration>, StatusError> {
    let loaded = api.admission_configuration();
    if let Some(known) = loaded.known.lock().clone() {
        return Ok(known);
    }
    let before = loaded.changes.load(Ordering::SeqCst);
    let policies = stored(api, Builtin::ValidatingAdmissionPolicy).await?;
    let bindings = stored(api, Builtin::ValidatingAdmissionPolicyBinding).await?;
    let validating = stored(api, Builtin::ValidatingWebhookConfiguration).await?;
    let mutating = stored(api, Builtin::MutatingWebhookConfiguration).await?;
    let is_empty = policies.is_empty() && validating.is_empty() && mutating.is_empty();
    let compile = move || compiled(policies, &bindings, (&validating, &mutating));
    let read = Arc::new(if is_empty { Configuration::default() } else { beside(compile).await? });
    let mut known = loaded.known.lock();
    if loaded.changes.load(Ordering::SeqCst) == before {
        *known = Some(Arc::clone(&read));
    }
    Ok(read)
}

/// The objects of a kind, by name.
async fn stored(api: &Api, builtin: Builtin) -> Result<Vec<Value>, StatusError> {
    let registry = api.registry();
    let Some(kind) = registry.of(builtin) else { return Ok(Vec::new()) };
    let scope = Scope { resource: kind.resource().clone(), namespace: None };
    let items = api.store().list(&scope, &Page::default()).await?.items;
    let mut objects = items.iter().map(|object| object.value()).collect::<Result<Vec<_>, _>>()?;
    objects
        .sort_by(|one, two| text_or_empty(one, "/metadata/name").cmp(text_or_empty(two, "/metadata/name")));
    Ok(objects)
}

fn compiled(
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
