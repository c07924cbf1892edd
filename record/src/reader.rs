//! Reads a recording. Memory is bounded by one block, whatever the file says.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

use crate::{
    Line, VERSION,
    block::{BlockError, INDEX_BYTES, Index, MAGIC},
    line::FORMAT,
};

/// The bytes that are read at once when an index entry is searched.
const PIECE: usize = 64 * 1024;

/// Lines that cannot be read and are skipped one by one; after more, the rest of a block is skipped, too.
const MAX_BAD_LINES: usize = 10;

/// Reads the lines of a recording in order.
pub struct Reader<R> {
    input: R,
    /// Bytes that were read from the input, and not used yet.
    ahead: Vec<u8>,
    /// The offset of the next byte to read.
    offset: u64,
    /// The number that the next block must have.
    number: u32,
    /// The block that is being read, and how much of it was read.
    block: Block,
    has_header: bool,
    has_ended: bool,
    bad_lines: usize,
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
#[error("cannot read the recording at byte {offset}: {fault}{}", continuation(*.next))]
pub struct ReadError {
    /// The offset of the block in the file.
    pub offset: u64,
    /// The offset of the block that is read next, if the rest of this one is skipped.
    pub next: Option<u64>,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

fn continuation(next: Option<u64>) -> String {
    next.map_or_else(String::new, |next| {
        format!("; reading continues at byte {next}")
    })
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
    #[error("the recording has version {0} of the format, and this program reads versions up to {max}; use a later cloudsim", max = VERSION)]
    Version(u32),
    /// The file ends within a block, as after a crash or an incomplete copy.
    #[error("the file ends within a block; all lines before it were read")]
    Truncated,
    /// A block is unusable.
    #[error("{0}")]
    Block(#[from] BlockError),
    /// There is no index entry where one was expected; the bytes up to the next one are lost.
    #[error("{why}; the bytes up to {end} are lost")]
    Lost {
        /// Why the bytes are no index entry.
        why: BlockError,
        /// The offset of the next index entry, or the end of the file.
        end: u64,
    },
    /// Blocks are missing, or in another order.
    #[error(
        "block {0} was expected, and this is block {1}: blocks are missing or in another order"
    )]
    Order(u32, u32),
    /// A line is not one of a recording.
    #[error("line {0} of the block cannot be read ({1})")]
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
            ahead: Vec::new(),
            offset: 0,
            number: 0,
            block: Block::default(),
            has_header: false,
            has_ended: false,
            bad_lines: 0,
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
        match self.read_up_to(&mut head)? {
            0 if self.has_header => return Ok(false),
            0 => return Err(Fault::NoRecording),
            INDEX_BYTES => {}
            _ if self.has_header => return Err(Fault::Truncated),
            _ => return Err(Fault::NoRecording),
        }
        let index = match Index::decode(&head) {
            Ok(index) => index,
            Err(BlockError::NoIndex) if !self.has_header => return Err(Fault::NoRecording),
            Err(why) => return Err(self.skip(head.to_vec(), why)?),
        };
        let mut compressed = vec![0; index.compressed as usize];
        if self.read_up_to(&mut compressed)? < compressed.len() {
            return Err(Fault::Truncated);
        }
        self.has_ended = false;
        let expected = std::mem::replace(&mut self.number, index.number.wrapping_add(1));
        let lines = index.decompress(&compressed);
        // only a recording has such an entry, and its header may be in this block
        self.has_header |= lines.is_err();
        let lines = lines?;
        self.block.lines = lines;
        if index.number != expected {
            return Err(Fault::Order(expected, index.number));
        }
        Ok(true)
    }

    /// Searches for the next index entry. `found`: the bytes that are none.
    fn skip(&mut self, found: Vec<u8>, why: BlockError) -> Result<Fault, Fault> {
        let mut bytes = found;
        let mut begin = self.offset - bytes.len() as u64;
        let mut piece = [0; PIECE];
        // the first byte was one of an entry that is none
        let mut from = 1;
        loop {
            let next = bytes[from..]
                .windows(INDEX_BYTES)
                .position(|window| {
                    let head = <&[u8; INDEX_BYTES]>::try_from(window);
                    head.is_ok_and(|head| head[..4] == MAGIC && Index::decode(head).is_ok())
                })
                .map(|place| from + place);
            if let Some(next) = next {
                let head = <&[u8; INDEX_BYTES]>::try_from(&bytes[next..next + INDEX_BYTES]);
                if let Ok(Ok(index)) = head.map(Index::decode) {
                    self.number = index.number;
                }
                self.offset = begin + next as u64;
                self.ahead = bytes.split_off(next);
                // the header was in a lost block
                (self.has_header, self.has_ended) = (true, false);
                break;
            }
            let size = self.read_up_to(&mut piece)?;
            if size == 0 {
                break;
            }
            // an entry may begin in the last bytes
            let kept = bytes.len().min(INDEX_BYTES - 1);
            bytes.drain(..bytes.len() - kept);
            bytes.extend_from_slice(&piece[..size]);
            begin = self.offset - bytes.len() as u64;
            from = 0;
        }
        let end = self.offset;
        Ok(Fault::Lost { why, end })
    }

    /// Fills the buffer as far as there is input; returns the number of bytes.
    fn read_up_to(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut size = self.ahead.len().min(buffer.len());
        buffer[..size].copy_from_slice(&self.ahead[..size]);
        self.ahead.drain(..size);
        while size < buffer.len() {
            match self.input.read(&mut buffer[size..]) {
                Ok(0) => break,
                Ok(read) => size += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.offset += size as u64;
        Ok(size)
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
                self.bad_lines += usize::from(matches!(fault, Fault::Line(..)));
                // a small file could have millions of bad lines
                let is_skipped = self.has_ended || self.bad_lines > MAX_BAD_LINES;
                if is_skipped {
                    self.block.read = self.block.lines.len();
                }
                let is_skipped = is_skipped || matches!(fault, Fault::Block(_));
                Some(Err(ReadError {
                    offset: self.block.offset,
                    next: (is_skipped && !self.has_ended).then_some(self.offset),
                    fault,
                }))
            }
        }
    }
}
