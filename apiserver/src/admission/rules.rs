//! Validates the expressions of policies and webhook configurations. Pure.

use serde_json::Value;

use super::{
    conditions, mutating::compile::MutationPrograms, policy::compile::Programs,
    variables::declarations,
};
use kubeapi::{cause::Cause, object::items, registry::Builtin};

/// Returns what is invalid in the expressions of a policy or a webhook configuration.
pub(crate) fn check(builtin: Builtin, object: &Value) -> Vec<Cause> {
    match builtin {
        Builtin::ValidatingAdmissionPolicy => object
            .get("spec")
            .map(|spec| Programs::compile(spec).1)
            .unwrap_or_default(),
        Builtin::MutatingAdmissionPolicy => object
            .get("spec")
            .map(|spec| MutationPrograms::compile(spec).1)
            .unwrap_or_default(),
        Builtin::ValidatingWebhookConfiguration | Builtin::MutatingWebhookConfiguration => {
            let webhooks = items(object, "/webhooks").iter().enumerate();
            webhooks
                .flat_map(|(index, webhook)| of_webhook(webhook, index))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn of_webhook(webhook: &Value, index: usize) -> Vec<Cause> {
    conditions::compile(
        webhook,
        &format!("webhooks[{index}]."),
        &declarations(false),
    )
    .1
}
