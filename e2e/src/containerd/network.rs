//! A bridge and a range of addresses for one containerd; many may run beside each other.

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::json;

use crate::run;

/// How many subnets of 256 addresses there are from 10.192.0.0 to 10.255.255.0.
const SUBNETS: u32 = 64 * 256;
/// How many networks one process may have before it meets those of another.
const SHARE: u32 = 4;

/// The number of networks that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A bridge, made by the CNI plugin with the first pod.
#[derive(Debug)]
pub(super) struct Network {
    bridge: String,
    subnet: String,
}

impl Network {
    pub(super) fn new() -> anyhow::Result<Self> {
        let number = std::process::id() * SHARE + MADE.fetch_add(1, Ordering::Relaxed) % SHARE;
        let index = number % SUBNETS;
        let network = Self {
            bridge: format!("oe{number:x}"),
            subnet: format!("10.{}.{}.0/24", 192 + index / 256, index % 256),
        };
        Ok(network)
    }

    pub(super) fn bridge(&self) -> &str {
        &self.bridge
    }

    /// What CNI reads.
    pub(super) fn configuration(&self, home: &Path) -> String {
        let addresses = json!({
            "type": "host-local",
            "dataDir": home.join("addresses"),
            "ranges": [[{"subnet": self.subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        });
        let bridge = json!({"type": "bridge", "bridge": self.bridge, "isGateway": true, "ipam": addresses});
        let ports = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        json!({"cniVersion": "0.4.0", "name": self.bridge, "plugins": [bridge, ports]}).to_string()
    }

    /// Takes the bridge away, if there ever was a pod.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        if Path::new("/sys/class/net").join(&self.bridge).exists() {
            run(Command::new("ip").args(["link", "delete", &self.bridge]))?.success()?;
        }
        Ok(())
    }
}
