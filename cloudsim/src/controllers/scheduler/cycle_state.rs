//! What filters and scores compute once for a pod; kube-scheduler's `CycleState`. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kubeapi::object::resources::{Amounts, requests_of};

use super::{
    pod_affinity::Neighbours,
    snapshot::{PodView, Snapshot},
    spread::Spread,
    storage::Volumes,
};

/// The precomputed state for one pod.
pub(super) struct CycleState<'a> {
    /// The pod and the snapshot.
    pub(super) view: PodView<'a>,
    /// The pod's resource requests.
    pub(super) requests: Amounts,
    /// The node constraints of the pod's volumes.
    pub(super) volumes: Volumes,
    /// The pods in each domain of the pod's topology spread constraints.
    pub(super) spread: Spread,
    /// The pod's required affinity and anti-affinity.
    pub(super) neighbours: Neighbours,
}

impl<'a> CycleState<'a> {
    /// Computes the state. The error is the reason why no node fits.
    pub(super) fn new(
        pod: &'a Pod,
        spec: &'a PodSpec,
        snapshot: Snapshot<'a>,
    ) -> Result<Self, String> {
        let volumes = snapshot.storage.volumes(pod, spec)?;
        let view = PodView {
            pod,
            spec,
            snapshot,
            hidden: BTreeSet::new(),
        };
        let (spread, neighbours) = (Spread::count(&view), Neighbours::count(&view));
        Ok(Self {
            view,
            requests: requests_of(pod),
            volumes,
            spread,
            neighbours,
        })
    }

    /// Recomputes the state as if these pods did not exist.
    pub(super) fn hide_pods(&mut self, uids: BTreeSet<String>) {
        self.view.hidden = uids;
        self.spread = Spread::count(&self.view);
        self.neighbours = Neighbours::count(&self.view);
    }
}
