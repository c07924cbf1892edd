//! Writes the rules' statuses: at most once in [`INTERVAL`] for each rule, and all changes at shutdown.

use std::time::Duration;

use crds::rules::{Rule, RuleStatus};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    DRAIN_TIMEOUT, Rules,
    counters::{RuleRef, StatusDelta},
};

/// The shortest interval between two writes of a status.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often adding to a status is tried when others write it.
const MAX_ATTEMPTS: u32 = 5;

impl Rules {
    pub(super) async fn write_statuses(self, stop: CancellationToken) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.write_changed().await;
        }
        self.0.tasks.close();
        let ending = async {
            self.0.tasks.wait().await;
            self.write_changed().await;
        };
        if timeout(DRAIN_TIMEOUT, ending).await.is_err() {
            self.write_changed().await;
        }
    }

    async fn write_changed(&self) {
        for (place, addition) in self.counters().take_changed() {
            match self.add_to_status(&place, &addition).await {
                Ok(()) => {}
                Err(kube::Error::Api(refused)) if refused.code == 404 => {
                    // deleted, and possibly created again: the watch reports it
                }
                Err(error) => {
                    self.counters().put_back(&place.uid, addition);
                    let RuleRef {
                        namespace, name, ..
                    } = &place;
                    warn!(
                        namespace,
                        name,
                        error = &error as &dyn std::error::Error,
                        "failed to update rule status; retrying"
                    );
                }
            }
        }
    }

    /// Adds to the stored status. After a conflict, mostly with another replica, it is read again.
    async fn add_to_status(
        &self,
        place: &RuleRef,
        addition: &StatusDelta,
    ) -> Result<(), kube::Error> {
        let api = Api::<Rule>::namespaced(self.0.client.clone(), &place.namespace);
        let mut tries = 0;
        loop {
            let rule = api.get(&place.name).await?;
            // another rule of the same name: these are not its counts
            if rule.uid().as_ref() != Some(&place.uid) {
                return Ok(());
            }
            let status = addition.to(rule.status.as_ref().unwrap_or(&RuleStatus::default()));
            if rule.status.as_ref() == Some(&status) {
                return Ok(());
            }
            match write(&api, &rule, &status).await {
                Err(kube::Error::Api(refused)) if refused.code == 409 && tries < MAX_ATTEMPTS => {
                    tries += 1
                }
                written => return written,
            }
        }
    }
}

/// Writes the status if the rule has not changed since it was read.
async fn write(api: &Api<Rule>, rule: &Rule, status: &RuleStatus) -> Result<(), kube::Error> {
    let RuleStatus {
        success_messages,
        fail_messages,
        errors,
    } = status;
    let patch = json!({
        "metadata": {"uid": rule.metadata.uid, "resourceVersion": rule.metadata.resource_version},
        "status": {"successMessages": success_messages, "failMessages": fail_messages, "errors": errors},
    });
    let (name, parameters, patch) = (
        rule.name_any(),
        PatchParams::default(),
        Patch::Merge(&patch),
    );
    match api.patch_status(&name, &parameters, &patch).await {
        // KubeEdge's definition has no status subresource: CloudCore writes the status into the object
        Err(kube::Error::Api(refused)) if refused.code == 404 => {
            api.patch(&name, &parameters, &patch).await.map(drop)
        }
        written => written.map(drop),
    }
}
