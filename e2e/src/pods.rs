//! Pods as the API shows them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Cloud, until};

/// The path of the pods of namespace `default`, which the tests use.
const PODS: &str = "/api/v1/namespaces/default/pods";
/// The path of the events about these pods.
const EVENTS: &str = "/api/v1/namespaces/default/events";

impl Cloud {
    /// Returns a pod, or `None`.
    pub fn pod(&self, name: &str) -> anyhow::Result<Option<Value>> {
        self.api.get(&format!("{PODS}/{name}"))
    }

    /// Returns all pods by their names.
    pub fn pods(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let named = |pod: Value| {
            (
                pod["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                pod,
            )
        };
        Ok(self.api.list(PODS)?.into_iter().map(named).collect())
    }

    /// Returns the messages of the events about this pod with this reason.
    pub fn events(&self, pod: &str, reason: &str) -> anyhow::Result<Vec<String>> {
        let selector = format!("involvedObject.name%3D{pod},reason%3D{reason}");
        let listed = self
            .api
            .list(&format!("{EVENTS}?fieldSelector={selector}"))?;
        Ok(listed
            .iter()
            .filter_map(|event| event["message"].as_str().map(str::to_owned))
            .collect())
    }

    /// Waits until the pod is as `wanted` checks, whose error is shown when it never is.
    pub fn wait_pod(
        &self,
        name: &str,
        wanted: impl Fn(&Value) -> Result<(), String>,
    ) -> anyhow::Result<Value> {
        until(&format!("pod {name}"), || {
            let pod = self
                .pod(name)
                .map_err(|error| format!("{error:#}"))?
                .ok_or("it is not there")?;
            wanted(&pod)
                .map(|()| pod.clone())
                .map_err(|what| format!("{what}: {}", pod["status"]))
        })
    }

    /// Waits until all containers of the pod run and are ready.
    pub fn wait_ready(&self, name: &str) -> anyhow::Result<Value> {
        self.wait_pod(name, |pod| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let ready = conditions
                .into_iter()
                .any(|all| all["type"] == "Ready" && all["status"] == "True");
            if ready {
                Ok(())
            } else {
                Err("it is not ready".to_owned())
            }
        })
    }

    /// Waits until the pod has this phase.
    pub fn wait_phase(&self, name: &str, phase: &str) -> anyhow::Result<Value> {
        self.wait_pod(name, |pod| {
            if pod["status"]["phase"] == phase {
                Ok(())
            } else {
                Err(format!("it is not {phase}"))
            }
        })
    }

    /// Waits until there is no such pod.
    pub fn wait_gone(&self, name: &str) -> anyhow::Result<()> {
        until(&format!("the end of {name}"), || match self.pod(name) {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        })
    }
}

impl AsRef<Self> for Cloud {
    fn as_ref(&self) -> &Self {
        self
    }
}
