//! Pods, as kubectl shows them.

use anyhow::Context;
use serde_json::Value;

use crate::{Cloud, until};

impl Cloud {
    /// A pod, or `None`.
    pub fn pod(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let selector = format!("metadata.name={name}");
        let listed = self.kubectl.json(&["get", "pods", "--field-selector", &selector])?;
        Ok(listed["items"].as_array().context("kubectl lists nothing")?.first().cloned())
    }

    /// Waits until the pod is as `wanted` says; what it answers otherwise stands in the error.
    pub fn wait_pod(
        &self,
        name: &str,
        wanted: impl Fn(&Value) -> Result<(), String>,
    ) -> anyhow::Result<Value> {
        until(&format!("pod {name}"), || {
            let pod = self.pod(name).map_err(|error| format!("{error:#}"))?.ok_or("it is not there")?;
            wanted(&pod).map(|()| pod.clone()).map_err(|what| format!("{what}: {}", pod["status"]))
        })
    }

    /// Waits until all containers of the pod run and are ready.
    pub fn wait_ready(&self, name: &str) -> anyhow::Result<Value> {
        self.wait_pod(name, |pod| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let ready = conditions.into_iter().any(|all| all["type"] == "Ready" && all["status"] == "True");
            if ready { Ok(()) } else { Err("it is not ready".to_owned()) }
        })
    }

    /// Waits until the pod has this phase.
    pub fn wait_phase(&self, name: &str, phase: &str) -> anyhow::Result<Value> {
        self.wait_pod(name, |pod| {
            if pod["status"]["phase"] == phase { Ok(()) } else { Err(format!("it is not {phase}")) }
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
