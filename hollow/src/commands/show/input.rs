//! Opens recordings: regular files, stdin, and files that are still written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::Duration,
};

use anyhow::Context;
use limits::open_regular_file;

/// The path that means stdin.
const STDIN: &str = "-";
/// How often a file is read that is still written.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Opens a recording; `-` is stdin.
pub(super) fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    Ok(match path == Path::new(STDIN) {
        true => Box::new(io::stdin()),
        false => Box::new(open_file(path)?),
    })
}

fn open_file(path: &Path) -> anyhow::Result<File> {
    open_regular_file(path, OpenOptions::new().read(true))
        .with_context(|| format!("cannot open {}", path.display()))
}

/// A file that is still written. Reading waits at its end until there is more, and ends when the file was renamed, or at `stop`.
pub(super) struct Tail<'a> {
    path: PathBuf,
    file: Box<dyn Read>,
    /// The number of the open file on its disk; `None` for stdin, which ends by itself.
    inode: Option<u64>,
    was_renamed: bool,
    stop: &'a AtomicBool,
}

impl<'a> Tail<'a> {
    pub(super) fn open(path: &Path, stop: &'a AtomicBool) -> anyhow::Result<Self> {
        let (file, inode): (Box<dyn Read>, _) = if path == Path::new(STDIN) {
            (open(path)?, None)
        } else {
            let file = open_file(path)?;
            let inode = file.metadata()?.ino();
            (Box::new(file), Some(inode))
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            inode,
            was_renamed: false,
            stop,
        })
    }

    /// Opens the file that has the path now. Between two files, the path may be free for a moment; then the next read waits.
    pub(super) fn reopen(&mut self) {
        if self.inode.is_none() {
            self.stop.store(true, Ordering::Relaxed);
        } else if let Ok(next) = Self::open(&self.path, self.stop) {
            *self = next;
        }
    }

    fn is_renamed(&self) -> bool {
        // a path that is free is that of the next file soon
        let found = fs::metadata(&self.path).map(|metadata| metadata.ino());
        matches!((found, self.inode), (Ok(found), Some(open)) if found != open)
    }
}

impl Read for Tail<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let size = self.file.read(buffer)?;
            if size > 0 || self.was_renamed || self.inode.is_none() {
                return Ok(size);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
            // what was written before the file was renamed is read once more
            self.was_renamed = self.is_renamed();
            if !self.was_renamed {
                sleep(POLL_INTERVAL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, thread};

    use super::*;

    #[test]
    fn a_file_is_followed_over_its_rotation_until_the_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        fs::write(&path, "a").unwrap();
        let stop = AtomicBool::new(false);
        let mut tail = Tail::open(&path, &stop).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                file.write_all(b"b").unwrap();
                file.write_all(b"c").unwrap();
                fs::rename(&path, folder.path().join("recording.1")).unwrap();
                fs::write(&path, "d").unwrap();
            });
            let mut text = String::new();
            tail.read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc");
            tail.reopen();
            let mut next = [0];
            tail.read_exact(&mut next).unwrap();
            assert_eq!(next, *b"d");
            stop.store(true, Ordering::Relaxed);
            assert_eq!(tail.read(&mut next).unwrap(), 0);
        });
    }

    #[test]
    fn a_pipe_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open(&pipe).is_err() && Tail::open(&pipe, &AtomicBool::new(false)).is_err());
    }
}
