//! The kernel's own notices: an address is added to the loopback interface of a network namespace.

use testkit::{eventually, ip, within};
use tokio::time::timeout;

use super::*;

/// The offset of the prefix length in a notice of a route.
const HEADER_AND_LENGTH: usize = 17;

/// A network namespace that is deleted on drop.
struct Namespace(String);

impl Namespace {
    fn new(which: &str) -> Self {
        let name = format!("edgehub-{which}-{}", std::process::id());
        ip(&["netns", "add", &name]);
        Self(name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

/// Opens a socket in the namespace; it stays there whichever thread reads.
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
async fn changes_of_addresses_carriers_and_default_routes_are_reported() {
    let namespace = Namespace::new("told");
    let socket = UnixDatagram::from_std(opened_in(&namespace)).unwrap();
    let (watcher, mut network) = Watcher::new();
    let followed = tokio::spawn(async move { watcher.follow(socket).await });
    ip(&[
        "-n",
        &namespace.0,
        "address",
        "add",
        "198.51.100.1/24",
        "dev",
        "lo",
    ]);
    within("a notice of the address", network.clone().changed()).await;
    network.0.mark_unchanged();
    ip(&["-n", &namespace.0, "link", "set", "lo", "up"]);
    within("a notice of the carrier", network.clone().changed()).await;
    network.0.mark_unchanged();
    ip(&["-n", &namespace.0, "route", "add", "default", "dev", "lo"]);
    within("a notice of the default route", network.clone().changed()).await;
    followed.abort();
}

/// Receives until a notice is relevant; `looked` gets each.
async fn until_matters(
    notices: &mut Notices,
    socket: &UnixDatagram,
    mut looked: impl FnMut(&[u8]) -> bool,
) {
    let mut datagram = vec![0; MAX_DATAGRAM_BYTES];
    within("a notice that matters", async {
        loop {
            let size = socket.recv(&mut datagram).await.unwrap();
            let matters = notices.is_relevant(&datagram[..size]);
            if looked(&datagram[..size]) && matters {
                return;
            }
        }
    })
    .await;
}

/// The addresses and routes stay as they are: only the link's notice says it, and not what has changed.
#[tokio::test]
async fn an_unplugged_cable_is_reported() {
    let (here, there) = (Namespace::new("here"), Namespace::new("there"));
    let socket = UnixDatagram::from_std(opened_in(&here)).unwrap();
    ip(&[
        "-n", &here.0, "link", "add", "up0", "type", "veth", "peer", "name", "far0", "netns",
        &there.0,
    ]);
    ip(&[
        "-n",
        &here.0,
        "address",
        "add",
        "198.51.100.1/24",
        "dev",
        "up0",
    ]);
    ip(&["-n", &here.0, "link", "set", "up0", "up"]);
    ip(&["-n", &there.0, "link", "set", "far0", "up"]);
    eventually("the link is up", async || {
        let shown = ip(&["-n", &here.0, "link", "show", "up0"]);
        if shown.contains("state UP") {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await;
    // whatever comes before this route belongs to the setup
    ip(&[
        "-n",
        &here.0,
        "route",
        "add",
        "default",
        "via",
        "198.51.100.2",
    ]);
    let mut notices = Notices::default();
    let is_default_route = |datagram: &[u8]| datagram[4] == 24 && datagram[HEADER_AND_LENGTH] == 0;
    until_matters(&mut notices, &socket, is_default_route).await;
    ip(&["-n", &there.0, "link", "set", "far0", "down"]);
    until_matters(&mut notices, &socket, |_| true).await;
    ip(&["-n", &there.0, "link", "set", "far0", "up"]);
    until_matters(&mut notices, &socket, |_| true).await;
}

/// Builds a notice of a new address; see `notice`.
fn notice_of_address() -> Vec<u8> {
    [
        &24_u32.to_ne_bytes()[..],
        &20_u16.to_ne_bytes(),
        &[0; 10],
        &[2, 24, 0, 0, 1, 0, 0, 0],
    ]
    .concat()
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_one_hint() {
    let (kernel, socket) = UnixDatagram::pair().unwrap();
    let (watcher, mut network) = Watcher::new();
    for _ in 0..20 {
        kernel.send(&notice_of_address()).await.unwrap();
    }
    let followed = tokio::spawn(async move { watcher.follow(socket).await });
    network.changed().await;
    assert!(
        timeout(10 * DEBOUNCE_PERIOD, network.changed())
            .await
            .is_err(),
        "the burst was told twice"
    );
    kernel.send(&notice_of_address()).await.unwrap();
    network.changed().await;
    followed.abort();
}
