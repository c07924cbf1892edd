//! The kernel itself, in network namespaces of their own.

use std::net::{SocketAddr, TcpStream};

use testkit::{in_network_namespace, ip};

use super::{super::tcp, *};

#[test]
fn an_address_is_this_machines_and_is_given_up() {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        let listening = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let routes = Routes::open().unwrap();
        for address in ["10.96.0.10", "fd00::a"] {
            let address: IpAddr = address.parse().unwrap();
            let at = SocketAddr::from((address, 80));
            assert!(TcpStream::connect(at).is_err(), "not yet");
            routes.add(address).unwrap();
            routes.add(address).unwrap();
            let listener = listening.block_on(async { tcp::listen(at) }).unwrap();
            TcpStream::connect(at).unwrap();
            assert_eq!(routes.list().unwrap(), [address].into());
            drop(listener);
            let refused = TcpStream::connect(at).unwrap_err();
            assert_eq!(
                refused.kind(),
                std::io::ErrorKind::ConnectionRefused,
                "at once"
            );
            routes.remove(address).unwrap();
            routes.remove(address).unwrap();
            assert!(routes.list().unwrap().is_empty());
        }
    });
}

#[test]
fn what_is_not_ours_stays() {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        ip(&[
            "route",
            "add",
            "local",
            "10.96.0.1",
            "dev",
            "lo",
            "table",
            "local",
        ]);
        let routes = Routes::open().unwrap();
        routes.add([10, 96, 0, 2].into()).unwrap();
        routes.add([10, 96, 0, 3].into()).unwrap();
        routes.remove([10, 96, 0, 1].into()).unwrap();
        assert_eq!(
            remove_all().unwrap(),
            2,
            "as after an agent that was killed"
        );
        let left = ip(&["route", "show", "table", "local"]);
        assert!(
            left.contains("10.96.0.1") && !left.contains("10.96.0.2") && left.contains("127.0.0.1"),
            "{left}"
        );
    });
}
