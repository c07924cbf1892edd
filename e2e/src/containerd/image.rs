//! Images made from the machine's static busybox, so that nothing is downloaded.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use serde_json::json;

use crate::run;

/// An image with all of busybox's programs in `/bin`. It runs for ever, and ends on SIGTERM.
pub const IMAGE: &str = "docker.io/e2e/busybox:1";
/// The image of sandboxes.
pub const PAUSE: &str = "docker.io/e2e/pause:1";

/// The first process of a container has no default action for SIGTERM: without the trap every stop would take its whole grace period.
const RUN_FOR_EVER: &str = "trap 'exit 0' TERM; sleep 2147483647 & wait";
/// The file name of the layer.
const LAYER: &str = "layer.tar";

/// Writes the one layer of most images, below `home`; returns its path.
pub(super) fn layer(home: &Path) -> anyhow::Result<PathBuf> {
    let root = home.join("rootfs");
    root_file_system(&root)?;
    pack(&root, home.join(LAYER))
}

/// Writes a layer with these files: their paths in the image, and where they are now.
pub(super) fn layer_of(home: &Path, files: &[(&str, &Path)]) -> anyhow::Result<PathBuf> {
    let root = tempfile::tempdir_in(home)?;
    for (path, file) in files {
        let target = root.path().join(path);
        fs::create_dir_all(target.parent().context("a file without a directory")?)?;
        fs::copy(file, target)?;
    }
    pack(root.path(), home.join(format!("other-{LAYER}")))
}

fn pack(root: &Path, layer: PathBuf) -> anyhow::Result<PathBuf> {
    run(Command::new("tar")
        .args(["--sort=name", "-cf"])
        .arg(&layer)
        .arg("-C")
        .arg(root)
        .arg("."))?
    .success()?;
    Ok(layer)
}

fn root_file_system(root: &Path) -> anyhow::Result<()> {
    for directory in ["bin", "dev", "etc", "proc", "root", "sys", "tmp", "var"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let busybox = Path::new("/bin/busybox");
    fs::copy(busybox, root.join("bin/busybox"))
        .context("is busybox-static installed? `make needs` does it")?;
    let programs = run(Command::new(busybox).arg("--list"))?.success()?.text();
    for program in programs.lines().filter(|name| *name != "busybox") {
        symlink("busybox", root.join("bin").join(program))?;
    }
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n",
    )?;
    fs::write(root.join("etc/group"), "root:x:0:\nuser:x:1000:\n")?;
    Ok(())
}

/// Writes an image of this name as an archive in the format of `docker save`, with a directory of its own for the parts.
pub(super) fn archive(home: &Path, name: &str, layer: &Path) -> anyhow::Result<PathBuf> {
    let digest = run(Command::new("sha256sum").arg(layer))?.success()?.text();
    let digest = digest
        .split_whitespace()
        .next()
        .context("sha256sum says nothing")?;
    let (_, short) = name
        .rsplit_once('/')
        .context("an image without a repository")?;
    let parts = home.join(short.replace(':', "-"));
    fs::create_dir_all(&parts)?;
    fs::hard_link(layer, parts.join(LAYER))?;
    let config = json!({
        "architecture": std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64"),
        "os": "linux",
        "config": {"Cmd": ["/bin/sh", "-c", RUN_FOR_EVER], "Env": ["PATH=/bin"], "Labels": {"image": short}},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": [LAYER]}]);
    fs::write(parts.join("config.json"), config.to_string())?;
    fs::write(parts.join("manifest.json"), manifest.to_string())?;
    let archive = parts.with_extension("tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&archive).arg("-C").arg(&parts).args([
        "manifest.json",
        "config.json",
        LAYER,
    ]);
    run(&mut tar)?.success()?;
    Ok(archive)
}
