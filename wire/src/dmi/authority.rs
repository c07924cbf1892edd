//! What grpc-go calls the other end of a unix socket: the path of the socket, escaped, as in `%2Fetc%2Fkubeedge%2Fdmi.sock`. No
//! authority of HTTP has such characters, and stricter servers than Go's refuse the request for it: mappers made with KubeEdge's
//! mapper-framework, and EdgeCore when it calls a mapper, could not be served.
//!
//! [`Authorities`] is put between such a socket and an HTTP/2 server. In place of each `%` and `/` of an authority it writes a `-`,
//! which takes as many bits in a Huffman string: no length changes, and nothing else is touched.

/// The first bytes of a client.
const PREFACE: usize = 24;
/// Bytes of a frame before what it carries.
const HEAD: usize = 9;
/// The type of frames that begin requests.
const HEADERS: u8 = 1;
/// Flags of such a frame: it ends in padding; it begins with a priority.
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The largest frame that servers of their own accord take, bytes. A larger one is theirs to refuse.
const LARGEST: usize = 16 * 1024;
/// The place of `:authority` in the table of names that need not be spelled.
const AUTHORITY: usize = 1;

/// The bytes of one client on their way to a server.
#[derive(Debug)]
pub struct Authorities {
    /// What is not whole yet: the head of a frame, or a frame that begins a request.
    held: Vec<u8>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// So many bytes are none of our concern.
    Pass(usize),
    /// So many have to be there.
    Hold(usize),
}

impl Default for Authorities {
    fn default() -> Self {
        Self { held: Vec::new(), step: Step::Pass(PREFACE) }
    }
}

impl Authorities {
    /// What of these bytes, and of those held before, goes on now. What is held is less than 17 KiB.
    pub fn pass(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(self.held.len() + bytes.len());
        while !bytes.is_empty() {
            match &mut self.step {
                Step::Pass(left) => {
                    let (now, later) = bytes.split_at(bytes.len().min(*left));
                    passed.extend_from_slice(now);
                    *left -= now.len();
                    if *left == 0 {
                        self.step = Step::Hold(HEAD);
                    }
                    bytes = later;
                }
                Step::Hold(wanted) => {
                    let missing = wanted.saturating_sub(self.held.len());
                    let (now, later) = bytes.split_at(bytes.len().min(missing));
                    self.held.extend_from_slice(now);
                    bytes = later;
                    if self.held.len() == *wanted {
                        self.step = self.whole();
                        if !matches!(self.step, Step::Hold(wanted) if wanted > HEAD) {
                            passed.append(&mut self.held);
                        }
                    }
                }
            }
        }
        passed
    }

    /// What comes after what is held, which is a head or a frame.
    fn whole(&mut self) -> Step {
        if let [high, middle, low, kind, _, _, _, _, _] = *self.held {
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            return match (kind, length) {
                (_, 0) => Step::Hold(HEAD),
                (HEADERS, ..=LARGEST) => Step::Hold(HEAD + length),
                _ => Step::Pass(length),
            };
        }
        if let Some((head, block)) = self.held.split_at_mut_checked(HEAD) {
            let flags = head.get(4).copied().unwrap_or_default();
            let begin = usize::from(flags & PADDED != 0) + if flags & PRIORITY != 0 { 5 } else { 0 };
            if let Some(fields) = block.get_mut(begin..) {
                mend(fields);
            }
        }
        Step::Hold(HEAD)
    }
}

/// Mends the authority in a block of header fields (RFC 7541, section 6), up to the first thing that is none.
fn mend(mut fields: &mut [u8]) -> Option<()> {
    loop {
        let first = *fields.first()?;
        let (is_literal, bits) = match first {
            0x80.. => (false, 7),
            0x40.. => (true, 6),
            0x20.. => (false, 5),
            _ => (true, 4),
        };
        let name = take_number(&mut fields, bits)?;
        if is_literal {
            if name == 0 {
                take_string(&mut fields)?;
            }
            let (is_huffman, value) = take_string(&mut fields)?;
            if name == AUTHORITY {
                if is_huffman { mend_huffman(value) } else { mend_plain(value) }
            }
        }
    }
}

/// A number of which the first byte holds so many bits (section 5.1).
fn take_number(fields: &mut &mut [u8], bits: u32) -> Option<usize> {
    let largest = (1_usize << bits) - 1;
    let mut number = usize::from(take(fields, 1)?.first().copied()?) & largest;
    if number < largest {
        return Some(number);
    }
    // more than four bytes are longer than any frame that is looked at
    for shift in [0, 7, 14, 21] {
        let byte = take(fields, 1)?.first().copied()?;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A string, and whether it is in Huffman's code (section 5.2).
fn take_string<'a>(fields: &mut &'a mut [u8]) -> Option<(bool, &'a mut [u8])> {
    let is_huffman = fields.first()? & 0x80 != 0;
    let length = take_number(fields, 7)?;
    Some((is_huffman, take(fields, length)?))
}

fn take<'a>(fields: &mut &'a mut [u8], length: usize) -> Option<&'a mut [u8]> {
    let (taken, rest) = std::mem::take(fields).split_at_mut_checked(length)?;
    *fields = rest;
    Some(taken)
}

fn mend_plain(value: &mut [u8]) {
    for byte in value {
        if matches!(byte, b'%' | b'/') {
            *byte = b'-';
        }
    }
}

/// The codes of `%`, `/` and `-` have six bits (appendix B). What has more than eight is in no path that anybody has, and ends it.
fn mend_huffman(value: &mut [u8]) {
    const PERCENT: u8 = 0x15;
    const SLASH: u8 = 0x18;
    const DASH: u8 = 0x16;
    let mut at = 0;
    loop {
        let window = window(value, at);
        at += match window {
            // codes of five bits end with 01001, of six with 101101, of seven with 1111011
            0..=0b0100_1111 => 5,
            0b0101_0000..=0b1011_0111 => {
                if matches!(window >> 2, PERCENT | SLASH) {
                    set(value, at, DASH);
                }
                6
            }
            0b1011_1000..=0b1111_0111 => 7,
            0b1111_1000..=0b1111_1101 => 8,
            _ => return,
        };
    }
}

/// The eight bits from here on, ones behind the end.
fn window(value: &[u8], at: usize) -> u8 {
    let byte = |index: usize| value.get(index).copied().unwrap_or(0xff);
    let both = u16::from_be_bytes([byte(at / 8), byte(at / 8 + 1)]);
    let [high, _] = (both << (at % 8)).to_be_bytes();
    high
}

/// Writes a code of six bits here.
fn set(value: &mut [u8], at: usize, code: u8) {
    for bit in 0..6 {
        let (index, mask) = ((at + bit) / 8, 0x80_u8 >> ((at + bit) % 8));
        if let Some(byte) = value.get_mut(index) {
            if code & (0x20 >> bit) == 0 { *byte &= !mask } else { *byte |= mask }
        }
    }
}

#[cfg(test)]
mod tests;
