//! Finds the built programs: `target/<profile>`, which is a benchmark's directory, or the parent of a test's directory `deps`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

/// The cloud's program.
pub const CLOUDSIM: &str = "cloudsim";
/// The node's program.
pub const AGENT: &str = "edge-agent";

/// Returns the path of the program called `name`.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let mut directory = own.parent().context("this executable is in no directory")?;
    if directory.ends_with("deps") {
        directory = directory
            .parent()
            .context("this test's executable is in no target directory")?;
    }
    let path = directory.join(name);
    ensure!(
        path.is_file(),
        "{} is not there: run `cargo build -p hollow -p agent` and `cargo build -p mapper --examples` first",
        path.display()
    );
    Ok(path)
}

/// Returns the path of the mapper library's example called `name`.
pub fn mapper_example(name: &str) -> anyhow::Result<PathBuf> {
    binary(&format!("examples/{name}"))
}

/// Returns the path of a program that `make needs` installs.
pub fn installed_program(name: &str) -> anyhow::Result<PathBuf> {
    testkit::installed_program(name)
        .with_context(|| format!("{name} is not installed: run `make needs` first"))
}

/// Returns the command of a Python program in `e2e/python`. The `kubectl` that it finds is the one of all tests.
pub fn python(program: &str) -> anyhow::Result<Command> {
    let interpreter = installed_program("python")?;
    let mut directories = vec![testkit::kubectl()];
    directories[0].pop();
    directories.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let mut command = Command::new(interpreter);
    command.arg("-B").arg(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("python")
            .join(program),
    );
    command.env("PATH", std::env::join_paths(directories)?);
    Ok(command)
}

/// Returns the directory of the packages of Node.js that `make needs` installs.
pub fn node_modules() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    own.ancestors()
        .map(|directory| directory.join("node/node_modules"))
        .find(|path| path.join("playwright-core").exists())
        .context("playwright-core is not installed: run `make needs` first")
}

/// Returns the directory of the project's example manifests.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples")
}
