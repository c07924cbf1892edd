//! Reads a recording. Memory is bounded by one block, whatever the file says.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use crate::{
    Line, VERSION,
    block::{BlockError, INDEX_BYTES, Index},
    line::FORMAT,
};

/// Reads the lines of a recording in order.
pub struct Reader<R> {
    input: R,
    /// The offset of the next byte to read.
    offset: u64,
    /// The number that the next block must have.
    number: u32,
    /// The block that is being read, and how much of it was read.
    block: Block,
    has_header: bool,
    has_ended: bool,
}

#[derive(Default)]
struct Block {
    offset: u64,
    lines: Vec<u8>,
    read: usize,
    number: u64,
}

/// What is wrong with a recording, and where.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the recording at byte {offset}: {fault}")]
pub struct ReadError {
    /// The offset of the block in the file.
    pub offset: u64,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

/// What is wrong with a recording.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is empty, or does not begin as a recording.
    #[error("the file is no recording; record one with --record FILE")]
    NoRecording,
    /// A later version of the format.
    #[error("the recording has version {0} of the format, of {max} at most; use a later cloudsim", max = VERSION)]
    Version(u32),
    /// The file ends within a block, as after a crash or an incomplete copy.
    #[error("the file ends within a block; all lines before it were read")]
    Truncated,
    /// A block is unusable.
    #[error("{0}")]
    Block(#[from] BlockError),
    /// Blocks are missing, or in another order.
    #[error(
        "block {0} was expected, and this is block {1}: blocks are missing or in another order"
    )]
    Order(u32, u32),
    /// A line is not one of a recording.
    #[error("line {0} of the block cannot be read ({1}); the rest of the block is skipped")]
    Line(u64, serde_json::Error),
}

impl Reader<BufReader<File>> {
    /// Opens a recording.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufReader::new(File::open(path)?)))
    }
}

impl<R: Read> Reader<R> {
    /// Creates a reader.
    pub fn new(input: R) -> Self {
        Self {
            input,
            offset: 0,
            number: 0,
            block: Block::default(),
            has_header: false,
            has_ended: false,
        }
    }

    /// Returns the offset of the block from which the last line was read.
    pub fn block_offset(&self) -> u64 {
        self.block.offset
    }

    /// Reads the next block. After an unusable block, the following one can be read.
    fn fill(&mut self) -> Result<bool, Fault> {
        let mut head = [0; INDEX_BYTES];
        self.block = Block {
            offset: self.offset,
            ..Block::default()
        };
        // until the head is known to be one, nothing after it can be found
        self.has_ended = true;
        let size = read_up_to(&mut self.input, &mut head)?;
        self.offset += size as u64;
        match size {
            0 if self.has_header => return Ok(false),
            0 => return Err(Fault::NoRecording),
            INDEX_BYTES => {}
            _ if self.has_header => return Err(Fault::Truncated),
            _ => return Err(Fault::NoRecording),
        }
        let index = match Index::decode(&head) {
            Err(BlockError::NoIndex) if !self.has_header => return Err(Fault::NoRecording),
            index => index?,
        };
        let mut compressed = Vec::new();
        let size = u64::from(index.compressed);
        (&mut self.input).take(size).read_to_end(&mut compressed)?;
        self.offset += compressed.len() as u64;
        if (compressed.len() as u64) < size {
            return Err(Fault::Truncated);
        }
        self.has_ended = false;
        let expected = std::mem::replace(&mut self.number, index.number.wrapping_add(1));
        let lines = index.decompress(&compressed)?;
        self.block.lines = lines;
        if index.number != expected {
            return Err(Fault::Order(expected, index.number));
        }
        Ok(true)
    }

    fn read(&mut self) -> Result<Option<Line>, Fault> {
        while self.block.read == self.block.lines.len() {
            if self.has_ended || !self.fill()? {
                return Ok(None);
            }
        }
        let rest = &self.block.lines[self.block.read..];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let text = &rest[..end.unwrap_or(rest.len())];
        self.block.read += text.len() + usize::from(end.is_some());
        self.block.number += 1;
        let line: Line = serde_json::from_slice(text).map_err(|error| {
            if self.has_header {
                Fault::Line(self.block.number, error)
            } else {
                Fault::NoRecording
            }
        })?;
        if !self.has_header {
            self.has_header = is_header(&line).inspect_err(|_| self.has_ended = true)?;
        }
        Ok(Some(line))
    }
}

/// Checks the first line.
fn is_header(line: &Line) -> Result<bool, Fault> {
    match line {
        Line::Recording(header) if header.version > VERSION => Err(Fault::Version(header.version)),
        Line::Recording(header) if header.format == FORMAT => Ok(true),
        _ => Err(Fault::NoRecording),
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Line, ReadError>;

    /// Returns the next line. After an error, the lines of the next block follow, unless the file has ended.
    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(line) => line.map(Ok),
            Err(fault) => {
                let has_ended = !self.has_header
                    || matches!(fault, Fault::Io(_) | Fault::Truncated | Fault::NoRecording);
                self.has_ended |= has_ended;
                // otherwise a small file could have millions of errors
                if self.has_ended || matches!(fault, Fault::Line(..)) {
                    self.block.read = self.block.lines.len();
                }
                Some(Err(ReadError {
                    offset: self.block.offset,
                    fault,
                }))
            }
        }
    }
}

/// Fills the buffer as far as there is input; returns the number of bytes.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut size = 0;
    while size < buffer.len() {
        match input.read(&mut buffer[size..]) {
            Ok(0) => break,
            Ok(read) => size += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(size)
}
