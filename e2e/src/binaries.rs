//! Finds the built programs: `target/<profile>`, which is a benchmark's directory, or the parent of a test's directory `deps`.

use std::path::{Path, PathBuf};

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
        directory = directory.parent().context("this test's executable is in no target directory")?;
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

/// Returns the path of a program that `make needs` installs, two directories above that of the built programs.
pub fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let program = binary(CLOUDSIM)?;
    let built = program.parent().and_then(Path::parent).context("the programs are in no target directory")?;
    let path = built.join("python/bin").join(name);
    ensure!(path.exists(), "{} is not there: run `make needs` first", path.display());
    Ok(path)
}

/// Returns the directory of the project's example manifests.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("examples")
}
