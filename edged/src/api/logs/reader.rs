//! Reads one log to its end, and continues while it is followed.
//!
//! Nothing is lost at a rotation: the runtime writes to the renamed file until it has created the new one, so the old file is
//! read to its end once more after the new one was seen.

use std::{
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bytes::{Buf, Bytes, BytesMut};
use futures::future::BoxFuture;
use tokio::{
    fs::{self, File},
    io::AsyncReadExt,
    time::Instant,
};

use super::{
    follow::{CHECK_INTERVAL, DirectoryWatch},
    options::Options,
    record::Printer,
    tail,
};

/// Reports whether the container may still write.
pub(super) type IsRunning = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// How many bytes are read at a time. A part of the response is not much larger.
const CHUNK: usize = 16 * 1024;
/// Maximum length of a line in bytes. containerd's lines are a little over 16 KiB; a longer one is no CRI record and is skipped.
const MAX_LINE: usize = 1024 * 1024;

/// The state of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reading the current file, which may grow. Goes on to `Rotated`, `Ending` or `Done`.
    Reading,
    /// A newer file has the log's name. What the current file still has is read, then the newer one: back to `Reading`.
    Rotated,
    /// The container has ended. What the file still has is read, then `Done`.
    Ending,
    /// Everything has been read.
    Done,
}

/// A log that is being read.
pub(super) struct Reader {
    path: PathBuf,
    file: File,
    /// Inode of the open file, by which a rotation is noticed.
    inode: u64,
    /// How many bytes are still to be read, if the log is not followed: the file's length at the beginning. A container that
    /// writes faster than its log is read must not keep the response from ending.
    remaining: Option<u64>,
    input: BytesMut,
    /// Whether the current line is longer than [`MAX_LINE`] and is skipped.
    skips_line: bool,
    printer: Printer,
    watch: Option<DirectoryWatch>,
    phase: Phase,
    is_running: IsRunning,
    /// When `is_running` was called last.
    last_check: Instant,
}

impl Reader {
    /// Opens the log and seeks to where reading begins.
    pub(super) async fn open(
        path: PathBuf,
        options: Options,
        is_running: IsRunning,
    ) -> io::Result<Self> {
        // watch before the first read, so that nothing written after it is missed
        let watch = options.follow.then(|| DirectoryWatch::new(&path));
        let lines = options.tail;
        let opening = path.clone();
        let opened = componentbase::spawn_blocking(move || open(&opening, lines)).await;
        let (file, metadata, start) = opened.map_err(io::Error::other)??;
        let remaining = watch
            .is_none()
            .then(|| metadata.len().saturating_sub(start));
        let mut file = File::from_std(file);
        file.set_max_buf_size(CHUNK);
        Ok(Self {
            path,
            file,
            inode: metadata.ino(),
            remaining,
            input: BytesMut::new(),
            skips_line: false,
            printer: Printer::new(&options),
            watch,
            phase: Phase::Reading,
            is_running,
            last_check: Instant::now(),
        })
    }

    /// Returns the next part of the response, or `None` at its end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut out = BytesMut::new();
        while self.phase != Phase::Done {
            self.lines(&mut out);
            if self.printer.is_full() {
                self.phase = Phase::Done;
            }
            if !out.is_empty() {
                return Ok(Some(out.freeze()));
            }
            if self.phase != Phase::Done && self.read().await? == 0 {
                self.at_end(&mut out).await?;
            }
        }
        Ok((!out.is_empty()).then(|| out.freeze()))
    }

    /// Appends all complete lines that have been read to `out`.
    fn lines(&mut self, out: &mut BytesMut) {
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line = self.input.split_to(end);
            self.input.advance(1);
            if !std::mem::take(&mut self.skips_line) {
                self.printer.line(&line, out);
            }
        }
        if self.input.len() > MAX_LINE {
            self.input.clear();
            self.skips_line = true;
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        let most = self.remaining.map_or(CHUNK, |remaining| {
            usize::try_from(remaining).unwrap_or(CHUNK).min(CHUNK)
        });
        if most == 0 {
            return Ok(0);
        }
        self.input.reserve(most);
        let read = (&mut self.file)
            .take(most as u64)
            .read_buf(&mut self.input)
            .await?;
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.saturating_sub(read as u64);
        }
        Ok(read)
    }

    /// Continues with the file that has the log's name now, and reports whether it is another one.
    async fn reopen_if_rotated(&mut self) -> io::Result<bool> {
        let Some((file, inode)) = rotated_file(&self.path, self.inode).await? else {
            return Ok(false);
        };
        (self.file, self.inode) = (file, inode);
        self.file.set_max_buf_size(CHUNK);
        // an incomplete line at the end of the old file is never completed
        self.input.clear();
        self.skips_line = false;
        Ok(true)
    }

    /// Called at the end of the file: waits for more, continues with a newer file, or ends.
    async fn at_end(&mut self, out: &mut BytesMut) -> io::Result<()> {
        // the file may have been rotated just before the container ended
        if self.phase == Phase::Ending && self.watch.is_some() && self.reopen_if_rotated().await? {
            return Ok(());
        }
        match (self.phase, &self.watch) {
            (Phase::Rotated, _) => {
                self.reopen_if_rotated().await?;
                self.phase = Phase::Reading;
            }
            (Phase::Reading, Some(watch)) => {
                if rotated_file(&self.path, self.inode).await?.is_some() {
                    self.phase = Phase::Rotated;
                    return Ok(());
                }
                // the container's next instance writes to the same directory and wakes this wait as well
                let is_quiet = watch.wait().await;
                if is_quiet || self.last_check.elapsed() >= CHECK_INTERVAL {
                    self.last_check = Instant::now();
                    if !(self.is_running)().await {
                        self.phase = Phase::Ending;
                    }
                }
            }
            (Phase::Reading, None) | (Phase::Ending, _) => {
                // a last line without a newline is returned too
                let rest = self.input.split();
                if !rest.is_empty() && !self.skips_line {
                    self.printer.line(&rest, out);
                }
                self.phase = Phase::Done;
            }
            (Phase::Done, _) => {}
        }
        Ok(())
    }
}

fn open(path: &Path, lines: Option<u64>) -> io::Result<(std::fs::File, Metadata, u64)> {
    use std::io::{Seek, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let start = match lines {
        Some(lines) => tail::start(&mut file, lines)?,
        None => 0,
    };
    file.seek(SeekFrom::Start(start))?;
    Ok((file, metadata, start))
}

/// Opens the file that has the log's name now, if it is another one, and returns it with its inode.
async fn rotated_file(path: &Path, inode: u64) -> io::Result<Option<(File, u64)>> {
    // between the two steps of a rotation no file has the name
    let Ok(metadata) = fs::metadata(path).await else {
        return Ok(None);
    };
    if metadata.ino() == inode || !metadata.is_file() {
        return Ok(None);
    }
    let file = match File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let inode = file.metadata().await?.ino();
    Ok(Some((file, inode)))
}
