//! Encodes an ordinary response as HTTP/1.1 for streams that carry raw connections, so that the cloud sees its status. The body
//! is chunked, so that a truncated one is not taken for complete.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};

/// The end of a chunked body.
pub(super) const END_OF_BODY: &[u8] = b"0\r\n\r\n";

/// Encodes the head of a response.
pub(super) fn head(status: StatusCode, headers: &HeaderMap) -> Bytes {
    let reason = status.canonical_reason().unwrap_or("Unknown");
    let mut head = BytesMut::new();
    head.put_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).as_bytes());
    let ours = [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ];
    for (name, value) in headers.iter().filter(|(name, _)| !ours.contains(name)) {
        head.put_slice(name.as_str().as_bytes());
        head.put_slice(b": ");
        head.put_slice(value.as_bytes());
        head.put_slice(b"\r\n");
    }
    head.put_slice(b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
    head.freeze()
}

/// Encodes a chunk of the body, which must not be empty.
pub(super) fn chunk(bytes: &[u8]) -> Bytes {
    let mut chunk = BytesMut::from(format!("{:x}\r\n", bytes.len()).as_bytes());
    chunk.put_slice(bytes);
    chunk.put_slice(b"\r\n");
    chunk.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_http() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "text/plain".parse().unwrap());
        headers.insert(header::CONTENT_LENGTH, "7".parse().unwrap());
        let text = [
            &head(StatusCode::NOT_FOUND, &headers)[..],
            &chunk(b"sixteen bytes ok"),
            END_OF_BODY,
        ]
        .concat();
        let expected = "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\nConnection: close\r\n\
            Transfer-Encoding: chunked\r\n\r\n10\r\nsixteen bytes ok\r\n0\r\n\r\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
