//! Questions of machines of the node's network, which send them to the server's address by way of the node.

use std::{net::UdpSocket as StdUdpSocket, sync::mpsc, thread};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::gettid,
};
use testkit::{in_network_namespace, ip};

use super::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(169, 254, 96, 16);

/// Asks the server from a machine of its own with this address, at the end `far` of a cable to the node.
fn ask_from(
    far: &'static str,
    (address, node): (&'static str, &'static str),
    server: SocketAddr,
) -> Message {
    let (tell, told) = mpsc::channel();
    let (connect, connected) = mpsc::channel();
    let machine = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        tell.send(gettid()).unwrap();
        connected.recv().unwrap();
        ip(&["addr", "add", address, "dev", far]);
        ip(&["link", "set", far, "up"]);
        ip(&["route", "add", &format!("{SERVER}/32"), "via", node]);
        let socket = StdUdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
        let packet = question("web.shop.svc.cluster.local.", RecordType::A)
            .to_vec()
            .unwrap();
        socket.send_to(&packet, server).unwrap();
        let mut reply = [0; 4096];
        let (length, _) = socket.recv_from(&mut reply).expect("no answer");
        Message::from_vec(&reply[..length]).unwrap()
    });
    ip(&[
        "link",
        "set",
        far,
        "netns",
        &told.recv().unwrap().to_string(),
    ]);
    connect.send(()).unwrap();
    machine.join().unwrap()
}

#[test]
fn machines_of_the_nodes_network_are_refused_and_pods_are_not() {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        ip(&["addr", "add", &format!("{SERVER}/32"), "dev", "lo"]);
        for (near, far, address) in [
            ("lan", "host", "192.168.77.10/24"),
            ("pods", "pod", "10.22.0.1/16"),
        ] {
            ip(&["link", "add", near, "type", "veth", "peer", "name", far]);
            ip(&["addr", "add", address, "dev", near]);
            ip(&["link", "set", near, "up"]);
        }
        ip(&["route", "add", "default", "via", "192.168.77.1"]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = start_at(SERVER, Vec::new(), "/nonexistent".into(), snapshot());
            let address = server.address;
            let asking = async |far, addresses| {
                clock::spawn_blocking(move || ask_from(far, addresses, address))
                    .await
                    .unwrap()
            };
            let refused = asking("host", ("192.168.77.20/24", "192.168.77.10")).await;
            assert_eq!(refused.metadata.response_code, ResponseCode::Refused);
            assert!(refused.answers.is_empty());
            let answered = asking("pod", ("10.22.0.5/16", "10.22.0.1")).await;
            assert_eq!(addresses(&answered), ["10.96.0.10"]);
            let own = ask(address, "web.shop.svc.cluster.local.", RecordType::A).await;
            assert_eq!(addresses(&own), ["10.96.0.10"]);
        });
    });
}
