//! Messages in which a bit is flipped. Pure.

use wire::{
    Message,
    json::{self, DEFAULT_LIMIT, DecodeError},
};

/// The bit that is flipped: every JSON text is UTF-8, and without this one it is not. The receiver always notices.
const BIT: u8 = 0x80;

/// A message that has passed a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arrival<T = Message> {
    /// The message as it was sent.
    pub(crate) message: T,
    /// Which byte of it is corrupted, if one is: a number that [`corrupt`] takes.
    pub(crate) corruption: Option<u64>,
}

impl Arrival {
    /// Returns the message as the cloud reads it.
    ///
    /// # Errors
    /// It is corrupted.
    pub(crate) fn read(self) -> Result<Message, DecodeError> {
        let Some(place) = self.corruption else {
            return Ok(self.message);
        };
        let mut bytes = json::encode(&self.message).into_bytes();
        corrupt(&mut bytes, place);
        json::decode(&bytes, DEFAULT_LIMIT)
    }
}

/// Flips a bit of one byte.
pub(crate) fn corrupt(bytes: &mut [u8], place: u64) {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).max(1);
    let place = usize::try_from(place % length).unwrap_or_default();
    if let Some(byte) = bytes.get_mut(place) {
        *byte ^= BIT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrupted_messages_are_never_read() {
        for place in 0..500 {
            let message = Message {
                content: "ä text".into(),
                ..Message::default()
            };
            let arrival = |corruption| Arrival {
                message: message.clone(),
                corruption,
            };
            assert_eq!(arrival(None).read().unwrap(), message);
            assert!(arrival(Some(place)).read().is_err(), "{place}");
        }
        corrupt(&mut [], 7);
    }
}
