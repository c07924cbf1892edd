//! Writes the files of a recording: blocks, rotation, bounds.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::{
    Connection, Header, Line,
    block::{self, Index, MAX_LINES_BYTES},
};

/// The bytes of lines after which a block is written.
const BLOCK_BYTES: usize = 256 * 1024;
/// Open connections are repeated after this number of blocks: if the block with the first one is damaged, the node is known again.
const REPEAT_BLOCKS: u32 = 32;
/// The mode of a file: it may contain what only its owner may know.
const MODE: u32 = 0o600;

/// The bounds of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size at which a file is closed and the next one begins, bytes.
    pub file_bytes: u64,
    /// The number of files, the current one included.
    pub files: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 64 * 1024 * 1024,
            files: 4,
        }
    }
}

/// The writer of a recording.
pub(crate) struct Files {
    path: PathBuf,
    limits: Limits,
    header: Header,
    file: File,
    /// Bytes of the current file.
    written: u64,
    lines: Vec<u8>,
    index: Index,
    /// The connections that are open, for the begin of the next file.
    open: BTreeMap<u64, Connection>,
}

impl Files {
    /// Begins a recording. An existing file is kept as an older one.
    pub(crate) fn create(path: &Path, limits: Limits, header: Header) -> io::Result<Self> {
        check_existing(path, limits.files)?;
        rotate(path, limits.files)?;
        let mut files = Self {
            path: path.to_owned(),
            limits,
            header,
            file: create(path)?,
            written: 0,
            lines: Vec::new(),
            index: Index::default(),
            open: BTreeMap::new(),
        };
        files.begin()?;
        Ok(files)
    }

    /// Writes the first block of a file.
    fn begin(&mut self) -> io::Result<()> {
        self.append(&Line::Recording(self.header.clone()))?;
        self.append_open()?;
        self.write_block()
    }

    fn append_open(&mut self) -> io::Result<()> {
        for connection in self.open.clone().into_values() {
            self.append(&Line::Connection(connection))?;
        }
        Ok(())
    }

    /// Adds a line; it is written with its block.
    pub(crate) fn push(&mut self, line: &Line) -> io::Result<()> {
        let number = self.index.number;
        if self.lines.is_empty() && number > 0 && number.is_multiple_of(REPEAT_BLOCKS) {
            self.append_open()?;
        }
        match line {
            Line::Connection(connection) => {
                self.open.insert(connection.id, connection.clone());
            }
            Line::End(end) => {
                self.open.remove(&end.connection);
            }
            _ => {}
        }
        self.append(line)?;
        if self.lines.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let text = line.encode(MAX_LINES_BYTES - 1)?;
        if self.lines.len() + text.len() + 1 > MAX_LINES_BYTES {
            self.write_block()?;
        }
        self.lines.extend_from_slice(&text);
        self.lines.push(b'\n');
        self.index.lines += 1;
        if let Some(time) = line.time() {
            if self.index.first == 0 {
                self.index.first = time;
            }
            self.index.last = time;
        }
        Ok(())
    }

    /// Writes what was added, and begins the next file if this one is full.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.write_block()?;
        if self.written < self.limits.file_bytes {
            return Ok(());
        }
        rotate(&self.path, self.limits.files)?;
        self.file = create(&self.path)?;
        self.written = 0;
        self.index.number = 0;
        self.header.part += 1;
        self.begin()
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let block = block::encode(&self.lines, self.index);
        // in one call, so that a killed process leaves whole blocks
        self.file.write_all(&block)?;
        self.written += block.len() as u64;
        self.lines.clear();
        // a large message does not hold its memory forever
        self.lines.shrink_to(2 * BLOCK_BYTES);
        self.index = Index {
            number: self.index.number + 1,
            ..Index::default()
        };
        Ok(())
    }
}

/// Creates a file, and locks it as long as it is written.
fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(path)?;
    file.try_lock()?;
    Ok(file)
}

/// Checks that the files that a new recording renames or deletes are recordings, and that nobody writes them.
fn check_existing(path: &Path, files: u32) -> io::Result<()> {
    let older = (1..files).map(|number| older(path, number));
    for path in [path.to_owned()].into_iter().chain(older) {
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        let refuse = |why: &str| Err(io::Error::other(format!("{} {why}", path.display())));
        if !metadata.is_file() {
            return refuse("exists and is no regular file");
        }
        let mut file = File::open(&path)?;
        if file.try_lock_shared().is_err() {
            return refuse("is written by another program");
        }
        let mut begin = [0; 4];
        let is_recording = file.read_exact(&mut begin).is_ok() && begin == block::MAGIC;
        if metadata.len() > 0 && !is_recording {
            return refuse("exists and is no recording; move it away");
        }
    }
    Ok(())
}

/// Returns the name of an older file; 1 is the latest.
fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Renames the files of a recording so that `path` is free; the oldest one is deleted.
fn rotate(path: &Path, files: u32) -> io::Result<()> {
    if !fs::exists(path)? {
        return Ok(());
    }
    for number in (1..files).rev() {
        let from = match number {
            1 => path.to_owned(),
            number => older(path, number - 1),
        };
        if fs::exists(&from)? {
            fs::rename(from, older(path, number))?;
        }
    }
    // with one file nothing is kept
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
