//! Splits a stream of bytes into WebSocket frames (RFC 6455 §5.2) and reads their messages.

/// A complete frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The frame as it was on the wire.
    pub(crate) bytes: Vec<u8>,
    /// The message that it carries; `None` for pings, pongs and close frames.
    pub(crate) message: Option<Vec<u8>>,
}

/// Takes the first frame out of `buffer`; `None` if it is incomplete.
pub(crate) fn take(buffer: &mut Vec<u8>) -> Option<Frame> {
    let (first, second) = (*buffer.first()?, *buffer.get(1)?);
    let (length, mut at) = match second & 0x7f {
        126 => (
            usize::from(u16::from_be_bytes(buffer.get(2..4)?.try_into().ok()?)),
            4,
        ),
        127 => (
            usize::try_from(u64::from_be_bytes(buffer.get(2..10)?.try_into().ok()?)).ok()?,
            10,
        ),
        short => (usize::from(short), 2),
    };
    let mask: [u8; 4] = if second & 0x80 == 0 {
        [0; 4]
    } else {
        at += 4;
        buffer.get(at - 4..at)?.try_into().ok()?
    };
    let payload = buffer.get(at..at + length)?;
    let is_message = matches!(first & 0x0f, 1 | 2);
    let unmasked = || {
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask)
            .collect()
    };
    let message = is_message.then(unmasked);
    let rest = buffer.split_off(at + length);
    Some(Frame {
        bytes: std::mem::replace(buffer, rest),
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_when_they_are_whole() {
        // These are the examples of RFC 6455 §5.7.
        let masked = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        let mut buffer = masked.to_vec();
        buffer.extend([0x89, 0x00, 0x81]);
        let hello = take(&mut buffer).unwrap();
        assert_eq!(
            (hello.bytes.as_slice(), hello.message.as_deref()),
            (&masked[..], Some(&b"Hello"[..]))
        );
        assert_eq!(
            take(&mut buffer),
            Some(Frame {
                bytes: vec![0x89, 0x00],
                message: None
            })
        );
        assert_eq!((take(&mut buffer), buffer.len()), (None, 1));
        let mut long = vec![0x82, 0x7e, 0x01, 0x00];
        long.extend([7; 255]);
        assert_eq!(take(&mut long), None);
        long.push(7);
        assert_eq!(take(&mut long).unwrap().message, Some(vec![7; 256]));
        assert!(long.is_empty());
    }
}
