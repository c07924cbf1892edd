//! Tests with a network of their own: a network namespace, which only root may make.

use std::{process::Command, thread};

use nix::sched::{CloneFlags, unshare};

/// What `run` gives in a new network namespace, on a thread that ends with it.
pub(crate) fn in_network_namespace<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let inside = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may make a network namespace");
        run()
    };
    thread::spawn(inside).join().unwrap()
}

/// What the program `ip` prints.
pub(crate) fn ip(arguments: &[&str]) -> String {
    let done = Command::new("ip").args(arguments).output().expect("ip (iproute2) is installed");
    assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}
