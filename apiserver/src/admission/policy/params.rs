//! The parameters of a policy: the objects that a binding names.

use serde_json::Value;

use crate::Server;
use kubeapi::{
    object::{conversion::all_served, text, text_or_empty},
    registry::Kind,
    selector::Selection,
};
use objectstore::{Key, Object, Page, Scope, Store};

/// How many objects a selector may bring.
const MAX_PARAMS: usize = 1000;

/// The parameters with which the policy is to be held against the request, each time anew: null for none.
///
/// # Errors
/// What is wrong with policy and binding.
pub(in crate::admission) async fn collect(
    api: &Server,
    policy: &Value,
    binding: &Value,
    request_namespace: &str,
) -> Result<Vec<Value>, String> {
    let (Some(param_kind), Some(param_ref)) = (
        policy.get("paramKind").filter(|kind| kind.is_object()),
        binding
            .get("paramRef")
            .filter(|reference| reference.is_object()),
    ) else {
        return Ok(vec![Value::Null]);
    };
    let (api_version, name) = (
        text_or_empty(param_kind, "/apiVersion"),
        text_or_empty(param_kind, "/kind"),
    );
    let registry = api.registry();
    let is_named =
        |kind: &&std::sync::Arc<Kind>| kind.kind == name && kind.api_version() == api_version;
    let kind = registry
        .kinds()
        .iter()
        .find(is_named)
        .ok_or_else(|| format!("paramKind kind `{api_version}, Kind={name}` not known"))?;
    let namespace = match (kind.namespaced, text_or_empty(param_ref, "/namespace")) {
        (false, "") => "",
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into(),
            );
        }
        (true, "") if request_namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .into(),
            );
        }
        (true, "") => request_namespace,
        (true, namespace) => namespace,
    };
    let found = match (text_or_empty(param_ref, "/name"), param_ref.get("selector")) {
        ("", Some(selector)) => select(api, kind, namespace, selector).await?,
        ("", None) => return Err("one of name or selector must be provided".into()),
        (_, Some(_)) => {
            return Err("paramRef.name and paramRef.selector are mutually exclusive".into());
        }
        (name, None) => {
            let key = Key::new(kind.resource().clone(), namespace, name);
            let found = Store::get(&**api.store(), &key)
                .await
                .map_err(|error| error.to_string())?;
            read_served(api, kind, found.into_iter().collect()).await?
        }
    };
    if found.is_empty() && text(param_ref, "/parameterNotFoundAction") == Some("Deny") {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".into(),
        );
    }
    Ok(found)
}

/// Returns stored objects in the version of `kind`.
async fn read_served(api: &Server, kind: &Kind, stored: Vec<Object>) -> Result<Vec<Value>, String> {
    let served = all_served(api, kind, stored)
        .await
        .map_err(|error| error.message().to_owned())?;
    served
        .iter()
        .map(|object| object.value().map_err(|error| error.to_string()))
        .collect()
}

async fn select(
    api: &Server,
    kind: &Kind,
    namespace: &str,
    selector: &Value,
) -> Result<Vec<Value>, String> {
    let selection = Selection::of_labels(selector).ok_or("the selector of paramRef is invalid")?;
    let namespace = kind.namespaced.then(|| namespace.to_owned());
    let scope = Scope {
        resource: kind.resource().clone(),
        namespace,
    };
    let page = api
        .store()
        .list(&scope, &Page::default())
        .await
        .map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for value in read_served(api, kind, page.items).await? {
        if selection.matches(&value) {
            found.push(value);
        }
    }
    if found.len() > MAX_PARAMS {
        return Err(format!(
            "the selector of paramRef selects more than {MAX_PARAMS} objects"
        ));
    }
    Ok(found)
}
