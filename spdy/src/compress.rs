//! Compression of header blocks: one zlib stream in each direction for the whole connection, which starts with SPDY/3's dictionary. Each
//! block ends with a sync flush.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::{Error, headers::MAX_BLOCK};

/// The dictionary of SPDY/3 (SPDY draft 3, 2.6.10.1). Its Adler-32 is 0xE3C6A7C2.
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
/// The size by which output buffers grow, bytes.
const STEP: usize = 1024;

/// Compresses header blocks.
#[derive(Debug)]
pub(crate) struct Deflater(Compress);

impl Deflater {
    pub(crate) fn new() -> Self {
        let mut compress = Compress::new(Compression::best(), true);
        let given = compress.set_dictionary(DICTIONARY);
        // Setting a dictionary fails only on a stream in use. The output would then not use it and be readable all the same.
        debug_assert!(given.is_ok());
        Self(compress)
    }

    /// Compresses one block; the preceding blocks of the stream must come first.
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

/// Inflates header blocks. Every block of a connection must go through it, even those of refused streams.
#[derive(Debug)]
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// Inflates one block.
    pub(crate) fn block(&mut self, mut packed: &[u8]) -> Result<Vec<u8>, Error> {
        let mut block = Vec::new();
        let mut dictionary_given = false;
        loop {
            if block.len() == block.capacity() {
                block.reserve(STEP);
            }
            let (read, written) = (self.0.total_in(), block.len());
            let done = self
                .0
                .decompress_vec(packed, &mut block, FlushDecompress::Sync);
            let read = usize::try_from(self.0.total_in() - read).unwrap_or(usize::MAX);
            packed = packed.get(read..).unwrap_or_default();
            match done {
                Ok(Status::Ok | Status::BufError) => {}
                // the stream lasts as long as the connection
                Ok(Status::StreamEnd) => return Err(Error::Inflate),
                Err(error) if error.needs_dictionary().is_some() && !dictionary_given => {
                    dictionary_given = true;
                    self.0
                        .set_dictionary(DICTIONARY)
                        .map_err(|_| Error::Inflate)?;
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
