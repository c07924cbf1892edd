//! NodeGroups: labels the nodes of each group, and reports them in the group's status.
//!
//! A node is in at most one group: the first that labels it. A node that leaves a group loses its labels, then the pods that were bound to
//! it by the group's label: those that are bound to a node without it, whenever that is found. Source: KubeEdge's ControllerManager.
//! Differences: a group that cannot be listed evicts nobody, and only a zone that the group has set is removed.

mod members;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use crate::controllers::reconciler::Action;
use crds::apps::NodeGroup;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use self::members::check_name;
use self::members::{Plan, plan};
use super::{
    informers::{Change, Failure, Informer, Triggers, work},
    workloads::{cluster, patch_status, pods::is_active},
};

/// The label of a node's group.
pub(crate) const GROUP_LABEL: &str = "apps.kubeedge.io/belonging-to";
/// The label of a node's zone, which is its group if the group has a topology.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Keeps a group until its nodes have left.
const FINALIZER: &str = "apps.kubeedge.io/nodegroup-controller";

cluster!(Cluster {
    pods: Pod,
    nodes: Node,
    groups: NodeGroup,
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let groups = cluster.groups.clone();
    let known = groups.clone();
    let triggers = Triggers::none().and(&cluster.nodes, move |change: &Change<Node>| {
        groups_of(change, &known)
    });
    let queue = (cluster.queues.queue("nodegroup"), groups);
    work(queue, triggers, cluster, reconcile, stop).await;
}

/// Returns the groups that name a changed node, match it, or have labelled it.
fn groups_of(change: &Change<Node>, groups: &Informer<NodeGroup>) -> Vec<ObjectRef<NodeGroup>> {
    let all = groups.all();
    let concerned = all.iter().filter(|group| {
        change.states().any(|node| {
            members::selects(&group.spec, node)
                || node.labels().get(GROUP_LABEL) == group.metadata.name.as_ref()
        })
    });
    concerned
        .map(|group| ObjectRef::from_obj(&**group))
        .collect()
}

async fn reconcile(group: Arc<NodeGroup>, context: Arc<Cluster>) -> Result<Action, Failure> {
    let is_deleted = group.metadata.deletion_timestamp.is_some();
    let has_finalizer = group.finalizers().iter().any(|name| name == FINALIZER);
    if is_deleted && !has_finalizer {
        return Ok(Action::await_change());
    }
    if !is_deleted && !has_finalizer {
        context.set_finalizer(&group, true).await?;
        // the change of the group begins the rest
        return Ok(Action::await_change());
    }
    let nodes = context.nodes.all();
    let Plan { labels, status } = plan(&group.name_any(), &group.spec, &nodes, is_deleted);
    for (node, labels) in labels {
        context.label(&node, &labels).await?;
    }
    context.evict(&group.name_any()).await?;
    if is_deleted {
        context.set_finalizer(&group, false).await?;
    } else {
        let (api, old) = (context.all_groups(), group.status.as_ref());
        if let Some(written) = patch_status(&api, &*group, old, &status).await? {
            context.groups.wrote(written);
        }
    }
    Ok(Action::await_change())
}

impl Cluster {
    fn all_groups(&self) -> Api<NodeGroup> {
        Api::all(self.client.clone())
    }

    /// Sets or removes the finalizer of a group, if the group has not changed since it was read.
    async fn set_finalizer(&self, group: &NodeGroup, on: bool) -> Result<(), Failure> {
        let mut finalizers = group.finalizers().to_vec();
        finalizers.retain(|name| name != FINALIZER);
        if on {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {"uid": group.uid(), "resourceVersion": group.resource_version(), "finalizers": finalizers}});
        let (name, parameters) = (group.name_any(), PatchParams::default());
        match self
            .all_groups()
            .patch(&name, &parameters, &Patch::Merge(&patch))
            .await
        {
            Ok(written) if on => self.groups.wrote(written),
            Ok(_) => {}
            Err(kube::Error::Api(refused)) if refused.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sets labels of a node; `None` removes one. Another group may have been faster: then the node has changed, and this is tried again.
    async fn label(&self, node: &Node, labels: &members::Labels) -> Result<(), Failure> {
        let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version, "labels": labels}});
        let nodes = Api::<Node>::all(self.client.clone());
        match nodes
            .patch(
                &node.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&patch),
            )
            .await
        {
            Ok(written) => self.nodes.wrote(written),
            Err(kube::Error::Api(refused)) if refused.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Deletes the pods that the label of the group binds to nodes that do not have it (any more).
    async fn evict(&self, group: &str) -> Result<(), Failure> {
        let has_label = |labels: &BTreeMap<String, String>| {
            labels.get(GROUP_LABEL).is_some_and(|label| label == group)
        };
        for pod in self.pods.all() {
            let Some(spec) = &pod.spec else { continue };
            let is_bound = spec.node_selector.as_ref().is_some_and(has_label);
            if !is_bound || !is_active(&pod) {
                continue;
            }
            let node = spec.node_name.as_deref().unwrap_or_default();
            // pods of a node that is gone are not this controller's
            let Some(node) = self.nodes.get("", node) else {
                continue;
            };
            if !has_label(node.labels()) {
                self.delete(&self.pods, &*pod).await?;
            }
        }
        Ok(())
    }
}
