//! Networks of tests: a network namespace of their own, and packets with forged sources. Both need root.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    panic::resume_unwind,
    process::Command,
    thread,
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket,
        sockopt::IpTransparent,
    },
};

/// The port from which [`forged_udp`] sends.
const FORGED_PORT: u16 = 1053;

/// Executes `run` in a new network namespace, on a thread that ends with it.
///
/// # Panics
/// `run` does, or this is not root.
pub fn in_network_namespace<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let inside = move || {
        let made = unshare(CloneFlags::CLONE_NEWNET);
        assert!(
            made.is_ok(),
            "only root may make a network namespace: {made:?}"
        );
        run()
    };
    thread::spawn(inside)
        .join()
        .unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns the output of the program `ip`.
///
/// # Panics
/// It is not installed, or fails.
pub fn ip(arguments: &[&str]) -> String {
    let done = Command::new("ip").args(arguments).output();
    let Ok(done) = done else {
        panic!("ip (iproute2) cannot be started: {done:?}")
    };
    assert!(
        done.status.success(),
        "ip {arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Returns a UDP socket that sends as if it had the address `source`.
///
/// # Panics
/// This is not root.
pub fn forged_udp(source: Ipv4Addr) -> UdpSocket {
    let made = || {
        let forged = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::empty(),
            None,
        )?;
        setsockopt(&forged, IpTransparent, &true)?;
        bind(
            forged.as_raw_fd(),
            &SockaddrStorage::from(SocketAddr::from((source, FORGED_PORT))),
        )?;
        Ok::<UdpSocket, nix::Error>(forged.into())
    };
    made().unwrap_or_else(|error| panic!("only root may forge {source}: {error}"))
}
