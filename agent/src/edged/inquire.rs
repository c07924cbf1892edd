//! Who a container runtime is, asked before anything is made with it.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::timeout;
use tonic::transport::Channel;

use super::{
    names,
    runtime::{CallError, Runtime},
};
use crate::config::CgroupDriver;

/// A runtime that takes longer for all of these short questions does not answer.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(10);

/// A runtime that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeFound {
    /// What it calls itself.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Who makes control groups, where it tells.
    pub(crate) driver: Option<CgroupDriver>,
    /// Why it can make no network for pods, if it cannot.
    pub(crate) network: Option<String>,
    /// Pods that it has, by namespace and name.
    pub(crate) pods: BTreeSet<String>,
}

/// A runtime that cannot run pods.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRuntime {
    /// It has no CRI v1.
    #[error("it speaks no CRI v1 ({0})")]
    NoCri(String),
    /// It does not answer.
    #[error("{0}")]
    Silent(String),
}

impl From<CallError> for NoRuntime {
    fn from(error: CallError) -> Self {
        let said = error.message().to_owned();
        if error.is_unimplemented() { Self::NoCri(said) } else { Self::Silent(said) }
    }
}

/// Asks it.
pub(crate) async fn inquire(channel: Channel) -> Result<RuntimeFound, NoRuntime> {
    let late = |_| NoRuntime::Silent(format!("no answer within {} s", RUNTIME_TIMEOUT.as_secs()));
    timeout(RUNTIME_TIMEOUT, ask(Runtime::new(channel, None))).await.map_err(late)?
}

async fn ask(runtime: Runtime) -> Result<RuntimeFound, NoRuntime> {
    let version = runtime.version().await?;
    let status = runtime.verbose_status().await?;
    let told = runtime.cgroup_driver().await?;
    let driver = told.or_else(|| configured_driver(status.info.get("config").map_or("", String::as_str)));
    let conditions = status.status.into_iter().flat_map(|status| status.conditions);
    let mut broken = conditions.filter(|one| one.r#type == "NetworkReady" && !one.status);
    let network = broken.next().map(|one| one.message);
    let sandboxes = runtime.sandboxes(None).await?.into_iter();
    let pods = sandboxes.filter(|one| one.labels.contains_key(names::POD_UID)).map(|sandbox| {
        let label = |key| sandbox.labels.get(key).map_or("", String::as_str);
        format!("{}/{}", label(names::POD_NAMESPACE), label(names::POD_NAME))
    });
    let pods = pods.collect();
    Ok(RuntimeFound { name: version.runtime_name, version: version.runtime_version, driver, network, pods })
}

/// Who makes control groups by the configuration that containerd tells of itself: what versions before 2.0 tell.
fn configured_driver(config: &str) -> Option<CgroupDriver> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    let containerd = config.get("containerd")?;
    let default = containerd.get("defaultRuntimeName")?.as_str()?;
    let by_systemd = containerd.get("runtimes")?.get(default)?.pointer("/options/SystemdCgroup");
    let by_systemd = by_systemd.and_then(serde_json::Value::as_bool).unwrap_or(false);
    Some(if by_systemd { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerd_tells_by_its_configuration_who_makes_groups() {
        let of = |options: &str| {
            configured_driver(&format!(
                r#"{{"containerd": {{"defaultRuntimeName": "runc", "runtimes": {{"runc": {{"options": {options}}}}}}}}}"#
            ))
        };
        assert_eq!(of(r#"{"SystemdCgroup": true}"#), Some(CgroupDriver::Systemd));
        assert_eq!(of(r#"{"SystemdCgroup": false}"#), Some(CgroupDriver::Cgroupfs));
        assert_eq!(of("null"), Some(CgroupDriver::Cgroupfs));
        for other in ["", "{}", "[]", r#"{"containerd": {}}"#] {
            assert_eq!(configured_driver(other), None, "{other}");
        }
    }
}
