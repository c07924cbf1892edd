//! The rights that this cloud needs, checked at the start so that a missing rule is named at once instead of failing later.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};
use serde::Deserialize;

use super::ClusterOptions;

/// Concurrent SelfSubjectAccessReviews.
const CONCURRENT_REVIEWS: usize = 8;
/// The rules, as YAML for roles and users.
pub const RULES: &str = include_str!("rules.yaml");

/// The needed rules.
#[derive(Clone, Debug, Deserialize)]
pub struct RequiredRules {
    /// In all namespaces, and for cluster-scoped objects.
    pub cluster: Vec<PolicyRule>,
    /// In single namespaces.
    pub namespaces: BTreeMap<String, Vec<PolicyRule>>,
    /// As `cluster`, if definitions are created.
    pub crds: Vec<PolicyRule>,
    /// As `cluster`, for the controllers of NodeGroups and EdgeApplications.
    #[serde(rename = "nodeGroups")]
    pub node_groups: Vec<PolicyRule>,
}

/// One right: a verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The namespace; empty for all and for cluster-scoped objects.
    pub namespace: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, with a subresource after a slash.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The name of the object; empty for all.
    pub name: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            group,
            resource,
            verb,
            name,
        } = self;
        let place = if namespace.is_empty() {
            "ClusterRole".to_owned()
        } else {
            format!("Role in {namespace}")
        };
        let names = if name.is_empty() {
            String::new()
        } else {
            format!("resourceNames: [{name}], ")
        };
        write!(
            f,
            "{place}: {{apiGroups: [\"{group}\"], resources: [{resource}], {names}verbs: [{verb}]}}"
        )
    }
}

/// The rights of the cloud are insufficient or unknown.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    /// The embedded rules are invalid.
    #[error("the built-in rules of this program are invalid; please report this")]
    Rules(#[from] serde_saphyr::Error),
    /// The review failed.
    #[error("cannot read the permissions of this cloud from the cluster (SelfSubjectAccessReview)")]
    Api(#[from] kube::Error),
    /// These rights are missing.
    #[error("this cloud lacks permissions in the cluster; add these rules to its roles:\n{}", lines(.0))]
    Missing(Vec<Right>),
}

fn lines(missing: &[Right]) -> String {
    missing
        .iter()
        .map(|right| format!("  {right}"))
        .collect::<Vec<_>>()
        .join("\n")
}

impl RequiredRules {
    /// Returns the rules of this version.
    ///
    /// # Errors
    /// Returns an error if the embedded file is invalid, which a test excludes.
    pub fn of_this_version() -> Result<Self, serde_saphyr::Error> {
        serde_saphyr::from_str(RULES)
    }

    /// Returns the rules for all namespaces and for cluster-scoped objects.
    pub fn everywhere(&self, makes_crds: bool, node_groups: bool) -> Vec<PolicyRule> {
        let mut all = self.cluster.clone();
        for (rules, _) in [(&self.crds, makes_crds), (&self.node_groups, node_groups)]
            .into_iter()
            .filter(|(_, is_needed)| *is_needed)
        {
            all.extend(rules.iter().cloned());
        }
        all
    }

    /// Returns every single right.
    pub fn rights(&self, makes_crds: bool, node_groups: bool) -> BTreeSet<Right> {
        let everywhere = self.everywhere(makes_crds, node_groups);
        let mut all: BTreeSet<Right> = everywhere.iter().flat_map(|rule| of("", rule)).collect();
        for (namespace, rules) in &self.namespaces {
            all.extend(rules.iter().flat_map(|rule| of(namespace, rule)));
        }
        all
    }
}

fn of(namespace: &str, rule: &PolicyRule) -> Vec<Right> {
    let names = rule
        .resource_names
        .clone()
        .filter(|names| !names.is_empty());
    let names = names.unwrap_or_else(|| vec![String::new()]);
    let mut all = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for name in &names {
                all.extend(rule.verbs.iter().map(|verb| Right {
                    namespace: namespace.to_owned(),
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    name: name.clone(),
                }));
            }
        }
    }
    all
}

/// Checks each right with the API.
pub(super) async fn check(client: &Client, options: &ClusterOptions) -> Result<(), RightsError> {
    let (makes_crds, node_groups) = (options.install_crds, options.node_groups);
    let rights = RequiredRules::of_this_version()?.rights(makes_crds, node_groups);
    let ask = |right: Right| async move {
        let allowed = is_allowed(client, &right).await?;
        Ok::<_, kube::Error>((!allowed).then_some(right))
    };
    let asked = stream::iter(rights).map(ask).buffered(CONCURRENT_REVIEWS);
    let missing: Vec<Right> = asked
        .try_filter_map(|missing| async { Ok(missing) })
        .try_collect()
        .await?;
    if missing.is_empty() {
        Ok(())
    } else {
        Err(RightsError::Missing(missing))
    }
}

async fn is_allowed(client: &Client, right: &Right) -> Result<bool, kube::Error> {
    let (resource, part) = match right.resource.split_once('/') {
        Some((resource, part)) => (resource, Some(part.to_owned())),
        None => (&*right.resource, None),
    };
    let attributes = ResourceAttributes {
        namespace: Some(right.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        group: Some(right.group.clone()),
        resource: Some(resource.to_owned()),
        subresource: part,
        verb: Some(right.verb.clone()),
        name: Some(right.name.clone()).filter(|name| !name.is_empty()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let question = SelfSubjectAccessReview {
        spec,
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone())
        .create(&PostParams::default(), &question)
        .await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_told_with_the_rule_to_add() {
        let rules = RequiredRules::of_this_version().unwrap();
        let rights = rules.rights(false, false);
        assert!(
            rights.is_subset(&rules.rights(true, true))
                && rights.len() < rules.rights(true, true).len()
        );
        let status = rights
            .iter()
            .find(|right| right.resource == "pods/status")
            .unwrap()
            .clone();
        let lease = rights
            .iter()
            .find(|right| right.namespace == "kube-node-lease")
            .unwrap()
            .clone();
        let signer = rights
            .iter()
            .find(|right| right.resource == "signers")
            .unwrap()
            .clone();
        let told = RightsError::Missing(vec![status, lease, signer]).to_string();
        for part in [
            "ClusterRole: {apiGroups: [\"\"], resources: [pods/status], verbs: [patch]}",
            "resources: [signers], resourceNames: [kubernetes.io/kubelet-serving], verbs: [approve]}",
            "Role in kube-node-lease: {apiGroups: [\"coordination.k8s.io\"], resources: [leases], verbs: [create]}",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }
}
