//! The default roles and bindings of every cluster:
//! <https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings>.
//! They are stored as others are. An existing one is not changed, so removed rights stay removed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{aggregate, roles::GROUP};
use crate::Server;
use kubeapi::{object::timestamp, status::StatusError};
use objectstore::{Expect, Key, Resource, Store, StoreError, Write};

/// How often missing ones are looked for while another writer stores some of them.
const MAX_ROUNDS: usize = 8;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Role {
    name: String,
    /// Its namespace; none for a cluster role.
    namespace: Option<String>,
    #[serde(default)]
    rules: Vec<Value>,
    /// A role that takes this one's rules over.
    aggregated_to: Option<String>,
    /// The role takes over the rules of those that say so.
    aggregates: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Binding {
    name: String,
    /// Its namespace; none for a cluster role binding.
    namespace: Option<String>,
    /// The role, if it has another name.
    role: Option<String>,
    subjects: Vec<Value>,
}

/// Stores the missing ones once, where RBAC is enforced.
pub(crate) async fn ready(api: &Server) -> Result<(), StatusError> {
    if !api.enforces_rbac() || api.default_roles_stored().initialized() {
        return Ok(());
    }
    let store = || async {
        store_missing(api).await?;
        aggregate::refresh(api).await
    };
    api.default_roles_stored()
        .get_or_try_init(store)
        .await
        .map(drop)
}

/// Returns all of them, with their collections.
fn objects() -> Result<Vec<(&'static str, Value)>, StatusError> {
    let unreadable =
        |error| StatusError::internal(format!("the built-in roles are invalid: {error}"));
    let roles: Vec<Role> =
        serde_saphyr::from_str(include_str!("policy/roles.yaml")).map_err(unreadable)?;
    let bindings: Vec<Binding> =
        serde_saphyr::from_str(include_str!("policy/bindings.yaml")).map_err(unreadable)?;
    let roles = roles.into_iter().map(|role| match role.namespace {
        Some(_) => ("roles", role.object()),
        None => ("clusterroles", role.object()),
    });
    let bindings = bindings.into_iter().map(|binding| match binding.namespace {
        Some(_) => ("rolebindings", binding.object()),
        None => ("clusterrolebindings", binding.object()),
    });
    Ok(roles.chain(bindings).collect())
}

fn label_of(role: &str) -> String {
    format!("{GROUP}/aggregate-to-{role}")
}

fn object(
    kind: &str,
    (namespace, name): (Option<&str>, &str),
    more_labels: impl IntoIterator<Item = String>,
) -> Value {
    let mut labels = BTreeMap::from([(
        "kubernetes.io/bootstrapping".to_owned(),
        "rbac-defaults".to_owned(),
    )]);
    labels.extend(
        more_labels
            .into_iter()
            .map(|label| (label, "true".to_owned())),
    );
    let mut object = json!({
        "kind": kind, "apiVersion": format!("{GROUP}/v1"),
        "metadata": {
            "name": name, "uid": clock::uuid(), "creationTimestamp": timestamp::now(),
            "labels": labels, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

impl Role {
    fn object(self) -> Value {
        let kind = match self.namespace {
            Some(_) => "Role",
            None => "ClusterRole",
        };
        let place = (self.namespace.as_deref(), &*self.name);
        let mut role = object(kind, place, self.aggregated_to.as_deref().map(label_of));
        role["rules"] = self.rules.into();
        if let Some(name) = self.aggregates {
            let selector = json!({"matchLabels": BTreeMap::from([(label_of(&name), "true")])});
            role["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        }
        role
    }
}

impl Binding {
    fn object(self) -> Value {
        let (kind, role_kind) = match self.namespace {
            Some(_) => ("RoleBinding", "Role"),
            None => ("ClusterRoleBinding", "ClusterRole"),
        };
        let mut binding = object(kind, (self.namespace.as_deref(), &self.name), None);
        let role = self.role.as_ref().unwrap_or(&self.name);
        binding["roleRef"] = json!({"apiGroup": GROUP, "kind": role_kind, "name": role});
        if !self.subjects.is_empty() {
            binding["subjects"] = self.subjects.into();
        }
        binding
    }
}

/// Stores all missing ones in one commit: the disk is waited for once.
async fn store_missing(api: &Server) -> Result<(), StatusError> {
    for _ in 0..MAX_ROUNDS {
        let mut writes = Vec::new();
        for (plural, object) in objects()? {
            writes.extend(write_if_missing(api, plural, object).await?);
        }
        if writes.is_empty() {
            return Ok(());
        }
        match api.store().commit(writes).await {
            Ok(_) => return Ok(()),
            // another API over the same store has written one; the next round skips it
            Err(StoreError::Exists(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StatusError::internal(
        "cannot store the default roles: another writer changes them".to_owned(),
    ))
}

/// Returns the write of a default role or binding; `None` if it is stored.
async fn write_if_missing(
    api: &Server,
    plural: &str,
    mut object: Value,
) -> Result<Option<Write>, StatusError> {
    let [namespace, name] =
        ["namespace", "name"].map(|part| object["metadata"][part].as_str().unwrap_or_default());
    let key = Key::new(Resource::new(GROUP, plural), namespace, name);
    match Store::get(&**api.store(), &key).await {
        Ok(None) => {}
        // a damaged one is replaced, and remains the same object
        Err(StoreError::Damaged { .. }) => {
            if let Some(uid) = api.store().damaged_uid(&key).await? {
                object["metadata"]["uid"] = uid.into();
            }
        }
        Ok(Some(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    Ok(Some(Write {
        key,
        expect: Expect::Absent,
        value: Some(object),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_binding_names_a_default_role() {
        let objects = objects().unwrap();
        let name = |object: &Value| {
            let namespace = object["metadata"]["namespace"].as_str();
            (
                namespace.map(str::to_owned),
                object["metadata"]["name"].clone(),
            )
        };
        let roles: Vec<_> = objects
            .iter()
            .filter(|(plural, _)| plural.ends_with("roles"))
            .map(|(_, role)| name(role))
            .collect();
        for (_, binding) in objects
            .iter()
            .filter(|(kind, _)| kind.ends_with("bindings"))
        {
            let role = (name(binding).0, binding["roleRef"]["name"].clone());
            assert!(roles.contains(&role), "{binding}");
        }
    }

    #[test]
    fn the_default_roles_can_be_read() {
        let objects = objects().unwrap();
        let names: Vec<_> = objects
            .iter()
            .map(|(_, object)| object["metadata"]["name"].as_str().unwrap())
            .collect();
        for name in [
            "cluster-admin",
            "admin",
            "edit",
            "view",
            "system:node",
            "system:discovery",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        let (_, edit) = objects
            .iter()
            .find(|(_, object)| object["metadata"]["name"] == "edit")
            .unwrap();
        assert_eq!(
            edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"],
            "true"
        );
        let selector = &edit["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"];
        assert_eq!(
            selector,
            &json!({"rbac.authorization.k8s.io/aggregate-to-edit": "true"})
        );
    }
}
