//! Loads the policies and webhooks in force: again after each write of one.

use std::sync::Arc;

use serde_json::Value;

use super::configuration::{Configuration, StoredPolicies, compile};
use crate::{Server, blocking};
use kubeapi::{object::text_or_empty, registry::Builtin, status::StatusError};
use objectstore::{Page, Scope};

/// Returns the policies and webhooks in force.
pub(super) async fn current(api: &Server) -> Result<Arc<Configuration>, StatusError> {
    let loaded = api.admission_configuration();
    if let Some(known) = loaded.current() {
        return Ok(known);
    }
    let before = loaded.changes();
    let validating_policies = StoredPolicies {
        policies: list_stored(api, Builtin::ValidatingAdmissionPolicy).await?,
        bindings: list_stored(api, Builtin::ValidatingAdmissionPolicyBinding).await?,
    };
    let mutating_policies = StoredPolicies {
        policies: list_stored(api, Builtin::MutatingAdmissionPolicy).await?,
        bindings: list_stored(api, Builtin::MutatingAdmissionPolicyBinding).await?,
    };
    let validating = list_stored(api, Builtin::ValidatingWebhookConfiguration).await?;
    let mutating = list_stored(api, Builtin::MutatingWebhookConfiguration).await?;
    let lists = [
        &validating_policies.policies,
        &mutating_policies.policies,
        &validating,
        &mutating,
    ];
    let is_empty = lists.iter().all(|list| list.is_empty());
    let compile = move || {
        compile(
            validating_policies,
            mutating_policies,
            (&validating, &mutating),
        )
    };
    let read = Arc::new(if is_empty {
        Configuration::default()
    } else {
        blocking::run(compile).await?
    });
    loaded.keep(before, &read);
    Ok(read)
}

/// Reads the objects of a kind, by name.
async fn list_stored(api: &Server, builtin: Builtin) -> Result<Vec<Value>, StatusError> {
    let registry = api.registry();
    let Some(kind) = registry.of(builtin) else {
        return Ok(Vec::new());
    };
    let scope = Scope {
        resource: kind.resource().clone(),
        namespace: None,
    };
    let items = api.store().list(&scope, &Page::default()).await?.items;
    let mut objects = items
        .iter()
        .map(|object| object.value())
        .collect::<Result<Vec<_>, _>>()?;
    objects.sort_by(|one, two| {
        text_or_empty(one, "/metadata/name").cmp(text_or_empty(two, "/metadata/name"))
    });
    Ok(objects)
}
