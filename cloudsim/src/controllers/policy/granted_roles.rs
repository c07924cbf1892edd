//! The roles that are granted to a service account, with their bindings. Pure.

use std::sync::Arc;

use crds::policy::{
    AccessClusterRoleBinding, AccessRoleBinding, ServiceAccountAccess, ServiceAccountAccessSpec,
};
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{
            ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
        },
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{ResourceExt, api::ObjectMeta};

/// The granted roles.
#[derive(Debug, Default, PartialEq)]
pub(super) struct GrantedRoles {
    /// By bindings of single namespaces.
    within: Vec<AccessRoleBinding>,
    /// By cluster-wide bindings.
    everywhere: Vec<AccessClusterRoleBinding>,
}

/// Returns the roles that are granted to the account by name, or through a group.
pub(super) fn granted_roles(
    account: &ServiceAccount,
    bindings: &[Arc<RoleBinding>],
    roles: &[Arc<Role>],
    cluster_bindings: &[Arc<ClusterRoleBinding>],
    cluster_roles: &[Arc<ClusterRole>],
) -> GrantedRoles {
    let of_cluster = |reference: &RoleRef| {
        let role = cluster_roles
            .iter()
            .find(|role| role.name_any() == reference.name)?;
        objects_of(role.rules.as_deref())
    };
    let of_namespace = |reference: &RoleRef, namespace: &str| match reference.kind.as_str() {
        "ClusterRole" => of_cluster(reference),
        _ => {
            let is_it = |role: &&Arc<Role>| {
                role.name_any() == reference.name && role.namespace().as_deref() == Some(namespace)
            };
            objects_of(roles.iter().find(is_it)?.rules.as_deref())
        }
    };
    let within = bindings.iter().filter_map(|binding| {
        let namespace = binding.namespace().unwrap_or_default();
        let names_it = names(binding.subjects.as_deref(), account, &namespace);
        let rules = names_it
            .then(|| of_namespace(&binding.role_ref, &namespace))
            .flatten()?;
        Some(AccessRoleBinding {
            role_binding: Some((**binding).clone()),
            rules,
        })
    });
    let everywhere = cluster_bindings.iter().filter_map(|binding| {
        let names_it = names(binding.subjects.as_deref(), account, "");
        let rules = names_it.then(|| of_cluster(&binding.role_ref)).flatten()?;
        Some(AccessClusterRoleBinding {
            cluster_role_binding: Some((**binding).clone()),
            rules,
        })
    });
    let mut granted_roles = GrantedRoles {
        within: within.collect(),
        everywhere: everywhere.collect(),
    };
    // sorted, since the order of the input is arbitrary and must not look like a change
    granted_roles.within.sort_by_key(|one| {
        one.role_binding
            .as_ref()
            .map(|binding| (binding.namespace(), binding.name_any()))
    });
    granted_roles
        .everywhere
        .sort_by_key(|one| one.cluster_role_binding.as_ref().map(ResourceExt::name_any));
    granted_roles
}

/// Returns the resource rules; `None` if there are none. Non-resource rules are not needed: MetaServer allows discovery to everybody.
fn objects_of(rules: Option<&[PolicyRule]>) -> Option<Vec<PolicyRule>> {
    let is_about_objects =
        |rule: &&PolicyRule| rule.resources.as_ref().is_some_and(|all| !all.is_empty());
    let rules: Vec<_> = rules?.iter().filter(is_about_objects).cloned().collect();
    (!rules.is_empty()).then_some(rules)
}

/// Reports whether a subject is the account or a group of it. `own` is the binding's namespace.
fn names(subjects: Option<&[Subject]>, account: &ServiceAccount, own: &str) -> bool {
    let (namespace, name) = (account.namespace().unwrap_or_default(), account.name_any());
    subjects
        .into_iter()
        .flatten()
        .any(|subject| match subject.kind.as_str() {
            "ServiceAccount" => {
                let subject_namespace = subject
                    .namespace
                    .as_deref()
                    .filter(|namespace| !namespace.is_empty())
                    .unwrap_or(own);
                subject.name == name && subject_namespace == namespace
            }
            "User" => subject.name == format!("system:serviceaccount:{namespace}:{name}"),
            "Group" => {
                matches!(
                    subject.name.as_str(),
                    "system:serviceaccounts" | "system:authenticated"
                ) || subject.name == format!("system:serviceaccounts:{namespace}")
            }
            _ => false,
        })
}

impl GrantedRoles {
    /// Reports whether nothing is granted.
    pub(super) fn is_empty(&self) -> bool {
        self.within.is_empty() && self.everywhere.is_empty()
    }

    /// Builds the ServiceAccountAccess.
    pub(super) fn access(
        self,
        account: &ServiceAccount,
        owner: OwnerReference,
    ) -> ServiceAccountAccess {
        let metadata = ObjectMeta {
            name: account.metadata.name.clone(),
            namespace: account.metadata.namespace.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        let spec = ServiceAccountAccessSpec {
            service_account: Some(account.clone()),
            service_account_uid: account.uid(),
            access_role_binding: self.within,
            access_cluster_role_binding: self.everywhere,
        };
        ServiceAccountAccess {
            metadata,
            spec,
            status: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn role(name: &str, resources: &[&str]) -> Value {
        json!({"metadata": {"name": name, "namespace": "ns"}, "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": resources},
            {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
        ]})
    }

    fn binding(name: &str, namespace: &str, (kind, role): (&str, &str), subject: Value) -> Value {
        json!({"metadata": {"name": name, "namespace": namespace}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
    }

    /// The names of the bindings by which `ns/robot` gets anything.
    fn by(bindings: Vec<Value>, cluster_bindings: Vec<Value>) -> Vec<String> {
        let account = of::<ServiceAccount>(
            json!({"metadata": {"name": "robot", "namespace": "ns", "uid": "u"}}),
        );
        let bindings: Vec<_> = bindings.into_iter().map(of::<RoleBinding>).collect();
        let cluster_bindings: Vec<_> = cluster_bindings
            .into_iter()
            .map(of::<ClusterRoleBinding>)
            .collect();
        let (roles, cluster_roles) = (
            [of::<Role>(role("r", &["pods"]))],
            [
                of::<ClusterRole>(role("c", &["pods"])),
                of(role("paths", &[])),
            ],
        );
        let granted_roles = granted_roles(
            &account,
            &bindings,
            &roles,
            &cluster_bindings,
            &cluster_roles,
        );
        assert!(
            granted_roles.within.iter().all(|one| one.rules.len() == 1)
                && granted_roles
                    .everywhere
                    .iter()
                    .all(|one| one.rules.len() == 1)
        );
        let within = granted_roles
            .within
            .iter()
            .map(|one| one.role_binding.as_ref().unwrap().name_any());
        within
            .chain(
                granted_roles
                    .everywhere
                    .iter()
                    .map(|one| one.cluster_role_binding.as_ref().unwrap().name_any()),
            )
            .collect()
    }

    #[test]
    fn bindings_that_name_the_account_or_its_groups_grant() {
        let robot = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "ns"});
        let here = json!({"kind": "ServiceAccount", "name": "robot"});
        let group = |name: &str| json!({"kind": "Group", "name": name});
        let role = ("Role", "r");
        let everywhere = ("ClusterRole", "c");
        let rows = [
            (binding("b", "ns", role, robot.clone()), true),
            (binding("b", "ns", role, here.clone()), true),
            (binding("b", "ns", everywhere, robot.clone()), true),
            (binding("b", "other", everywhere, robot.clone()), true),
            (binding("b", "other", everywhere, here), false),
            (binding("b", "other", role, robot.clone()), false),
            (
                binding("b", "ns", ("ClusterRole", "paths"), robot.clone()),
                false,
            ),
            (
                binding("b", "ns", ("Role", "missing"), robot.clone()),
                false,
            ),
            (
                binding("b", "ns", role, group("system:serviceaccounts")),
                true,
            ),
            (
                binding("b", "ns", role, group("system:serviceaccounts:ns")),
                true,
            ),
            (
                binding("b", "ns", role, group("system:serviceaccounts:other")),
                false,
            ),
            (
                binding("b", "ns", role, group("system:authenticated")),
                true,
            ),
            (binding("b", "ns", role, group("system:nodes")), false),
            (
                binding(
                    "b",
                    "ns",
                    role,
                    json!({"kind": "User", "name": "system:serviceaccount:ns:robot"}),
                ),
                true,
            ),
            (
                binding("b", "ns", role, json!({"kind": "User", "name": "robot"})),
                false,
            ),
        ];
        for (binding, expected) in rows {
            assert_eq!(
                !by(vec![binding.clone()], vec![]).is_empty(),
                expected,
                "{binding}"
            );
        }
        assert_eq!(by(vec![], vec![binding("b", "", everywhere, robot)]), ["b"]);
    }

    #[test]
    fn grants_stand_in_an_order() {
        let robot = || json!({"kind": "ServiceAccount", "name": "robot", "namespace": "ns"});
        let one = |name: &str| binding(name, "ns", ("ClusterRole", "c"), robot());
        assert_eq!(
            by(vec![one("b"), one("a")], vec![one("d"), one("c")]),
            ["a", "b", "c", "d"]
        );
    }
}
