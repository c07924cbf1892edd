//! Removes broken files of libcni's result cache. libcni stores the result of each network that it set up in a file, which it
//! writes in place: a runtime that is killed just then, or a power cut, leaves it empty or truncated. From then on libcni before
//! 1.2 fails to tear the network down. Without the file it succeeds, with what the plugins know themselves.
//!
//! Source: CNI's `libcni/api.go`, `DelNetworkList` and `getCacheFilePath`; from 1.2 on libcni removes such a file itself.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    time::Duration,
};

use serde::de::IgnoredAny;

/// libcni's result cache; no runtime configures another directory.
const RESULTS_DIR: &str = "/var/lib/cni/results";
/// Maximum size of a result in bytes; usual ones are a few kilobytes.
const MAX_RESULT_BYTES: u64 = 1024 * 1024;
/// Minimum age of a file to be removed; a younger one may still be being written.
const MIN_AGE: Duration = Duration::from_secs(10);

/// Removes unreadable results of the sandbox and reports whether there were any. If so, tearing down its network may be tried
/// again.
pub(super) async fn removed_broken(sandbox: &str) -> bool {
    let id = sandbox.to_owned();
    let removed =
        componentbase::spawn_blocking(move || remove_broken(Path::new(RESULTS_DIR), &id, MIN_AGE))
            .await;
    match removed {
        Ok(Ok(0)) | Err(_) => false,
        Ok(Ok(_)) => {
            tracing::warn!(
                sandbox,
                "CNI result of the sandbox truncated by a kill or a power cut; result removed"
            );
            true
        }
        // many runtimes keep their results elsewhere, or none at all
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => false,
        Ok(Err(error)) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                sandbox,
                error,
                "failed to remove the broken CNI result in {RESULTS_DIR}"
            );
            false
        }
    }
}

/// Removes the sandbox's results that are not JSON and at least `min_age` old, and returns their number. Links are neither
/// followed nor removed.
fn remove_broken(results: &Path, sandbox: &str, min_age: Duration) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(results)? {
        let entry = entry?;
        if belongs_to(&entry.file_name().to_string_lossy(), sandbox)
            && entry.file_type()?.is_file()
            && entry
                .metadata()?
                .modified()?
                .elapsed()
                .is_ok_and(|age| age >= min_age)
            && is_broken(&entry.path())?
        {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Reports whether a file named `<network>-<sandbox>-<interface>` belongs to the sandbox.
fn belongs_to(name: &str, sandbox: &str) -> bool {
    name.rsplit_once('-')
        .and_then(|(rest, _interface)| rest.strip_suffix(sandbox))
        .is_some_and(|network| network.len() > 1 && network.ends_with('-'))
}

fn is_broken(path: &Path) -> io::Result<bool> {
    let mut text = Vec::new();
    let length = File::open(path)?
        .take(MAX_RESULT_BYTES + 1)
        .read_to_end(&mut text)?;
    // a larger file was not written by libcni and is left alone
    Ok(length as u64 <= MAX_RESULT_BYTES && serde_json::from_slice::<IgnoredAny>(&text).is_err())
}

#[cfg(test)]
mod tests;
