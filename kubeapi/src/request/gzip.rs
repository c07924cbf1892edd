//! Compression of large answers, as the real server has it (`APIResponseCompression`). Requests are not decompressed: there, too,
//! a body is read as it comes, whatever its `Content-Encoding`.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::{
    request::body::{self, Body},
    status::StatusError,
};

/// Smaller answers go faster as they are; the real server's limit.
const THRESHOLD: u64 = 128 * 1024;

/// Whether the client takes gzip.
pub(crate) fn accepts(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim() == "gzip")
}

/// The answer, compressed where it is large and whole. What has no known length is a stream, whose lines must not wait.
pub(crate) async fn compress(response: Response<Body>) -> Response<Body> {
    let is_large = response
        .body()
        .size_hint()
        .exact()
        .is_some_and(|length| length >= THRESHOLD);
    if !is_large || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let plain = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => {
            return body::refusal(&StatusError::internal(format!(
                "the response was interrupted: {error}"
            )));
        }
    };
    // a list of all pods takes longer than other requests should wait for this thread
    let small = clock::spawn_blocking({
        let plain = plain.clone();
        move || gzip(&plain)
    });
    let sent = match small.await {
        Ok(Ok(small)) => {
            parts
                .headers
                .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts
                .headers
                .append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            parts.headers.remove(header::CONTENT_LENGTH);
            Bytes::from(small)
        }
        // as it was is good too
        Ok(Err(_)) | Err(_) => plain,
    };
    Response::from_parts(parts, body::whole(sent))
}

fn gzip(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_by_those_who_say_so() {
        let cases = [
            ("gzip", true),
            ("deflate, gzip", true),
            ("br", false),
            ("gzip;q=0", false),
            ("", false),
        ];
        for (value, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(accepts(&headers), expected, "{value}");
        }
        assert!(!accepts(&HeaderMap::new()));
    }
}
