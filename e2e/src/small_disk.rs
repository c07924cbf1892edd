//! A small disk in memory, which a test fills.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// A disk in memory; it is unmounted when this is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    place: PathBuf,
}

impl SmallDisk {
    /// Mounts it at a new directory. `options` are those of tmpfs(5).
    pub fn mount(place: &Path, options: &str) -> anyhow::Result<Self> {
        fs::create_dir(place)?;
        mount(
            Some("tmpfs"),
            place,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options),
        )
        .context("a small disk needs root")?;
        Ok(Self {
            place: place.to_owned(),
        })
    }

    /// Writes a file until nothing more fits; returns its path.
    pub fn fill(&self) -> anyhow::Result<PathBuf> {
        let path = self.place.join("full");
        let mut file = fs::File::create(&path)?;
        for size in [1 << 20, 4096, 1] {
            let block = vec![0_u8; size];
            while file.write_all(&block).is_ok() {}
        }
        Ok(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // what is still open keeps it until it is closed
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
    }
}
