//! Builds cloudsim's image by the same program as `make image`, from the tested program and the libraries to which it is linked.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use crate::{CLOUDSIM, binary, run};

/// Writes the image as an archive below `directory`, under the name `tag`.
pub fn cloudsim_image(directory: &Path, tag: &str) -> anyhow::Result<PathBuf> {
    let (program, archive) = (directory.join(CLOUDSIM), directory.join("cloudsim.tar"));
    // Most of the program is debug information.
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&program).arg(binary(CLOUDSIM)?);
    run(&mut strip)?
        .success()
        .context("is binutils installed?")?;
    let builder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .with_file_name("image")
        .join("archive.py");
    let mut build = Command::new("python3");
    build.arg(builder).arg("--program").arg(&program).args([
        "--tag",
        tag,
        "--libraries",
        "--level",
        "1",
    ]);
    build.arg("--output").arg(&archive);
    run(&mut build)?.success()?;
    Ok(archive)
}
