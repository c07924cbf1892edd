//! What a new pod's service account adds to it. Source: Kubernetes' admission plugin `ServiceAccount`.

use serde_json::Value;

use super::references;
use crate::Server;
use crate::defaults::{self, account::VOLUME_PREFIX};
use kubeapi::verbs::generated_name::generate_name;
use kubeapi::{
    object::{as_map, child, default_to, is_mirror, items, text_or_empty},
    registry::Builtin,
    request::path::Target,
    status::StatusError,
};
use objectstore::{Key, Store};

/// The default account. It is created a moment after its namespace, so a pod need not wait for it.
const DEFAULT: &str = "default";

/// Adds the account's pull secrets to a new pod and, unless one of the two disables it, the account's token. 403 for a missing account,
/// and for a mirror pod that refers to API objects: it has no account.
pub(crate) async fn admit(
    api: &Server,
    target: &Target,
    pod: &mut Value,
) -> Result<(), StatusError> {
    if is_mirror(pod) {
        return match references::of_mirror(pod) {
            None => Ok(()),
            Some(what) => {
                let why = format!("a mirror pod may not {what}");
                Err(StatusError::forbidden(
                    &target.kind,
                    text_or_empty(pod, "/metadata/name"),
                    &why,
                ))
            }
        };
    }
    let name = match text_or_empty(pod, "/spec/serviceAccountName") {
        "" => text_or_empty(pod, "/spec/serviceAccount"),
        name => name,
    };
    let name = if name.is_empty() { DEFAULT } else { name }.to_owned();
    let Some(kind) = api.registry().of(Builtin::ServiceAccount).cloned() else {
        return Ok(());
    };
    let key = Key::new(
        kind.resource().clone(),
        target.namespace.as_str(),
        name.as_str(),
    );
    let account = match Store::get(&**api.store(), &key).await? {
        Some(account) => account.value()?,
        None if name == DEFAULT => Value::Null,
        None => {
            let why = format!(
                "error looking up service account {}/{name}: serviceaccount {name:?} not found",
                target.namespace
            );
            return Err(StatusError::forbidden(
                &target.kind,
                text_or_empty(pod, "/metadata/name"),
                &why,
            ));
        }
    };
    let secrets = items(&account, "/imagePullSecrets").to_vec();
    if !secrets.is_empty() && items(pod, "/spec/imagePullSecrets").is_empty() {
        let spec = child(as_map(pod), "spec");
        spec.shift_remove("imagePullSecrets");
        default_to(spec, "imagePullSecrets", secrets);
    }
    if mounts_token(&account, pod) {
        defaults::account::mount(pod, &generate_name(VOLUME_PREFIX));
    }
    Ok(())
}

/// Reports whether the token is mounted: the pod's setting takes precedence over its account's; the default is yes.
fn mounts_token(account: &Value, pod: &Value) -> bool {
    let said = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_bool);
    said(pod, "/spec/automountServiceAccountToken")
        .or_else(|| said(account, "/automountServiceAccountToken"))
        .unwrap_or(true)
}
