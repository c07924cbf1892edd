//! Compression of header blocks: one zlib stream in each direction for the whole connection, begun with SPDY/3's dictionary; each
//! block ends with a sync flush.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::{Error, headers::MAX_BLOCK};

/// The dictionary of SPDY/3 (SPDY draft 3, 2.6.10.1). Its Adler-32 is 0xE3C6A7C2.
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
/// Room that is made for output at a time.
const STEP: usize = 1024;

/// Compresses blocks.
#[derive(Debug)]
pub(crate) struct Deflater(Compress);

impl Deflater {
    pub(crate) fn new() -> Self {
        let mut compress = Compress::new(Compression::best(), true);
        let given = compress.set_dictionary(DICTIONARY);
        // Only a stream that is under way refuses one. What it would then write needs none, and can be read all the same.
        debug_assert!(given.is_ok());
        Self(compress)
    }

    /// One block, with what must precede it in the stream.
    pub(crate) fn block(&mut self, mut plain: &[u8]) -> Result<Vec<u8>, Error> {
        let mut block = Vec::new();
        loop {
            block.reserve(STEP);
            let before = self.0.total_in();
            let done = self.0.compress_vec(plain, &mut block, FlushCompress::Sync);
            done.map_err(|_| Error::Block)?;
            let read = usize::try_from(self.0.total_in() - before).unwrap_or(usize::MAX);
            plain = plain.get(read..).unwrap_or_default();
            // with room left, the flush is complete
            if plain.is_empty() && block.len() < block.capacity() {
                return Ok(block);
            }
        }
    }
}

/// Inflates blocks. Each block of a connection must be given to it, also those of streams that are refused.
#[derive(Debug)]
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// One block.
    pub(crate) fn block(&mut self, mut packed: &[u8]) -> Result<Vec<u8>, Error> {
        let mut block = Vec::new();
        let mut dictionary_given = false;
        loop {
            if block.len() == block.capacity() {
                block.reserve(STEP);
            }
            let (read, written) = (self.0.total_in(), block.len());
            let done = self.0.decompress_vec(packed, &mut block, FlushDecompress::Sync);
            let read = usize::try_from(self.0.total_in() - read).unwrap_or(usize::MAX);
            packed = packed.get(read..).unwrap_or_default();
            match done {
                Ok(Status::Ok | Status::BufError) => {}
                // the stream lasts as long as the connection
                Ok(Status::StreamEnd) => return Err(Error::Inflate),
                Err(error) if error.needs_dictionary().is_some() && !dictionary_given => {
                    dictionary_given = true;
                    self.0.set_dictionary(DICTIONARY).map_err(|_| Error::Inflate)?;
                    continue;
                }
                Err(_) => return Err(Error::Inflate),
            }
            if block.len() > MAX_BLOCK {
                return Err(Error::BlockTooLarge);
            }
            if block.len() == block.capacity() {
                continue;
            }
            if packed.is_empty() {
                return Ok(block);
            }
            if read == 0 && block.len() == written {
                return Err(Error::Inflate);
            }
        }
    }
}
