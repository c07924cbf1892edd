//! Tests in a network namespace of their own, which only root may create.

use std::{process::Command, thread};

use nix::sched::{CloneFlags, unshare};

/// Executes `run` in a new network namespace, on a thread that ends with it.
pub(crate) fn in_network_namespace<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let inside = move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may make a network namespace");
        run()
    };
    thread::spawn(inside).join().unwrap()
}

/// Returns the output of the program `ip`.
pub(crate) fn ip(arguments: &[&str]) -> String {
    let done = Command::new("ip").args(arguments).output().expect("ip (iproute2) is installed");
    assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}
