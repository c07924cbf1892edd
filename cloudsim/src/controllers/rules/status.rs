//! Writes the rules' statuses: at most once in [`INTERVAL`] for each rule, and all that has changed at the end.

use std::time::Duration;

use crds::rules::{Rule, RuleStatus};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{DRAIN_TIMEOUT, Rules, counters::Place};

/// How often a status is written at most.
const INTERVAL: Duration = Duration::from_secs(1);

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
        for (place, status) in self.counters().take_changed() {
            match self.write_status(&place, &status).await {
                Ok(()) => {}
                Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => {
                    // deleted, and perhaps made anew: the watch tells
                }
                Err(error) => {
                    self.counters().unwritten(&place.uid);
                    let Place { namespace, name, .. } = &place;
                    warn!(
                        namespace,
                        name,
                        error = &error as &dyn std::error::Error,
                        "a rule's status could not be written"
                    );
                }
            }
        }
    }

    async fn write_status(&self, place: &Place, status: &RuleStatus) -> Result<(), kube::Error> {
        let api = Api::<Rule>::namespaced(self.0.client.clone(), &place.namespace);
        let RuleStatus { success_messages, fail_messages, errors } = status;
        // the uid keeps the counts from a rule of the same name that is another one
        let patch = json!({
            "metadata": {"uid": place.uid},
            "status": {"successMessages": success_messages, "failMessages": fail_messages, "errors": errors},
        });
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        match api.patch_status(&place.name, &parameters, &patch).await {
            // KubeEdge's definition has no subresource of the status: CloudCore writes it into the object
            Err(kube::Error::Api(refused)) if refused.code == 404 => {
                api.patch(&place.name, &parameters, &patch).await.map(drop)
            }
            written => written.map(drop),
        }
    }
}
