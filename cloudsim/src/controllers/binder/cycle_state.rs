//! What the filters and scores know of one pod before they are asked of each node; kube-scheduler's `CycleState`. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kubeapi::resources::{Amounts, requests_of};

use super::{
    pod_affinity::Neighbours,
    snapshot::{PodView, Snapshot},
    spread::Spread,
    storage::Volumes,
};

/// What is worked out once for a pod.
pub(super) struct CycleState<'a> {
    /// The pod, and all that it sees.
    pub(super) view: PodView<'a>,
    /// What it asks for.
    pub(super) requests: Amounts,
    /// What its volumes ask of a node.
    pub(super) volumes: Volumes,
    /// How pods are spread for its constraints.
    pub(super) spread: Spread,
    /// Which pods it wants to be near to and far from.
    pub(super) neighbours: Neighbours,
}

impl<'a> CycleState<'a> {
    /// Looks at everything once; an error is why no node can do.
    pub(super) fn new(pod: &'a Pod, spec: &'a PodSpec, snapshot: Snapshot<'a>) -> Result<Self, String> {
        let volumes = snapshot.storage.volumes(pod, spec)?;
        let view = PodView { pod, spec, snapshot, hidden: BTreeSet::new() };
        let (spread, neighbours) = (Spread::count(&view), Neighbours::count(&view));
        Ok(Self { view, requests: requests_of(pod), volumes, spread, neighbours })
    }

    /// The same as if these pods were gone.
    pub(super) fn hide(&mut self, uids: BTreeSet<String>) {
        self.view.hidden = uids;
        self.spread = Spread::count(&self.view);
        self.neighbours = Neighbours::count(&self.view);
    }
}
