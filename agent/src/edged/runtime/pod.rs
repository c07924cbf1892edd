//! What there is of one pod: found by its label, or, where that is known, asked of each by its id.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use jiff::Timestamp;
use wire::cri;

use super::{Result, Runtime, observe};
use crate::edged::{
    names,
    observed::{Made, Observed, Sandbox},
};

fn pod_selector(uid: &str) -> BTreeMap<String, String> {
    [(names::POD_UID.to_owned(), uid.to_owned())].into()
}

impl Runtime {
    /// All that there is of the pod with this uid.
    pub(crate) async fn observe(&self, uid: &str) -> Result<Observed> {
        let filter = cri::PodSandboxFilter { label_selector: pod_selector(uid), ..Default::default() };
        let containers = cri::ContainerFilter { label_selector: pod_selector(uid), ..Default::default() };
        let (sandboxes, containers) =
            tokio::try_join!(self.sandboxes(Some(filter)), self.containers(Some(containers)))?;
        let containers = containers.into_iter().map(|one| (one.id, one.pod_sandbox_id));
        self.inspect(sandboxes.into_iter().map(observe::sandbox).collect(), true, containers.collect()).await
    }

    /// The same of a pod that had what `last` says, and has got nothing since but what was `made`. Without lists, of which each
    /// costs a runtime the more the more pods it has, and without asking again for a sandbox whose addresses are known.
    pub(crate) async fn observe_made(&self, last: Observed, made: Vec<Made>) -> Result<Observed> {
        let containers = last.containers.into_iter().map(|one| (one.id, one.sandbox_id));
        let (mut sandboxes, mut containers) = (last.sandboxes, containers.collect::<Vec<_>>());
        let anew = made.iter().any(|one| matches!(one, Made::Sandbox { .. }));
        for one in made {
            match one {
                Made::Sandbox { id, attempt } => {
                    let created_at = Timestamp::now();
                    sandboxes.push(Sandbox { id, attempt, ready: true, created_at, ips: Vec::new() });
                }
                Made::Container { id, sandbox_id } => containers.push((id, sandbox_id)),
            }
        }
        self.inspect(sandboxes, anew, containers).await
    }

    /// What these do: the current sandbox, if it may be `anew`, and containers with the sandbox of each. A container that has no
    /// status is gone.
    async fn inspect(
        &self,
        sandboxes: Vec<Sandbox>,
        anew: bool,
        containers: Vec<(String, String)>,
    ) -> Result<Observed> {
        let mut found = Observed::new(sandboxes, Vec::new());
        let current = async {
            match found.current().filter(|_| anew) {
                Some(sandbox) => self.sandbox_status(&sandbox.id).await,
                None => Ok(None),
            }
        };
        let statuses = try_join_all(containers.iter().map(|(id, _)| self.container_status(id)));
        let (current, statuses) = tokio::try_join!(current, statuses)?;
        if let (Some(sandbox), Some(status)) = (found.sandboxes.first_mut(), current) {
            observe::update(sandbox, status);
        }
        let containers = statuses.into_iter().zip(containers);
        let containers =
            containers.filter_map(|(status, (_, sandbox))| observe::container(status?, sandbox, &self.boot));
        Ok(Observed::new(found.sandboxes, containers.collect()))
    }
}
