//! Loads the policies and webhooks in force: again after each write of one.

use std::sync::Arc;

use serde_json::Value;

use super::configuration::{Configuration, compile};
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
    let policies = list_stored(api, Builtin::ValidatingAdmissionPolicy).await?;
    let bindings = list_stored(api, Builtin::ValidatingAdmissionPolicyBinding).await?;
    let validating = list_stored(api, Builtin::ValidatingWebhookConfiguration).await?;
    let mutating = list_stored(api, Builtin::MutatingWebhookConfiguration).await?;
    let is_empty = policies.is_empty() && validating.is_empty() && mutating.is_empty();
    let compile = move || compile(policies, &bindings, (&validating, &mutating));
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
