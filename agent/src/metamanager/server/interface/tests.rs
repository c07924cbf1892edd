//! The kernel itself, in network namespaces of their own.

use testkit::{in_network_namespace, ip};

use super::*;

#[test]
fn the_interface_is_made_once_and_reached() {
    in_network_namespace(|| {
        for address in ["169.254.30.10", "fd00::30:10"] {
            let address: IpAddr = address.parse().unwrap();
            ensure(address).unwrap();
            assert!(has_address(address).unwrap());
            // a second call changes nothing
            ensure(address).unwrap();
            let listener = std::net::TcpListener::bind((address, 0)).unwrap();
            ip(&["link", "set", "lo", "up"]);
            // the kernel adds the route to an IPv6 address a moment after the address
            let has_way = || ip(&["route", "get", &address.to_string()]).starts_with("local");
            assert!((0..1000).any(|_| has_way()), "no way to {address}");
            std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        }
        let shown = ip(&["-oneline", "address", "show", "dev", INTERFACE_NAME]);
        assert!(shown.contains("169.254.30.10/32 scope link"), "{shown}");
        assert!(ip(&["link", "show", "dev", INTERFACE_NAME]).contains("UP"));
    });
}

#[test]
fn existing_interfaces_are_not_changed() {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        ip(&["address", "add", "169.254.30.10/16", "dev", "lo"]);
        ensure([169, 254, 30, 10].into()).unwrap();
        assert!(
            if_nametoindex(INTERFACE_NAME).is_err(),
            "the address is on another interface"
        );
        // an interface without the address gets it
        ip(&["link", "add", INTERFACE_NAME, "type", "bridge"]);
        ensure([169, 254, 30, 11].into()).unwrap();
        assert!(
            ip(&["-oneline", "address", "show", "dev", INTERFACE_NAME])
                .contains("169.254.30.11/32")
        );
        ensure([127, 0, 0, 9].into()).unwrap();
    });
}

#[test]
fn without_the_capability_the_error_names_the_cure() {
    let text = system_error("be made", [169, 254, 30, 10].into(), Errno::EPERM).to_string();
    assert!(
        text.contains("CAP_NET_ADMIN") && text.contains("ip link add edge-dummy0 type dummy"),
        "{text}"
    );
}

#[test]
fn only_added_addresses_are_removed() {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        let (dns, pods): (IpAddr, IpAddr) = ([169, 254, 96, 16].into(), [169, 254, 30, 10].into());
        remove(&[dns, pods]).unwrap();
        for _ in 0..2 {
            ensure(dns).unwrap();
            ensure(pods).unwrap();
            remove(&[dns, pods]).unwrap();
            assert!(
                if_nametoindex(INTERFACE_NAME).is_err(),
                "it was made for these addresses alone"
            );
        }
        ip(&["address", "add", "169.254.30.10/32", "dev", "lo"]);
        ip(&["link", "add", INTERFACE_NAME, "type", "bridge"]);
        ip(&["address", "add", "192.0.2.9/32", "dev", INTERFACE_NAME]);
        ensure(dns).unwrap();
        remove(&[dns, pods]).unwrap();
        let left = ip(&["-oneline", "address", "show"]);
        assert!(
            left.contains("169.254.30.10/32") && left.contains("192.0.2.9/32"),
            "others' addresses stay: {left}"
        );
        assert!(!left.contains("169.254.96.16"), "{left}");
    });
}
