//! Sandboxes whose network cannot be taken down. libcni keeps the result of each network that it set up in a file, which it writes
//! in place: a runtime that is killed just then, or a power cut, leaves the file empty or cut short, and from then on libcni
//! before 1.2 refuses to take the network down, for ever. Without the file it goes on, with what the plugins know themselves.
//!
//! Source: CNI's `libcni/api.go`, `DelNetworkList` and `getCacheFilePath`; from 1.2 on libcni removes such a file itself.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    time::Duration,
};

use serde::de::IgnoredAny;

/// Where libcni keeps its results; no runtime configures another place.
const RESULTS: &str = "/var/lib/cni/results";
/// Largest result that is read; one is a few kilobytes.
const MAX_RESULT: u64 = 1024 * 1024;
/// A younger result may be one that libcni is just writing.
const MIN_AGE: Duration = Duration::from_secs(10);

/// Whether the sandbox had a result that cannot be read, and it is gone now: a call that failed to take its network down may be made
/// again.
pub(super) async fn healed(sandbox: &str) -> bool {
    let id = sandbox.to_owned();
    let removed = tokio::task::spawn_blocking(move || remove_broken(Path::new(RESULTS), &id, MIN_AGE)).await;
    match removed {
        Ok(Ok(0)) | Err(_) => false,
        Ok(Ok(_)) => {
            tracing::warn!(
                sandbox,
                "the network's result, cut short by a kill or a power cut, is removed: it could not be taken down"
            );
            true
        }
        // most machines' runtimes keep their results elsewhere, or none at all
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => false,
        Ok(Err(error)) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(sandbox, error, "the network's result in {RESULTS} is not removed");
            false
        }
    }
}

/// Removes the sandbox's results that are no JSON and at least so old; says how many. Links are neither followed nor removed.
fn remove_broken(results: &Path, sandbox: &str, min_age: Duration) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(results)? {
        let entry = entry?;
        if is_of(&entry.file_name().to_string_lossy(), sandbox)
            && entry.file_type()?.is_file()
            && entry.metadata()?.modified()?.elapsed().is_ok_and(|age| age >= min_age)
            && is_broken(&entry.path())?
        {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether a file with this name, `<network>-<sandbox>-<interface>`, is one of the sandbox.
fn is_of(name: &str, sandbox: &str) -> bool {
    name.rsplit_once('-')
        .and_then(|(rest, _interface)| rest.strip_suffix(sandbox))
        .is_some_and(|network| network.len() > 1 && network.ends_with('-'))
}

fn is_broken(path: &Path) -> io::Result<bool> {
    let mut text = Vec::new();
    let length = File::open(path)?.take(MAX_RESULT + 1).read_to_end(&mut text)?;
    // what is larger was never a result, and is not ours to judge
    Ok(length as u64 <= MAX_RESULT && serde_json::from_slice::<IgnoredAny>(&text).is_err())
}

#[cfg(test)]
mod tests;
