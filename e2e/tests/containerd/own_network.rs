//! Tests with a network of their own, for what has the same address on every node.

use std::process::Command;

use e2e::run;

/// What `test` gives in a new network namespace, in which all is that it starts.
pub(crate) fn in_network_namespace(test: fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    testkit::in_network_namespace(move || {
        ip(&["link", "set", "lo", "up"])?;
        test()
    })
}

/// What the program `ip` prints.
pub(crate) fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    Ok(run(Command::new("ip").args(arguments))?.success()?.text())
}
