//! Flow-control windows of streams, between this project's own programs. KubeEdge's protocol has no flow control, so that one stream that
//! is not read blocks all others of its tunnel.
//!
//! The node offers its window with [`HEADER`] when it dials, and the cloud answers with its own. A peer that does not know the header has
//! no window, and then nothing here applies. A window is the number of data bytes that one end may send on a stream before the other has
//! taken any. The reader reports with [`super::Kind::Window`] how many it has taken, and the sender may send as many more, as with HTTP/2's
//! `WINDOW_UPDATE`. Only the data of frames of the type `Data` counts.

/// The header with which each end offers its window, in bytes, decimal.
pub const HEADER: &str = "outrigger-stream-window";
/// The window of this project's programs for each stream and direction, bytes.
pub const WINDOW: usize = 256 * 1024;
/// The largest credit that a peer may grant, bytes; a larger one is an error of the stream.
pub const MAX_CREDIT: usize = 1 << 30;

/// Returns the window that a peer offers with this value of the header; `None` if it has no window.
pub fn parse_window(value: Option<&[u8]>) -> Option<usize> {
    let window = std::str::from_utf8(value?).ok()?.parse::<usize>().ok()?;
    (1..=MAX_CREDIT).contains(&window).then_some(window)
}

/// The number of bytes that may still be sent on a stream.
#[derive(Clone, Copy, Debug)]
pub struct Credit(usize);

impl Credit {
    /// Creates the credit of a new stream to a peer with this window.
    pub fn new(window: usize) -> Self {
        Self(window)
    }

    /// Takes at most this many bytes of the credit and returns how many may be sent; 0 if none.
    pub fn take(&mut self, bytes: usize) -> usize {
        let part = bytes.min(self.0);
        self.0 -= part;
        part
    }

    /// Adds bytes that the peer has read. Returns false if the credit would exceed [`MAX_CREDIT`].
    #[must_use]
    pub fn add(&mut self, bytes: usize) -> bool {
        let sum = self.0.saturating_add(bytes);
        self.0 = sum.min(MAX_CREDIT);
        sum <= MAX_CREDIT
    }
}

/// The bytes of a stream that were read and not yet reported to the sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken(usize);

impl Taken {
    /// Counts bytes that were read.
    pub fn add(&mut self, bytes: usize) {
        self.0 += bytes;
    }

    /// Returns the bytes to report now. They are reported at half a window, and not in small amounts.
    pub fn due(&self) -> Option<usize> {
        (self.0 >= WINDOW / 2).then_some(self.0)
    }

    /// Resets the count, after the bytes were reported.
    pub fn reset(&mut self) {
        self.0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_number_of_bytes() {
        for (value, window) in [
            (Some("65536"), Some(65536)),
            (Some("1"), Some(1)),
            (Some("0"), None),
            (Some("-1"), None),
            (Some("1073741825"), None),
            (Some("99999999999999999999"), None),
            (Some(""), None),
            (Some("much"), None),
            (None, None),
        ] {
            assert_eq!(parse_window(value.map(str::as_bytes)), window, "{value:?}");
        }
        assert_eq!(parse_window(Some(b"\xff\xfe")), None);
    }

    #[test]
    fn what_is_taken_comes_back_by_halves_of_a_window() {
        let (mut credit, mut taken) = (Credit::new(WINDOW), Taken::default());
        assert_eq!(credit.take(WINDOW + 1), WINDOW);
        assert_eq!(credit.take(1), 0);
        taken.add(WINDOW / 2 - 1);
        assert_eq!(taken.due(), None);
        taken.add(1);
        let due = taken.due().unwrap();
        taken.reset();
        assert_eq!((due, taken.due()), (WINDOW / 2, None));
        assert!(credit.add(due));
        assert_eq!(credit.take(usize::MAX), WINDOW / 2);
        assert!(!credit.add(usize::MAX));
        assert_eq!(credit.take(usize::MAX), MAX_CREDIT);
    }
}
