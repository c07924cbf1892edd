//! `cloudsim roles`: prints, as manifests, the rights that a cloud needs in an existing cluster.

use cloudsim::{RequiredRules, pki::NAMESPACE};
use k8s_openapi::{
    api::{
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;

use super::print_line;

/// The name of all these objects.
const NAME: &str = "cloudsim";

/// Prints the manifests; `makes_crds` says that the cloud creates KubeEdge's CRDs itself, `node_groups` that it has the controllers of
/// NodeGroups and EdgeApplications.
pub(super) fn run(makes_crds: bool, node_groups: bool) -> anyhow::Result<()> {
    for document in documents(makes_crds, node_groups)? {
        print_line("---");
        print_line(document.trim_end());
    }
    Ok(())
}

fn documents(makes_crds: bool, node_groups: bool) -> anyhow::Result<Vec<String>> {
    let rules = RequiredRules::of_this_version()?;
    let everywhere = rules.everywhere(makes_crds, node_groups);
    let subjects = Some(vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: NAME.to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        ..Subject::default()
    }]);
    let mut all = vec![
        document(&Namespace {
            metadata: object_meta(NAMESPACE, None),
            ..Namespace::default()
        })?,
        document(&ServiceAccount {
            metadata: object_meta(NAME, Some(NAMESPACE)),
            ..ServiceAccount::default()
        })?,
        document(&ClusterRole {
            metadata: object_meta(NAME, None),
            rules: Some(everywhere),
            ..ClusterRole::default()
        })?,
        document(&ClusterRoleBinding {
            metadata: object_meta(NAME, None),
            role_ref: role("ClusterRole"),
            subjects: subjects.clone(),
        })?,
    ];
    for (namespace, rules) in rules.namespaces {
        all.push(document(&Role {
            metadata: object_meta(NAME, Some(&namespace)),
            rules: Some(rules),
        })?);
        let metadata = object_meta(NAME, Some(&namespace));
        all.push(document(&RoleBinding {
            metadata,
            role_ref: role("Role"),
            subjects: subjects.clone(),
        })?);
    }
    Ok(all)
}

fn object_meta(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}

fn role(kind: &str) -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: NAME.to_owned(),
    }
}

/// Returns an object as YAML; `k8s-openapi` adds kind and version.
fn document(object: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&serde_json::to_value(object)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_say_whose_rights_these_are() {
        let text = documents(true, true).unwrap().join("\n---\n");
        for part in [
            "kind: ClusterRoleBinding",
            "kind: RoleBinding",
            "namespace: kube-node-lease",
            "serviceaccounts/token",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        for (makes_crds, node_groups) in [(false, true), (true, false)] {
            let less = documents(makes_crds, node_groups).unwrap();
            assert!(less.join("").len() < text.len());
        }
    }
}
