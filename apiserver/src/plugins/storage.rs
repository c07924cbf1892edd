//! Completes new claims and volumes. Source: Kubernetes' admission plugins `DefaultStorageClass` and `StorageObjectInUseProtection`.

use serde_json::{Value, json};

use crate::Server;
use kubeapi::{
    object::{as_map, child, items, metadata, text, text_or_empty},
    registry::Builtin,
    request::path::Target,
    status::StatusError,
};
use objectstore::{Page, Scope};

/// The annotation of the class that claims without a class get, and its older form.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// The older form of a claim's field `storageClassName`.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Gives a new claim the default class, and new claims and volumes the finalizer that keeps them while they are used.
pub(crate) async fn admit(
    api: &Server,
    target: &Target,
    object: &mut Value,
) -> Result<(), StatusError> {
    let finalizer = match target.kind.builtin {
        Some(Builtin::PersistentVolumeClaim) => {
            set_default_class(api, object).await?;
            "kubernetes.io/pvc-protection"
        }
        Some(Builtin::PersistentVolume) => "kubernetes.io/pv-protection",
        _ => return Ok(()),
    };
    if !items(object, "/metadata/finalizers")
        .iter()
        .any(|own| own == finalizer)
    {
        let finalizers = metadata(object)
            .entry("finalizers")
            .or_insert_with(|| json!([]));
        if finalizers.is_null() {
            *finalizers = json!([]);
        }
        if let Value::Array(finalizers) = finalizers {
            finalizers.push(finalizer.into());
        }
    }
    Ok(())
}

/// Sets the class of a claim that names none; the empty name asks for a volume without a class.
async fn set_default_class(api: &Server, claim: &mut Value) -> Result<(), StatusError> {
    let annotations = claim.pointer("/metadata/annotations");
    let has_old = annotations.and_then(|all| all.get(OLD_CLASS)).is_some();
    if has_old
        || claim
            .pointer("/spec/storageClassName")
            .is_some_and(|class| !class.is_null())
    {
        return Ok(());
    }
    if let Some(class) = default_class(api).await? {
        child(as_map(claim), "spec").insert("storageClassName".into(), class.into());
    }
    Ok(())
}

/// Returns the name of the default class; of several the newest, and of these the first by name.
async fn default_class(api: &Server) -> Result<Option<String>, StatusError> {
    let registry = api.registry();
    let Some(kind) = registry.of(Builtin::StorageClass) else {
        return Ok(None);
    };
    let all = Scope {
        resource: kind.resource().clone(),
        namespace: None,
    };
    let mut newest: Option<(String, String)> = None;
    // in the order of their names
    for class in api.store().list(&all, &Page::default()).await?.items {
        let class = class.value()?;
        let annotations = class.pointer("/metadata/annotations");
        let is_default = |key: &&str| {
            annotations.and_then(|all| text(all, &format!("/{}", key.replace('/', "~1"))))
                == Some("true")
        };
        let created = text_or_empty(&class, "/metadata/creationTimestamp").to_owned();
        let is_newer = newest.as_ref().is_none_or(|(newest, _)| created > *newest);
        if IS_DEFAULT.iter().any(is_default) && is_newer {
            newest = Some((created, text_or_empty(&class, "/metadata/name").to_owned()));
        }
    }
    Ok(newest.map(|(_, name)| name))
}
