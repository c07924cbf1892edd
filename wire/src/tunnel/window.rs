//! Windows of streams, between this project's own programs: KubeEdge's protocol has no flow control, so that one stream that is not read
//! holds up all others of its tunnel.
//!
//! The node offers its window with [`HEADER`] when it dials, and the cloud answers with its own; a peer that does not know the header has
//! none, and then nothing here applies. A window is how many bytes of data one end sends on a stream before the other has taken any. Whoever
//! reads says with [`super::Kind::Window`] how many were taken, and so many more may be sent, as with HTTP/2's `WINDOW_UPDATE`. Only the data
//! of frames of the type `Data` counts.

/// The header in which each end says its window, bytes, in decimal.
pub const HEADER: &str = "outrigger-stream-window";
/// The window of this project's programs, for each stream and direction.
pub const WINDOW: usize = 64 * 1024;
/// What a peer may allow at most; beyond it the stream is in error.
pub const MAX_CREDIT: usize = 1 << 30;

/// The window that a peer offers with this value of the header; `None`: it has none.
pub fn offered(value: Option<&[u8]>) -> Option<usize> {
    let window = std::str::from_utf8(value?).ok()?.parse::<usize>().ok()?;
    (1..=MAX_CREDIT).contains(&window).then_some(window)
}

/// What may still be sent on a stream.
#[derive(Clone, Copy, Debug)]
pub struct Credit(usize);

impl Credit {
    /// Of a new stream to a peer with this window.
    pub fn new(window: usize) -> Self {
        Self(window)
    }

    /// Takes up to so many bytes; 0: none may be sent.
    pub fn take(&mut self, bytes: usize) -> usize {
        let part = bytes.min(self.0);
        self.0 -= part;
        part
    }

    /// The peer has taken so many. False: that is more than there can be.
    #[must_use]
    pub fn add(&mut self, bytes: usize) -> bool {
        let sum = self.0.saturating_add(bytes);
        self.0 = sum.min(MAX_CREDIT);
        sum <= MAX_CREDIT
    }
}

/// What was taken of a stream and has not been given back yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken(usize);

impl Taken {
    /// So many bytes were taken.
    pub fn add(&mut self, bytes: usize) {
        self.0 += bytes;
    }

    /// What is to be given back now: not each few bytes by themselves, but half a window.
    pub fn due(&self) -> Option<usize> {
        (self.0 >= WINDOW / 2).then_some(self.0)
    }

    /// It was given back.
    pub fn given(&mut self) {
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
            assert_eq!(offered(value.map(str::as_bytes)), window, "{value:?}");
        }
        assert_eq!(offered(Some(b"\xff\xfe")), None);
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
        taken.given();
        assert_eq!((due, taken.due()), (WINDOW / 2, None));
        assert!(credit.add(due));
        assert_eq!(credit.take(usize::MAX), WINDOW / 2);
        assert!(!credit.add(usize::MAX));
        assert_eq!(credit.take(usize::MAX), MAX_CREDIT);
    }
}
