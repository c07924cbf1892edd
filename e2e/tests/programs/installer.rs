//! packaging/install.sh with an archive of a small program: what it installs, and what it refuses.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{ensure_says, run};

const PROGRAM: &str = "#!/bin/sh\necho edge-agent 1.2.3\n";

fn install(folder: &Path, arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("packaging/install.sh");
    let mut command = Command::new(script);
    command.args(arguments).current_dir(folder);
    // what it leaves there is seen
    command.env("TMPDIR", folder.join("tmp"));
    command
}

/// Makes a release in `folder/files`; returns the name of its archive.
fn release(folder: &Path) -> anyhow::Result<String> {
    let files = folder.join("files");
    let root = folder.join("edge-agent-1.2.3");
    for directory in [
        &files,
        &folder.join("tmp"),
        &root.join("usr/bin"),
        &root.join("usr/share/man/man1"),
    ] {
        fs::create_dir_all(directory)?;
    }
    let program = root.join("usr/bin/edge-agent");
    fs::write(&program, PROGRAM)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    fs::write(root.join("usr/share/man/man1/edge-agent.1.gz"), "a page")?;
    let name = format!("edge-agent-1.2.3-{}.tar.zst", std::env::consts::ARCH);
    let mut tar = Command::new("tar");
    tar.args(["--create", "--zstd", "--file"])
        .arg(files.join(&name));
    run(tar.arg("--directory").arg(folder).arg("edge-agent-1.2.3"))?.success()?;
    let sums = run(Command::new("sha256sum").arg(&name).current_dir(&files))?.success()?;
    fs::write(files.join("SHA256SUMS"), sums.text())?;
    fs::remove_dir_all(root)?;
    Ok(name)
}

fn temporary(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder.join("tmp"))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[test]
fn installer_unpacks_what_the_sums_confirm_wherever_it_is_run() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let folder = directory.path();
    release(folder)?;
    let absolute = folder.join("files");
    let absolute = absolute.to_str().context("a path in UTF-8")?;
    for (number, from) in ["files", "./files/", absolute].into_iter().enumerate() {
        for prefix in [
            format!("relative {number}"),
            format!("{}/absolute-{number}", folder.display()),
        ] {
            let said =
                run(&mut install(folder, &["--from", from, "--prefix", &prefix]))?.success()?;
            let place = folder.join(&prefix);
            ensure_says(&said.text(), &["installed", "edge-agent 1.2.3"])?;
            ensure!(fs::read_to_string(place.join("bin/edge-agent"))? == PROGRAM);
            ensure!(
                place.join("share/man/man1/edge-agent.1.gz").exists(),
                "no man page"
            );
            ensure!(temporary(folder)?.is_empty(), "{:?}", temporary(folder)?);
        }
    }
    Ok(())
}

#[test]
fn installer_refuses_what_it_cannot_use_with_the_cause() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let folder = directory.path();
    let name = release(folder)?;
    let sums = folder.join("files/SHA256SUMS");
    let right = fs::read_to_string(&sums)?;
    let newer = right.replace("1.2.3", "1.3.0");
    let outside = right.replace("edge-agent-1.2.3", "../edge-agent-1.2.3");
    for (sums_text, arguments, cause) in [
        (right.as_str(), &[][..], "--from is missing"),
        (&right, &["--from"], "--from needs a value"),
        (
            &right,
            &["--from", "nowhere"],
            "nowhere is neither a directory nor an address",
        ),
        (
            &right,
            &["--from", "files", "edge-agnet"],
            "unknown argument edge-agnet",
        ),
        (
            &right,
            &["--from", "files", "--prefix", "files/SHA256SUMS"],
            "cannot create files/SHA256SUMS",
        ),
        (
            &right,
            &["--from", "files", "cloudsim"],
            "SHA256SUMS has no cloudsim",
        ),
        (
            &format!("{right}{newer}"),
            &["--from", "files"],
            "2 versions of edge-agent",
        ),
        (
            &outside,
            &["--from", "files"],
            "SHA256SUMS has no edge-agent",
        ),
        ("", &["--from", "files"], "SHA256SUMS has no edge-agent"),
    ] {
        fs::write(&sums, sums_text)?;
        let refused = run(&mut install(folder, arguments))?.failure()?;
        ensure_says(&refused, &[cause])?;
        ensure!(
            temporary(folder)?.is_empty(),
            "{arguments:?}: {:?}",
            temporary(folder)?
        );
    }
    fs::write(&sums, right)?;
    fs::write(folder.join("files").join(name), "something else")?;
    let damaged = run(&mut install(folder, &["--from", "files", "--prefix", "p"]))?.failure()?;
    ensure_says(&damaged, &["is damaged"])?;
    ensure!(!folder.join("p/bin").exists(), "installed all the same");
    Ok(())
}
