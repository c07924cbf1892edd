//! Observes one pod: finds its sandboxes and containers by label, or, where they are known, requests the status of each.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use wire::cri;

use super::{Result, Runtime, observe};
use crate::{
    names,
    observed::{CreatedItem, ObservedPod, Sandbox},
};

fn pod_selector(uid: &str) -> BTreeMap<String, String> {
    [(names::POD_UID.to_owned(), uid.to_owned())].into()
}

impl Runtime {
    /// Returns all sandboxes and containers of the pod with this uid.
    pub(crate) async fn observe(&self, uid: &str) -> Result<ObservedPod> {
        let filter = cri::PodSandboxFilter {
            label_selector: pod_selector(uid),
            ..Default::default()
        };
        let containers = cri::ContainerFilter {
            label_selector: pod_selector(uid),
            ..Default::default()
        };
        let (sandboxes, containers) = tokio::try_join!(
            self.sandboxes(Some(filter)),
            self.containers(Some(containers))
        )?;
        let containers = containers
            .into_iter()
            .map(|one| (one.id, one.pod_sandbox_id));
        self.inspect(
            sandboxes.into_iter().map(observe::sandbox).collect(),
            true,
            containers.collect(),
        )
        .await
    }

    /// Observes a pod whose last observation was `last` and for which nothing but `created` was created since. This avoids lists,
    /// whose cost grows with the number of pods, and requests no sandbox status if its addresses are known.
    pub(crate) async fn observe_created(
        &self,
        last: ObservedPod,
        created: Vec<CreatedItem>,
    ) -> Result<ObservedPod> {
        let containers = last
            .containers
            .into_iter()
            .map(|one| (one.id, one.sandbox_id));
        let (mut sandboxes, mut containers) = (last.sandboxes, containers.collect::<Vec<_>>());
        let refresh_sandbox = created
            .iter()
            .any(|one| matches!(one, CreatedItem::Sandbox { .. }));
        for one in created {
            match one {
                CreatedItem::Sandbox { id, attempt } => {
                    let created_at = clock::now();
                    sandboxes.push(Sandbox {
                        id,
                        attempt,
                        ready: true,
                        created_at,
                        ips: Vec::new(),
                    });
                }
                CreatedItem::Container { id, sandbox_id } => containers.push((id, sandbox_id)),
            }
        }
        self.inspect(sandboxes, refresh_sandbox, containers).await
    }

    /// Requests the status of containers, given with their sandboxes' ids, and that of the ready sandbox if `refresh_sandbox`. A
    /// container without a status is gone.
    async fn inspect(
        &self,
        sandboxes: Vec<Sandbox>,
        refresh_sandbox: bool,
        containers: Vec<(String, String)>,
    ) -> Result<ObservedPod> {
        let mut observed = ObservedPod::new(sandboxes, Vec::new());
        let current = async {
            match observed.ready_sandbox().filter(|_| refresh_sandbox) {
                Some(sandbox) => self.sandbox_status(&sandbox.id).await,
                None => Ok(None),
            }
        };
        let statuses = try_join_all(containers.iter().map(|(id, _)| self.container_status(id)));
        let (current, statuses) = tokio::try_join!(current, statuses)?;
        if let (Some(sandbox), Some(status)) = (observed.sandboxes.first_mut(), current) {
            observe::update_sandbox(sandbox, status);
        }
        let containers = statuses.into_iter().zip(containers);
        let containers = containers.filter_map(|(status, (_, sandbox))| {
            observe::container(status?, sandbox, &self.boot_id)
        });
        Ok(ObservedPod::new(observed.sandboxes, containers.collect()))
    }
}
