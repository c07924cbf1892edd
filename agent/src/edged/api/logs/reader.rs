//! Reads one log to its end, and on while it is followed.
//!
//! Nothing is lost at a rotation: the runtime writes to the file that was renamed until it has made the new one, so the old file is
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
    task::spawn_blocking,
    time::Instant,
};

use super::{
    follow::{INTERVAL, Watch},
    options::Options,
    record::Printer,
    tail,
};

/// Tells whether the container may still write.
pub(super) type Runs = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// Bytes read at a time; an answer's part is not much larger.
const CHUNK: usize = 16 * 1024;
/// Longest line that is shown; containerd's are 16 KiB and a bit. A longer one is no record of CRI.
const MAX_LINE: usize = 1024 * 1024;

/// Where in the course of things a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// More may come.
    Reading,
    /// A newer file has taken the name: what this one still has is read, then that one.
    Rotated,
    /// The container has ended: what the file still has is read.
    Ending,
    /// Everything has been read.
    Over,
}

/// A log that is being read.
pub(super) struct Reader {
    path: PathBuf,
    file: File,
    /// Which file it is.
    inode: u64,
    /// What is left of the file as it was at the beginning, where the log is not followed: who writes faster than it is read would have
    /// it never end.
    left: Option<u64>,
    input: BytesMut,
    /// The current line is too long to be one.
    skips: bool,
    printer: Printer,
    watch: Option<Watch>,
    phase: Phase,
    runs: Runs,
    /// When that was asked last.
    asked: Instant,
}

impl Reader {
    /// Opens the log and finds where to begin.
    pub(super) async fn open(path: PathBuf, options: Options, runs: Runs) -> io::Result<Self> {
        // before the first read: what comes after it is told of
        let watch = options.follow.then(|| Watch::new(&path));
        let lines = options.tail;
        let opening = path.clone();
        let opened = spawn_blocking(move || open(&opening, lines)).await;
        let (file, metadata, start) = opened.map_err(io::Error::other)??;
        let left = watch.is_none().then(|| metadata.len().saturating_sub(start));
        let mut file = File::from_std(file);
        file.set_max_buf_size(CHUNK);
        Ok(Self {
            path,
            file,
            inode: metadata.ino(),
            left,
            input: BytesMut::new(),
            skips: false,
            printer: Printer::new(&options),
            watch,
            phase: Phase::Reading,
            runs,
            asked: Instant::now(),
        })
    }

    /// What is shown next; `None`: that was all.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut out = BytesMut::new();
        while self.phase != Phase::Over {
            self.lines(&mut out);
            if self.printer.is_full() {
                self.phase = Phase::Over;
            }
            if !out.is_empty() {
                return Ok(Some(out.freeze()));
            }
            if self.phase != Phase::Over && self.read().await? == 0 {
                self.at_end(&mut out).await?;
            }
        }
        Ok((!out.is_empty()).then(|| out.freeze()))
    }

    /// Shows all whole lines that have been read.
    fn lines(&mut self, out: &mut BytesMut) {
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line = self.input.split_to(end);
            self.input.advance(1);
            if !std::mem::take(&mut self.skips) {
                self.printer.line(&line, out);
            }
        }
        if self.input.len() > MAX_LINE {
            self.input.clear();
            self.skips = true;
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        let most = self.left.map_or(CHUNK, |left| usize::try_from(left).unwrap_or(CHUNK).min(CHUNK));
        if most == 0 {
            return Ok(0);
        }
        self.input.reserve(most);
        let read = (&mut self.file).take(most as u64).read_buf(&mut self.input).await?;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(read as u64);
        }
        Ok(read)
    }

    /// Goes on with the file that has the name now, if it is another one.
    async fn go_on(&mut self) -> io::Result<bool> {
        let Some((file, inode)) = newer(&self.path, self.inode).await? else { return Ok(false) };
        (self.file, self.inode) = (file, inode);
        self.file.set_max_buf_size(CHUNK);
        // a line that was not finished in the old file never is
        self.input.clear();
        self.skips = false;
        Ok(true)
    }

    /// There is no more in the file for now: waits, goes on to a newer one, or ends.
    async fn at_end(&mut self, out: &mut BytesMut) -> io::Result<()> {
        // the file may have been rotated just before the container's end
        if self.phase == Phase::Ending && self.watch.is_some() && self.go_on().await? {
            return Ok(());
        }
        match (self.phase, &self.watch) {
            (Phase::Rotated, _) => {
                self.go_on().await?;
                self.phase = Phase::Reading;
            }
            (Phase::Reading, Some(watch)) => {
                if newer(&self.path, self.inode).await?.is_some() {
                    self.phase = Phase::Rotated;
                    return Ok(());
                }
                // the instance that came after this one writes beside it, and wakes this up
                let is_quiet = watch.wait().await;
                if is_quiet || self.asked.elapsed() >= INTERVAL {
                    self.asked = Instant::now();
                    if !(self.runs)().await {
                        self.phase = Phase::Ending;
                    }
                }
            }
            (Phase::Reading, None) | (Phase::Ending, _) => {
                // a last line without its end is shown too
                let rest = self.input.split();
                if !rest.is_empty() && !self.skips {
                    self.printer.line(&rest, out);
                }
                self.phase = Phase::Over;
            }
            (Phase::Over, _) => {}
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

/// The file that has the name now, if it is another one.
async fn newer(path: &Path, inode: u64) -> io::Result<Option<(File, u64)>> {
    // between the two steps of a rotation there is none
    let Ok(metadata) = fs::metadata(path).await else { return Ok(None) };
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
