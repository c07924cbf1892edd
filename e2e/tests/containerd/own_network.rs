//! Tests with a network of their own, for what has the same address on every node.

use std::{process::Command, thread};

use anyhow::{Context, anyhow};
use e2e::run;
use nix::sched::{CloneFlags, unshare};

/// What `test` gives in a new network namespace, in which all is that it starts.
pub(crate) fn in_network_namespace(test: fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let inside = move || {
        unshare(CloneFlags::CLONE_NEWNET).context("root may make a network namespace")?;
        ip(&["link", "set", "lo", "up"])?;
        test()
    };
    thread::spawn(inside).join().map_err(|_| anyhow!("the test's thread panicked"))?
}

/// What the program `ip` prints.
pub(crate) fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    Ok(run(Command::new("ip").args(arguments))?.success()?.text())
}
