//! NodeGroups: labels the nodes of each group, and reports them in the group's status.
//!
//! A node is in at most one group: the first that labels it. A node that leaves a group loses its labels, then the pods that were bound to
//! it by the group's label. Source: KubeEdge's ControllerManager. Differences: a group that cannot be listed evicts nobody, and only a zone
//! that the group has set is removed.

mod members;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crds::apps::{NodeGroup, NodeGroupStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::{controller::Action, reflector::ObjectRef},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::members::{Plan, plan};
use super::{
    informers::{Change, Failure, Informer, Reflector, Triggers, work},
    workloads::{Shared, cluster},
};

/// The label of a node's group.
pub(crate) const GROUP_LABEL: &str = "apps.kubeedge.io/belonging-to";
/// The label of a node's zone, which is its group if the group has a topology.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Keeps a group until its nodes have left.
const FINALIZER: &str = "apps.kubeedge.io/nodegroup-controller";

cluster!(PodsAndNodes {
    pods: Pod,
    nodes: Node
});

struct Context {
    shared: Shared,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    groups: Informer<NodeGroup>,
}

/// Runs until `stop`.
pub(crate) async fn run(cluster: PodsAndNodes, stop: CancellationToken) {
    let all = Reflector::<NodeGroup>::default();
    let client = cluster.client.clone();
    let reconciling = async {
        let groups = all.wait_synced().await;
        let known = groups.clone();
        let triggers = Triggers::none().and(&cluster.nodes, move |change: &Change<Node>| {
            groups_of(change, &known)
        });
        let context = Context {
            shared: cluster.shared.clone(),
            pods: cluster.pods.clone(),
            nodes: cluster.nodes.clone(),
            groups: groups.clone(),
        };
        let queue = (cluster.queues.queue("nodegroup"), groups);
        work(queue, triggers, context, reconcile, stop.child_token()).await;
    };
    tokio::join!(
        all.run(client, stop.child_token()),
        // ends with the token even if the list never arrives
        async {
            let _: Option<()> = stop.run_until_cancelled(Box::pin(reconciling)).await;
        },
    );
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

async fn reconcile(group: Arc<NodeGroup>, context: Arc<Context>) -> Result<Action, Failure> {
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
    let Plan {
        labels,
        leaving,
        status,
    } = plan(&group.name_any(), &group.spec, &nodes, is_deleted);
    for (node, labels) in labels {
        context.label(&node, &labels).await?;
    }
    for node in leaving {
        context.evict(&group.name_any(), &node).await?;
    }
    if is_deleted {
        context.set_finalizer(&group, false).await?;
    } else {
        context.write_status(&group, &status).await?;
    }
    Ok(Action::await_change())
}

impl Context {
    fn groups(&self) -> Api<NodeGroup> {
        Api::all(self.shared.client.clone())
    }

    async fn set_finalizer(&self, group: &NodeGroup, on: bool) -> Result<(), Failure> {
        let mut finalizers = group.finalizers().to_vec();
        finalizers.retain(|name| name != FINALIZER);
        if on {
            finalizers.push(FINALIZER.to_owned());
        }
        self.patch_group(group, json!({"finalizers": finalizers}), None)
            .await
    }

    async fn write_status(
        &self,
        group: &NodeGroup,
        status: &NodeGroupStatus,
    ) -> Result<(), Failure> {
        if group.status.as_ref() == Some(status) {
            return Ok(());
        }
        self.patch_group(group, json!({}), Some(json!(status)))
            .await
    }

    /// Patches a group, or its status, if it has not changed since it was read.
    async fn patch_group(
        &self,
        group: &NodeGroup,
        mut metadata: Value,
        status: Option<Value>,
    ) -> Result<(), Failure> {
        metadata["uid"] = json!(group.metadata.uid);
        metadata["resourceVersion"] = json!(group.metadata.resource_version);
        let (api, name, parameters) = (self.groups(), group.name_any(), PatchParams::default());
        let written = match status {
            Some(status) => {
                let patch = json!({"metadata": metadata, "status": status});
                api.patch_status(&name, &parameters, &Patch::Merge(&patch))
                    .await
            }
            None => {
                let patch = json!({"metadata": metadata});
                api.patch(&name, &parameters, &Patch::Merge(&patch)).await
            }
        };
        match written {
            Ok(written) if written.meta().deletion_timestamp.is_none() => {
                self.groups.wrote(written)
            }
            Ok(_) => {}
            Err(kube::Error::Api(refused)) if refused.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Sets labels of a node; `None` removes one. Another group may have been faster: then the node has changed, and this is tried again.
    async fn label(&self, node: &Node, labels: &members::Labels) -> Result<(), Failure> {
        let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version, "labels": labels}});
        let nodes = Api::<Node>::all(self.shared.client.clone());
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

    /// Deletes the pods of a node that were bound to it by the label of the group.
    async fn evict(&self, group: &str, node: &str) -> Result<(), Failure> {
        for pod in self.pods.all() {
            let spec = pod.spec.as_ref();
            let is_there = spec.and_then(|spec| spec.node_name.as_deref()) == Some(node);
            let selector = spec.and_then(|spec| spec.node_selector.as_ref());
            let is_bound = selector
                .is_some_and(|labels| labels.get(GROUP_LABEL).is_some_and(|label| label == group));
            if !is_there || !is_bound || pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let pods = Api::<Pod>::namespaced(
                self.shared.client.clone(),
                pod.metadata.namespace.as_deref().unwrap_or_default(),
            );
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: pod.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match pods.delete(&pod.name_any(), &parameters).await {
                Ok(_) => {}
                // gone, or another pod of this name
                Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
