//! Replaces each authority in the bytes of an HTTP/2 client by a valid host name. Everything else passes unchanged.

use crate::hpack::Fields;

/// The length of the HTTP/2 connection preface, bytes.
const PREFACE: usize = 24;
/// The size of a frame header, bytes.
const HEAD: usize = 9;
/// The types of frames that carry header fields: HEADERS begins them, and CONTINUATION continues them.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// Flags of such frames: it is the last one with fields, it has padding, it has a priority.
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The size of a priority, bytes.
const PRIORITY_BYTES: usize = 5;
/// The largest frame that servers accept by default, bytes. The server itself refuses larger ones.
const MAX_FRAME: usize = 16 * 1024;
/// The most bytes of frames with the fields of one request. Servers based on `hyper` refuse fields of more than 16 KiB, which are not
/// longer than this in Huffman code.
const MAX_HELD: usize = 64 * 1024;

/// Rewrites the bytes of one client on their way to a server.
#[derive(Debug)]
pub(crate) struct Authorities {
    /// Incomplete bytes: the header of a frame, or frames with only some of the fields of a request.
    held: Vec<u8>,
    /// The position in `held` at which the last frame begins.
    begun: usize,
    step: Step,
    fields: Fields,
}

#[derive(Debug)]
enum Step {
    /// Passes this number of bytes unchanged.
    Pass(usize),
    /// Holds this number of bytes until they are complete.
    Hold(usize),
    /// Passes everything, because the client violates the protocol or its fields are too long. Nothing after that can be parsed, and the
    /// server reports the error.
    PassAll,
}

impl Default for Authorities {
    fn default() -> Self {
        Self {
            held: Vec::new(),
            begun: 0,
            step: Step::Pass(PREFACE),
            fields: Fields::default(),
        }
    }
}

impl Authorities {
    /// Returns the bytes to pass on now, from these bytes and from those held before. At most 64 KiB are held.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(self.held.len() + bytes.len());
        while !bytes.is_empty() {
            let (Step::Pass(wanted) | Step::Hold(wanted)) = self.step else {
                passed.extend_from_slice(bytes);
                break;
            };
            let (now, later) = bytes.split_at(bytes.len().min(wanted));
            bytes = later;
            let is_held = matches!(self.step, Step::Hold(_));
            let into = if is_held { &mut self.held } else { &mut passed };
            into.extend_from_slice(now);
            self.step = match (wanted - now.len(), is_held) {
                (0, true) => self.whole(&mut passed),
                (0, false) => Step::Hold(HEAD),
                (missing, true) => Step::Hold(missing),
                (missing, false) => Step::Pass(missing),
            };
        }
        passed
    }

    /// Chooses the next step when the held bytes end with a complete header or frame.
    fn whole(&mut self, passed: &mut Vec<u8>) -> Step {
        let Some(frame) = self.held.get(self.begun..).and_then(Frame::read) else {
            return self.give_up(passed);
        };
        let is_first = self.begun == 0;
        match frame.kind {
            HEADERS if is_first => {}
            CONTINUATION if !is_first => {}
            _ if is_first => {
                let length = frame.length;
                passed.append(&mut self.held);
                return if length == 0 {
                    Step::Hold(HEAD)
                } else {
                    Step::Pass(length)
                };
            }
            // no other frame may come in between
            _ => return self.give_up(passed),
        }
        let missing = frame.length - frame.carried.len();
        if frame.length > MAX_FRAME || self.held.len() + missing > MAX_HELD {
            return self.give_up(passed);
        }
        if missing > 0 {
            return Step::Hold(missing);
        }
        if frame.flags & END_HEADERS == 0 {
            self.begun = self.held.len();
            return Step::Hold(HEAD);
        }
        let Some(mended) = mend(&self.held, &mut self.fields) else {
            return self.give_up(passed);
        };
        passed.extend_from_slice(&mended);
        self.held.clear();
        self.begun = 0;
        Step::Hold(HEAD)
    }

    fn give_up(&mut self, passed: &mut Vec<u8>) -> Step {
        passed.append(&mut self.held);
        Step::PassAll
    }
}

/// A frame, of which perhaps only the header has arrived.
struct Frame<'a> {
    length: usize,
    kind: u8,
    flags: u8,
    stream: &'a [u8],
    carried: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses the first frame of these bytes.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        let carried = rest.get(..length).unwrap_or(rest);
        Some(Self {
            length,
            kind: *kind,
            flags: *flags,
            stream,
            carried,
        })
    }

    /// Returns the priority and the fields of the frame, without padding.
    fn unpad(&self) -> Option<(&'a [u8], &'a [u8])> {
        let mut carried = self.carried;
        if self.kind == HEADERS && self.flags & PADDED != 0 {
            let (padding, rest) = carried.split_first()?;
            carried = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
        }
        let priority = self.kind == HEADERS && self.flags & PRIORITY != 0;
        carried.split_at_checked(if priority { PRIORITY_BYTES } else { 0 })
    }
}

/// Returns frames with the same fields and replaced authorities; `None` if the fields are invalid.
fn mend(frames: &[u8], fields: &mut Fields) -> Option<Vec<u8>> {
    let first = Frame::read(frames)?;
    let (priority, _) = first.unpad()?;
    let (mut block, mut rest) = (Vec::with_capacity(frames.len()), frames);
    while !rest.is_empty() {
        let frame = Frame::read(rest)?;
        if frame.stream != first.stream {
            return None;
        }
        block.extend_from_slice(frame.unpad()?.1);
        rest = rest.get(HEAD + frame.length..)?;
    }
    let mended = fields.mend(&block)?;
    if mended == block {
        return Some(frames.to_vec());
    }
    let mut written = Vec::with_capacity(frames.len());
    let (begin, mut rest) = mended.split_at(mended.len().min(MAX_FRAME - priority.len()));
    let end = |rest: &[u8]| if rest.is_empty() { END_HEADERS } else { 0 };
    let flags = (first.flags & !PADDED & !END_HEADERS) | end(rest);
    put(
        &mut written,
        HEADERS,
        flags,
        first.stream,
        &[priority, begin],
    );
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(MAX_FRAME));
        put(&mut written, CONTINUATION, end(later), first.stream, &[now]);
        rest = later;
    }
    Some(written)
}

/// Writes a frame.
fn put(into: &mut Vec<u8>, kind: u8, flags: u8, stream: &[u8], parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let [.., high, middle, low] = length.to_be_bytes();
    into.extend_from_slice(&[high, middle, low, kind, flags]);
    into.extend_from_slice(stream);
    parts.iter().for_each(|part| into.extend_from_slice(part));
}

#[cfg(test)]
pub(crate) mod tests;
