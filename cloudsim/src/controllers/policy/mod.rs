//! The rights of service accounts for nodes: a ServiceAccountAccess for each account to which anything is granted and that a pod on an
//! edge node uses. The edge controller sends it to the nodes, where MetaServer enforces it.
//!
//! Source: KubeEdge's PolicyController.

mod granted_roles;

use std::{collections::BTreeSet, sync::Arc};

use crate::controllers::reconciler::Action;
use crds::policy::{ServiceAccountAccess, ServiceAccountAccessStatus};
use k8s_openapi::api::{
    core::v1::{Node, Pod, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, PostParams},
    runtime::reflector::ObjectRef,
};
use tokio_util::sync::CancellationToken;

use self::granted_roles::{GrantedRoles, granted_roles};
use super::{
    informers::{Change, Failure, Triggers, work},
    scheduler::EDGE_LABEL,
    workloads::{cluster, pods::controller_reference},
};

cluster!(Cluster {
    pods: Pod,
    nodes: Node,
    accounts: ServiceAccount,
    roles: Role,
    cluster_roles: ClusterRole,
    bindings: RoleBinding,
    cluster_bindings: ClusterRoleBinding,
    accesses: ServiceAccountAccess,
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let queue = cluster.queues.queue("serviceaccountaccess");
    let (queue, triggers) = ((queue, cluster.accounts.clone()), triggers(&cluster));
    work(queue, triggers, cluster, reconcile, stop).await;
}

/// Roles and bindings change rarely: all accounts are then reconciled.
fn triggers(known: &Cluster) -> Triggers<ServiceAccount> {
    let accounts = known.accounts.clone();
    let all = move || -> Vec<ObjectRef<ServiceAccount>> {
        accounts
            .all()
            .iter()
            .map(|account| ObjectRef::from_obj(&**account))
            .collect()
    };
    let [of_nodes, of_roles, of_cluster_roles, of_bindings] =
        [all.clone(), all.clone(), all.clone(), all.clone()];
    Triggers::none()
        .and(&known.pods, accounts_of_moved_pod)
        .and(&known.nodes, move |change: &Change<Node>| {
            let became = change.before.as_ref().is_some_and(|node| is_edge(node))
                != (is_edge(&change.object) && !change.gone);
            if became { of_nodes() } else { Vec::new() }
        })
        .and(&known.roles, move |_: &Change<Role>| of_roles())
        .and(&known.cluster_roles, move |_: &Change<ClusterRole>| {
            of_cluster_roles()
        })
        .and(&known.bindings, move |_: &Change<RoleBinding>| {
            of_bindings()
        })
        .and(
            &known.cluster_bindings,
            move |_: &Change<ClusterRoleBinding>| all(),
        )
        // somebody else may have changed or deleted it
        .and(&known.accesses, |change: &Change<ServiceAccountAccess>| {
            let namespace = change.object.namespace().unwrap_or_default();
            Some(ObjectRef::new(&change.object.name_any()).within(&namespace))
        })
}

/// Returns the accounts of a pod that was bound to or removed from a node.
fn accounts_of_moved_pod(change: &Change<Pod>) -> Vec<ObjectRef<ServiceAccount>> {
    let before = change.before.as_ref().and_then(|pod| account_and_node(pod));
    let now = account_and_node(&change.object).filter(|_| !change.gone);
    if before == now {
        return Vec::new();
    }
    let namespace = change.object.namespace().unwrap_or_default();
    let accounts: BTreeSet<&str> = [before, now]
        .into_iter()
        .flatten()
        .map(|(account, _)| account)
        .collect();
    accounts
        .into_iter()
        .map(|account| ObjectRef::new(account).within(&namespace))
        .collect()
}

/// Returns the pod's account and node.
fn account_and_node(pod: &Pod) -> Option<(&str, &str)> {
    let spec = pod.spec.as_ref()?;
    let node = spec.node_name.as_deref().filter(|node| !node.is_empty())?;
    Some((
        spec.service_account_name.as_deref().unwrap_or("default"),
        node,
    ))
}

fn is_edge(node: &Node) -> bool {
    node.labels().contains_key(EDGE_LABEL)
}

impl Cluster {
    fn granted_roles(&self, account: &ServiceAccount) -> GrantedRoles {
        granted_roles(
            account,
            &self.bindings.all(),
            &self.roles.all(),
            &self.cluster_bindings.all(),
            &self.cluster_roles.all(),
        )
    }

    /// Returns the edge nodes with pods of the account, sorted.
    fn nodes_of(&self, namespace: &str, account: &str) -> Vec<String> {
        let pods = self.pods.in_namespace(namespace);
        let places = pods.iter().filter_map(|pod| account_and_node(pod));
        let nodes: BTreeSet<&str> = places
            .filter(|(own, _)| *own == account)
            .map(|(_, node)| node)
            .collect();
        let is_known_edge =
            |node: &&str| self.nodes.get("", node).is_some_and(|node| is_edge(&node));
        nodes
            .into_iter()
            .filter(is_known_edge)
            .map(str::to_owned)
            .collect()
    }

    /// Replaces the object's specification; fails on a conflict.
    async fn replace(
        &self,
        old: &ServiceAccountAccess,
        new: ServiceAccountAccess,
    ) -> Result<(), Failure> {
        let api = Api::<ServiceAccountAccess>::namespaced(
            self.shared.client.clone(),
            &old.namespace().unwrap_or_default(),
        );
        let metadata = ObjectMeta {
            resource_version: old.resource_version(),
            ..new.metadata
        };
        let new = ServiceAccountAccess { metadata, ..new };
        self.accesses.wrote(
            api.replace(&old.name_any(), &PostParams::default(), &new)
                .await?,
        );
        Ok(())
    }
}

async fn reconcile(account: Arc<ServiceAccount>, known: Arc<Cluster>) -> Result<Action, Failure> {
    let (namespace, name) = (account.namespace().unwrap_or_default(), account.name_any());
    let granted_roles = known.granted_roles(&account);
    // most accounts have no rights: their pods are not looked up
    let is_going = granted_roles.is_empty() || account.metadata.deletion_timestamp.is_some();
    let nodes = if is_going {
        Vec::new()
    } else {
        known.nodes_of(&namespace, &name)
    };
    match (nodes.is_empty(), known.accesses.get(&namespace, &name)) {
        (true, None) => return Ok(Action::await_change()),
        (true, Some(old)) => {
            known.shared.delete(&known.accesses, &*old).await?;
            return Ok(Action::await_change());
        }
        (false, None) => {
            let new = granted_roles.access(&account, controller_reference(&*account));
            known.shared.create(&known.accesses, &new).await?;
        }
        (false, Some(old)) => {
            let new = granted_roles.access(&account, controller_reference(&*account));
            if old.spec != new.spec {
                known.replace(&old, new).await?;
            }
        }
    }
    if let Some(written) = known.accesses.get(&namespace, &name) {
        let status = ServiceAccountAccessStatus { node_list: nodes };
        known
            .shared
            .write_status(&known.accesses, &*written, &written.status, &status)
            .await?;
    }
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests;
