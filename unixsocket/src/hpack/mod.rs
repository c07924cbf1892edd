//! Parses HTTP/2 header fields (RFC 7541, HPACK) as far as is needed to find and replace an authority.
//!
//! A field may be an index into a table that both ends build from all earlier fields. [`Fields`] replaces an authority by a text of the
//! same length, so that both ends' tables keep the same sizes and evict the same entries.

use std::collections::VecDeque;

/// The default size of a table, bytes. It is also the largest one, because the server here does not announce another.
const MAX_TABLE: usize = 4096;
/// The overhead of a table entry besides its name and value, bytes.
const OVERHEAD: usize = 32;
/// The character of the replacement, repeated to the authority's length.
pub(crate) const FILLER: u8 = b'x';

/// The name `:authority`, as it is and in Huffman code.
const AUTHORITY: &[u8] = b":authority";
const AUTHORITY_HUFFMAN: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// The index of `:authority` in the static table.
const AUTHORITY_INDEX: usize = 1;
/// The lengths of all names in the static table, from index 1 (appendix A).
const STATIC: [usize; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14,
    16, 13, 12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10,
    25, 17, 10, 4, 3, 16,
];

/// Huffman code (appendix B): pairs of a code length in bits and the number of codes of this length. The codes of each length follow those
/// of the length before, so nothing more is needed to find the end of a code.
const CODES: [(u32, u32); 21] = [
    (5, 10),
    (6, 26),
    (7, 32),
    (8, 6),
    (10, 5),
    (11, 3),
    (12, 2),
    (13, 6),
    (14, 2),
    (15, 3),
    (19, 3),
    (20, 8),
    (21, 13),
    (22, 26),
    (23, 29),
    (24, 12),
    (25, 4),
    (26, 15),
    (27, 19),
    (28, 29),
    (30, 4),
];

/// The state of one end's header fields: its dynamic table.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The entries, newest first.
    table: VecDeque<Entry>,
    /// The current and the largest size, bytes.
    size: usize,
    max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: Name,
    size: usize,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    length: usize,
    is_authority: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            max: MAX_TABLE,
        }
    }
}

impl Fields {
    /// Returns the block with every authority replaced by a valid host name. `None` means that it is not a block of fields; no later block
    /// of the connection can be parsed then.
    pub(crate) fn mend(&mut self, block: &[u8]) -> Option<Vec<u8>> {
        let (mut mended, mut rest) = (Vec::with_capacity(block.len()), block);
        while let Some(first) = rest.first() {
            let field = rest;
            // the five representations of section 6
            let (bits, is_kept) = match first {
                0x80.. => {
                    self.name(take_number(&mut rest, 7)?)?;
                    mended.extend_from_slice(bytes_between(field, rest));
                    continue;
                }
                0x40.. => (6, true),
                0x20.. => {
                    self.resize(take_number(&mut rest, 5)?)?;
                    mended.extend_from_slice(bytes_between(field, rest));
                    continue;
                }
                _ => (4, false),
            };
            let name = match take_number(&mut rest, bits)? {
                0 => Text::take(&mut rest)?.name()?,
                number => self.name(number)?,
            };
            let name_as_written = bytes_between(field, rest);
            let value = Text::take(&mut rest)?;
            let length = value.length()?;
            if name.is_authority {
                mended.extend_from_slice(name_as_written);
                put_number(&mut mended, 7, length);
                mended.resize(mended.len() + length, FILLER);
            } else {
                mended.extend_from_slice(bytes_between(field, rest));
            }
            if is_kept {
                self.insert(Entry {
                    name,
                    size: name.length + length + OVERHEAD,
                });
            }
        }
        Some(mended)
    }

    /// Returns the name at this index of the static and the dynamic table.
    fn name(&self, number: usize) -> Option<Name> {
        let index = number.checked_sub(1)?;
        if let Some(length) = STATIC.get(index) {
            return Some(Name {
                length: *length,
                is_authority: number == AUTHORITY_INDEX,
            });
        }
        Some(self.table.get(index - STATIC.len())?.name)
    }

    fn insert(&mut self, entry: Entry) {
        self.evict(entry.size);
        // an entry that is larger than the table empties it (section 4.4)
        if entry.size <= self.max {
            self.size += entry.size;
            self.table.push_front(entry);
        }
    }

    fn resize(&mut self, max: usize) -> Option<()> {
        self.max = (max <= MAX_TABLE).then_some(max)?;
        self.evict(0);
        Some(())
    }

    /// Evicts entries until there is room for this number of bytes.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.max
            && let Some(oldest) = self.table.pop_back()
        {
            self.size -= oldest.size;
        }
    }
}

/// Returns the bytes between two positions of a reader.
fn bytes_between<'a>(before: &'a [u8], after: &[u8]) -> &'a [u8] {
    before.split_at(before.len() - after.len()).0
}

fn take<'a>(fields: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = fields.split_at_checked(length)?;
    *fields = rest;
    Some(taken)
}

/// Reads a number whose first byte holds this number of its bits (section 5.1).
fn take_number(fields: &mut &[u8], bits: u32) -> Option<usize> {
    let largest = (1_usize << bits) - 1;
    let mut number = usize::from(*take(fields, 1)?.first()?) & largest;
    if number < largest {
        return Some(number);
    }
    // more than four bytes are longer than any block that is parsed
    for shift in [0, 7, 14, 21] {
        let byte = *take(fields, 1)?.first()?;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Writes a number; the other bits of the first byte are 0.
fn put_number(into: &mut Vec<u8>, bits: u32, number: usize) {
    let low = |number: usize| number.to_le_bytes().first().copied().unwrap_or_default();
    let largest = (1_usize << bits) - 1;
    if number < largest {
        return into.push(low(number));
    }
    into.push(low(largest));
    let mut rest = number - largest;
    while rest > 0x7f {
        into.push(low(rest) | 0x80);
        rest >>= 7;
    }
    into.push(low(rest));
}

/// A string as it is encoded (section 5.2).
struct Text<'a> {
    is_huffman: bool,
    bytes: &'a [u8],
}

impl<'a> Text<'a> {
    fn take(fields: &mut &'a [u8]) -> Option<Self> {
        let is_huffman = fields.first()? & 0x80 != 0;
        let length = take_number(fields, 7)?;
        Some(Self {
            is_huffman,
            bytes: take(fields, length)?,
        })
    }

    /// Returns its decoded length.
    fn length(&self) -> Option<usize> {
        if self.is_huffman {
            huffman_length(self.bytes)
        } else {
            Some(self.bytes.len())
        }
    }

    /// Returns it as a name.
    fn name(&self) -> Option<Name> {
        let authority = if self.is_huffman {
            AUTHORITY_HUFFMAN
        } else {
            AUTHORITY
        };
        Some(Name {
            length: self.length()?,
            is_authority: self.bytes == authority,
        })
    }
}

/// Returns the number of characters in these bits. The last bits, part of a code, fill the last byte.
fn huffman_length(bytes: &[u8]) -> Option<usize> {
    let bit = |at: usize| {
        bytes
            .get(at / 8)
            .map_or(1, |byte| u32::from(byte >> (7 - at % 8)) & 1)
    };
    let (mut length, mut at, all) = (0, 0, bytes.len() * 8);
    while at < all {
        let (mut code, mut bits, mut first) = (0, 0, 0);
        let end = CODES.iter().find(|(wanted, codes)| {
            while bits < *wanted {
                code = code << 1 | bit(at + bits as usize);
                first <<= 1;
                bits += 1;
            }
            let is_found = code < first + codes;
            first += codes;
            is_found
        });
        let (bits, _) = end?;
        at += *bits as usize;
        if at > all {
            break;
        }
        length += 1;
    }
    Some(length)
}

#[cfg(test)]
pub(crate) mod tests;
