//! Mounts below the directory of a test: those of Secrets stay after the agent was killed, and the directory could not be removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nix::mount::{MntFlags, umount2};

/// Unmounts everything below a directory when it is dropped, after the programs that use it.
#[derive(Debug)]
pub struct Mounts(PathBuf);

impl Mounts {
    /// Returns those below `directory`.
    pub fn below(directory: &Path) -> Self {
        Self(directory.to_owned())
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for point in mounts(&self.0).unwrap_or_default() {
            let _ = umount2(&point, MntFlags::MNT_DETACH);
        }
    }
}

/// Returns the mounts below a directory, the newest first.
pub(crate) fn mounts(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mountinfo")?;
    let points = text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from);
    let mut below: Vec<_> = points
        .filter(|point| point.starts_with(directory))
        .collect();
    below.reverse();
    Ok(below)
}
