//! A bridge and a range of addresses for one containerd; several may run at the same time.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context;
use serde_json::json;

use super::proc_file::read;
use crate::{ports, run};

/// The number of subnets of 256 addresses from 10.192.0.0 to 10.255.255.0.
const SUBNETS: u32 = 64 * 256;
/// How many networks one process may have before its numbers collide with those of another.
const SHARE: u32 = 4;

/// How much further the next candidate is if a subnet is taken, by the machine or by what a killed test has left.
const STEP: usize = 2048;

/// The directory of libcni, which cannot be configured.
const RESULTS: &str = "/var/lib/cni/results";

/// The number of networks that this process has created.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A bridge, which the CNI plugin creates with the first pod.
#[derive(Debug)]
pub(super) struct Network {
    bridge: String,
    subnet: String,
}

impl Network {
    pub(super) fn new() -> anyhow::Result<Self> {
        let made = MADE.fetch_add(1, Ordering::Relaxed) % SHARE;
        let number = std::process::id() * SHARE + made;
        // The share is used instead of the process id, which is soon reused on a machine that runs many tests.
        let first = u32::from(ports::mine()?) * SHARE + made;
        let routes = read("/proc/net/route")?;
        let subnet = (first..SUBNETS)
            .step_by(STEP)
            .map(subnet)
            .find(|subnet| !leads_to(&routes, *subnet));
        let [_, high, low, _] = subnet.context("all subnets of the test are taken")?;
        Ok(Self {
            bridge: format!("oe{number:x}"),
            subnet: format!("10.{high}.{low}.0/24"),
        })
    }

    pub(super) fn bridge(&self) -> &str {
        &self.bridge
    }

    /// Returns the CNI configuration.
    pub(super) fn configuration(&self, home: &Path) -> String {
        let addresses = json!({
            "type": "host-local",
            "dataDir": home.join("addresses"),
            "ranges": [[{"subnet": self.subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        });
        let bridge =
            json!({"type": "bridge", "bridge": self.bridge, "isGateway": true, "ipam": addresses});
        let ports = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        json!({"cniVersion": "0.4.0", "name": self.bridge, "plugins": [bridge, ports]}).to_string()
    }

    /// Returns the file with libcni's result for a sandbox's network, in the directory of all runtimes' results.
    pub(super) fn result(&self, sandbox: &str) -> PathBuf {
        Path::new(RESULTS).join(format!("{}-{sandbox}-eth0", self.bridge))
    }

    /// Removes the bridge, if there ever was a pod.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        if Path::new("/sys/class/net").join(&self.bridge).exists() {
            run(Command::new("ip").args(["link", "delete", &self.bridge]))?.success()?;
        }
        Ok(())
    }
}

/// Returns the first address of a subnet.
fn subnet(index: u32) -> [u8; 4] {
    let [_, _, high, low] = index.to_be_bytes();
    [10, 192 + high, low, 0]
}

/// Reports whether a route of the machine, in the text of `/proc/net/route`, leads to exactly this subnet.
fn leads_to(routes: &str, subnet: [u8; 4]) -> bool {
    let shown = format!("{:08X}", u32::from_ne_bytes(subnet));
    routes
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some(&shown))
}
