//! The kernel itself tells: an address is given to the loopback interface of a network namespace of its own.

use std::{process::Command, time::Duration};

use super::*;

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().expect("ip (iproute2) is installed");
    assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A network namespace that goes with it.
struct Namespace(String);

impl Namespace {
    fn new() -> Self {
        let name = format!("edgehub-{}", std::process::id());
        ip(&["netns", "add", &name]);
        Self(name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

/// A socket opened in the namespace goes on telling of it, whichever thread reads.
fn opened_in(namespace: &Namespace) -> StdDatagram {
    let path = format!("/run/netns/{}", namespace.0);
    std::thread::spawn(move || {
        let file = std::fs::File::open(path).unwrap();
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        open().unwrap()
    })
    .join()
    .unwrap()
}

#[tokio::test]
async fn addresses_carriers_and_default_routes_are_told() {
    let namespace = Namespace::new();
    let socket = UnixDatagram::from_std(opened_in(&namespace)).unwrap();
    let (watcher, mut network) = Watcher::new();
    let followed = tokio::spawn(async move { watcher.follow(socket).await });
    let within = |network: Network| async move {
        let mut network = network;
        tokio::time::timeout(Duration::from_secs(60), network.changed()).await
    };
    ip(&["-n", &namespace.0, "address", "add", "198.51.100.1/24", "dev", "lo"]);
    assert!(within(network.clone()).await.is_ok(), "the address was not told");
    network.0.mark_unchanged();
    ip(&["-n", &namespace.0, "link", "set", "lo", "up"]);
    assert!(within(network.clone()).await.is_ok(), "the carrier was not told");
    network.0.mark_unchanged();
    ip(&["-n", &namespace.0, "route", "add", "default", "dev", "lo"]);
    assert!(within(network.clone()).await.is_ok(), "the default route was not told");
    followed.abort();
}
