//! A bridge and a range of addresses for one containerd; many may run beside each other.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context;
use serde_json::json;

use super::proc_file::read;
use crate::{ports, run};

/// How many subnets of 256 addresses there are from 10.192.0.0 to 10.255.255.0.
const SUBNETS: u32 = 64 * 256;
/// How many networks one process may have before it meets those of another.
const SHARE: u32 = 4;

/// A subnet that is taken, by the machine or by what a killed test has left, gives way to the one so many further.
const STEP: usize = 2048;

/// libcni's; it cannot be configured.
const RESULTS: &str = "/var/lib/cni/results";

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
        let made = MADE.fetch_add(1, Ordering::Relaxed) % SHARE;
        let number = std::process::id() * SHARE + made;
        // by its share, since numbers of processes come again before a machine has made many tests
        let first = u32::from(ports::mine()?) * SHARE + made;
        let routes = read("/proc/net/route")?;
        let subnet = (first..SUBNETS).step_by(STEP).map(subnet).find(|subnet| !leads_to(&routes, *subnet));
        let [_, high, low, _] = subnet.context("all subnets of the test are taken")?;
        Ok(Self { bridge: format!("oe{number:x}"), subnet: format!("10.{high}.{low}.0/24") })
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

    /// What libcni keeps of a sandbox's network, where it keeps those of all runtimes.
    pub(super) fn result(&self, sandbox: &str) -> PathBuf {
        Path::new(RESULTS).join(format!("{}-{sandbox}-eth0", self.bridge))
    }

    /// Takes the bridge away, if there ever was a pod.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        if Path::new("/sys/class/net").join(&self.bridge).exists() {
            run(Command::new("ip").args(["link", "delete", &self.bridge]))?.success()?;
        }
        Ok(())
    }
}

/// The first address of a subnet.
fn subnet(index: u32) -> [u8; 4] {
    let [_, _, high, low] = index.to_be_bytes();
    [10, 192 + high, low, 0]
}

/// Whether a route of the machine, from the text of `/proc/net/route`, leads to just this subnet.
fn leads_to(routes: &str, subnet: [u8; 4]) -> bool {
    let shown = format!("{:08X}", u32::from_ne_bytes(subnet));
    routes.lines().any(|line| line.split_whitespace().nth(1) == Some(&shown))
}
