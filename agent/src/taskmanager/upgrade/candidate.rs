//! The new program: copied out of an image, and examined before the first run.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use ring::digest::{Context, SHA256};
use tokio::{
    io::AsyncReadExt,
    process::Command,
    time::{sleep, timeout},
};
use wire::text::printable_short;

use super::image::open_file;

/// Where images have the program: the place of EdgeCore in KubeEdge's images, that of packages, and that of this project's images.
const PROGRAMS: [&str; 3] = [
    "usr/local/bin/edge-agent",
    "usr/bin/edge-agent",
    "edge-agent",
];
/// Where KubeEdge's images have EdgeCore.
const EDGECORE: &str = "usr/local/bin/edgecore";
/// The largest program, bytes.
const MAX_BYTES: u64 = 1 << 30;
/// The bytes of an ELF file that name the processor: its class, byte order and machine.
const HEADER: usize = 20;
/// How long `--version` may take.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// The most bytes of its output.
const MAX_OUTPUT: u64 = 4096;
/// How often a program that is just written by another process is tried, and the pause.
const BUSY_ATTEMPTS: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Copies the program out of the layers of an image to `target`; returns its digest.
pub(super) fn extract(image: &str, layers: &[PathBuf], target: &Path) -> Result<String, String> {
    let mut found = None;
    for path in PROGRAMS {
        found = open_file(layers, path)?;
        if found.is_some() {
            break;
        }
    }
    let Some(mut program) = found else {
        return Err(match open_file(layers, EDGECORE)? {
            Some(_) => format!(
                "{image} contains EdgeCore, not edge-agent; edge-agent cannot be upgraded to EdgeCore"
            ),
            None => format!("{image} has no program /usr/local/bin/edge-agent"),
        });
    };
    let own = header(&mut open("/proc/self/exe".as_ref())?).map_err(|error| error.to_string())?;
    let failed = |error: io::Error| format!("cannot write {}: {error}", target.display());
    let mut first = header(&mut program).map_err(|error| error.to_string())?;
    if class_and_machine(&first) != class_and_machine(&own) {
        return Err(format!(
            "the edge-agent of {image} is not for this machine's processor ({})",
            std::env::consts::ARCH
        ));
    }
    first.truncate(HEADER);
    // a leftover file may be running, or a link
    super::super::journal::remove(target);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(target)
        .map_err(failed)?;
    file.write_all(&first).map_err(failed)?;
    let copied = io::copy(&mut program.take(MAX_BYTES), &mut file).map_err(failed)?;
    if copied >= MAX_BYTES {
        return Err(format!(
            "the edge-agent of {image} is larger than {MAX_BYTES} bytes"
        ));
    }
    file.set_permissions(fs::Permissions::from_mode(0o755))
        .and_then(|()| file.sync_all())
        .map_err(failed)?;
    digest_of(target).map_err(failed)
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reads the first bytes of a program; fewer of a shorter file.
fn header(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(HEADER as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns what the header of an ELF file says of the processor; `None` for other files.
fn class_and_machine(header: &[u8]) -> Option<(&[u8], &[u8])> {
    header.starts_with(b"\x7fELF").then_some(())?;
    Some((header.get(4..6)?, header.get(18..20)?))
}

/// Returns the SHA-256 digest of a file, in hexadecimal.
pub(super) fn digest_of(path: &Path) -> io::Result<String> {
    let (mut file, mut context) = (File::open(path)?, Context::new(&SHA256));
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => context.update(buffer.get(..read).unwrap_or_default()),
        }
    }
    let digest = context.finish();
    Ok(digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Asks the program for its version, which must be the wanted one.
pub(super) async fn check_version(program: &Path, wanted: &str) -> Result<(), String> {
    let failed = |why: &str| format!("the new edge-agent does not report its version: {why}");
    let mut attempt = 0;
    let mut child = loop {
        let spawned = Command::new(program)
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        match spawned {
            // another thread has just started a program, which inherited the file for a moment
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                attempt += 1;
                if attempt > BUSY_ATTEMPTS {
                    return Err(failed(&error.to_string()));
                }
                sleep(BUSY_PAUSE).await;
            }
            other => break other.map_err(|error| failed(&error.to_string()))?,
        }
    };
    let mut output = Vec::new();
    let stdout = child.stdout.take();
    let run = async {
        if let Some(stdout) = stdout {
            stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
        }
        child.wait().await
    };
    let status = timeout(VERSION_TIMEOUT, run)
        .await
        .map_err(|_| failed(&format!("no answer within {} s", VERSION_TIMEOUT.as_secs())))?
        .map_err(|error| failed(&error.to_string()))?;
    if !status.success() {
        return Err(failed(&status.to_string()));
    }
    let text = String::from_utf8_lossy(&output);
    let line = text.lines().next().unwrap_or_default();
    let number = wanted.strip_prefix('v').unwrap_or(wanted);
    if line == format!("edge-agent {number}") {
        return Ok(());
    }
    Err(format!(
        "the program of the image reports \"{}\", not edge-agent {number}",
        printable_short(line)
    ))
}
