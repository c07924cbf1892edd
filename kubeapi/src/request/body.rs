//! Reads the bodies of requests, within limits, and makes those of responses.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{
    BodyExt, Full, LengthLimitError, Limited, StreamBody, combinators::UnsyncBoxBody,
};
use limits::excerpt;
use serde_json::Value;
use tokio::time::timeout;

use crate::{request::proto, status::StatusError};

/// The error of a service or of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The body of a request. It is boxed, as that of a response, so that the code behind it is compiled once for all kinds of bodies.
pub type RequestBody = UnsyncBoxBody<Bytes, Broken>;

/// The body ended with an error of its connection.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Broken(BoxError);

/// Boxes the body of a request.
pub fn request_body<B>(body: B) -> RequestBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(|error| Broken(error.into())).boxed_unsync()
}

/// The largest body of a request in bytes: the API server's limit.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// Characters of all warnings of a response, as in the API server. Beyond it, each warning is truncated to [`WARNING_CHARACTERS`].
const WARNINGS_CHARACTERS: usize = 4 * 1024;

/// Characters of a truncated warning. Truncated warnings are sent until [`WARNINGS_CHARACTERS`] is reached.
const WARNING_CHARACTERS: usize = 256;

/// The media types accepted for objects in requests.
const ACCEPTED_MEDIA_TYPES: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// How long reading a body may take: the API server's request timeout. Without it, a client that sends a byte now and then would hold a
/// connection for ever.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadBodyError {
    /// The body is larger than this many bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The body was not complete within this time.
    #[error("the body was not received within {0:?}")]
    Timeout(Duration),
    /// The connection ended before the body.
    #[error("the body was interrupted: {0}")]
    Broken(BoxError),
}

impl ReadBodyError {
    /// Returns the HTTP status for this error.
    pub fn code(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a whole body from outside: at most `limit` bytes, within a minute.
///
/// # Errors
/// Fails where the body is larger, late, or breaks off.
pub async fn gather<B>(body: B, limit: usize) -> Result<Bytes, ReadBodyError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    gather_within(body, limit, BODY_READ_TIMEOUT).await
}

async fn gather_within<B>(body: B, limit: usize, patience: Duration) -> Result<Bytes, ReadBodyError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    match timeout(patience, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ReadBodyError::TooLarge(limit)),
        Ok(Err(error)) => Err(ReadBodyError::Broken(error)),
        Err(_) => Err(ReadBodyError::Timeout(patience)),
    }
}

/// Reads the whole body of a request.
pub async fn read<B>(body: B) -> Result<Bytes, StatusError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    gather(body, MAX_BODY_BYTES)
        .await
        .map_err(|unread| match unread {
            ReadBodyError::TooLarge(limit) => StatusError::too_large(limit),
            late @ ReadBodyError::Timeout(_) => StatusError::late(late.to_string()),
            broken @ ReadBodyError::Broken(_) => StatusError::bad_request(broken.to_string()),
        })
}

/// Reads the object in a request's body (JSON, YAML or protobuf), for services that handle requests before the API does.
///
/// # Errors
/// Says what is wrong with the body, for the client.
pub fn object_of(headers: &HeaderMap, body: &Bytes) -> Result<Value, String> {
    parse(headers, body, "object").map_err(|error| error.message().to_owned())
}

/// Reads the object in a request's body, JSON, YAML or protobuf, which should be of `kind`.
pub fn parse(headers: &HeaderMap, body: &Bytes, kind: &str) -> Result<Value, StatusError> {
    let value = match media_type(headers) {
        "application/json" | "" => serde_json::from_slice(body).map_err(|error| json_fault(&error)),
        "application/yaml" => read_yaml(body),
        proto::MEDIA_TYPE => {
            return proto::decode(body)
                .map_err(|error| StatusError::bad_request(error.to_string()));
        }
        _ => return Err(StatusError::unsupported_media_type(ACCEPTED_MEDIA_TYPES)),
    };
    match value {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(unrecognized_body(kind, NOT_AN_OBJECT, body)),
        Err(why) => Err(unrecognized_body(kind, &why, body)),
    }
}

/// Why a value that is not an object has no kind.
pub const NOT_AN_OBJECT: &str =
    "couldn't get version/kind; json parse error: json: cannot unmarshal what is not an object";

/// Says why JSON has no kind, with the API server's text for a body that ends too early.
fn json_fault(error: &serde_json::Error) -> String {
    let why = if error.is_eof() {
        "unexpected end of JSON input".to_owned()
    } else {
        excerpt(&error.to_string())
    };
    format!("couldn't get version/kind; json parse error: {why}")
}

/// 400 for a body of which not even the kind can be read, with the beginning of the body.
pub fn unrecognized_body(kind: &str, why: &str, body: &[u8]) -> StatusError {
    let summary = summary(body);
    let message =
        format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})");
    StatusError::bad_request(message)
}

/// Returns the beginning of a body: as text if it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const MAX_SHOWN_BYTES: usize = 30;
    let shown = body.get(..MAX_SHOWN_BYTES).unwrap_or(body);
    let more = if shown.len() < body.len() { " ..." } else { "" };
    match shown {
        [] => "<empty>".to_owned(),
        [b'{', ..] => format!("{}{more}", String::from_utf8_lossy(shown)),
        _ => shown
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .chain([more.to_owned()])
            .collect(),
    }
}

/// Returns the media type of a request's body, without parameters.
pub fn media_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Reports whether a request's body is JSON (an object or a patch). A body without a media type is.
pub fn is_json(headers: &HeaderMap) -> bool {
    let media_type = media_type(headers);
    media_type.is_empty() || media_type.ends_with("json")
}

/// Parses JSON; the parser limits the nesting.
pub fn json(body: &[u8]) -> Result<Value, StatusError> {
    serde_json::from_slice(body).map_err(|error| {
        StatusError::bad_request(format!(
            "the body is not JSON: {}",
            excerpt(&error.to_string())
        ))
    })
}

/// Parses YAML, which includes JSON.
pub fn yaml(body: &[u8]) -> Result<Value, StatusError> {
    read_yaml(body).map_err(|why| StatusError::bad_request(format!("the body is not YAML: {why}")))
}

fn read_yaml(body: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
    // of a key that stands twice the last one counts, as in JSON; whoever wants to know is told
    let last = serde_saphyr::DuplicateKeyPolicy::LastWins;
    serde_saphyr::from_str_with_options(
        text,
        serde_saphyr::options! { duplicate_keys: last, with_snippet: false },
    )
    .map_err(|error| {
        let error = error.to_string();
        let why = match error.strip_prefix("multiple YAML documents detected") {
            // the rest is advice for programmers
            Some(_) => "it has several documents; send one at a time",
            None if error.contains("budget breached") => {
                "it has too many values, aliases or levels to be read safely; send it as JSON"
            }
            None => &error,
        };
        excerpt(why)
    })
}

/// Makes a body of bytes in memory.
pub(crate) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Makes a JSON response. Each warning becomes a header that kubectl prints.
pub fn answer(code: StatusCode, json: Bytes, warnings: &[String]) -> Response<Body> {
    let mut response = Response::new(whole(json));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    let mut told = HashSet::new();
    let warnings = warnings.iter().map(String::as_str);
    let warnings: Vec<_> = warnings
        .filter(|warning| !warning.is_empty() && told.insert(*warning))
        .collect();
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    if total <= WARNINGS_CHARACTERS {
        warnings
            .iter()
            .for_each(|warning| warn(&mut response, warning));
        return response;
    }
    let mut written = 0;
    for warning in warnings {
        if written >= WARNINGS_CHARACTERS {
            break;
        }
        let cut: String = warning.chars().take(WARNING_CHARACTERS).collect();
        written += cut.chars().count();
        warn(&mut response, &cut);
    }
    response
}

/// Makes the response to a request that is refused.
pub fn refusal(error: &StatusError) -> Response<Body> {
    answer(error.code, Bytes::from(error.body().to_string()), &[])
}

/// Adds a warning header to a response.
pub fn warn(response: &mut Response<Body>, warning: &str) {
    let quoted = warning
        .replace(char::is_control, " ")
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// Makes a plain text response, as of the health endpoints.
pub fn text(text: String) -> Response<Body> {
    let mut response = Response::new(whole(text.into()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// Makes the 404 for a path that is none of the API.
pub fn page_not_found() -> Response<Body> {
    let mut response = text("404 page not found\n".to_owned());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// Makes a response whose body lasts until the stream ends.
pub fn stream(
    stream: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(stream.map_ok(Frame::data)).boxed_unsync());
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

#[cfg(test)]
mod tests {
    use futures::stream::{self, StreamExt};

    use super::*;

    fn frame(bytes: &'static [u8]) -> Result<Frame<Bytes>, BoxError> {
        Ok(Frame::data(Bytes::from_static(bytes)))
    }

    #[test]
    fn what_cannot_be_read_is_not_repeated() {
        let long = "x".repeat(10_000);
        for (text, why) in [
            (format!("a: [{long}"), "unclosed bracket '['"),
            (
                format!("a: 1\n---\nb: {long}"),
                "it has several documents; send one at a time",
            ),
            (
                format!("[{}]", "1,".repeat(260_000)),
                "it has too many values, aliases or levels",
            ),
            (format!("a: !!{long} x"), "the body is not YAML"),
            (format!("{{{long}"), "the body is not YAML"),
        ] {
            let told = yaml(text.as_bytes()).map_err(|error| error.message().to_owned());
            let told = told.err().unwrap_or_else(|| "the body is not YAML".into());
            assert!(told.contains(why) && told.len() < 400, "{told}");
        }
    }

    #[tokio::test]
    async fn a_body_has_an_end_and_a_time() {
        let patience = Duration::from_millis(20);
        let whole = StreamBody::new(stream::iter([frame(b"ab"), frame(b"c")]));
        assert_eq!(gather_within(whole, 3, patience).await.unwrap(), "abc");
        let endless = StreamBody::new(stream::repeat_with(|| frame(b"abcd")));
        let refused = gather_within(endless, 1024, Duration::from_secs(60))
            .await
            .unwrap_err();
        assert_eq!(
            (refused.code().as_u16(), refused.to_string().as_str()),
            (413, "the body is larger than 1024 bytes")
        );
        let stuck = StreamBody::new(stream::iter([frame(b"a")]).chain(stream::pending()));
        let refused = gather_within(stuck, 1024, patience).await.unwrap_err();
        assert_eq!(
            (refused.code().as_u16(), refused.to_string().as_str()),
            (408, "the body was not received within 20ms")
        );
        let broken = StreamBody::new(stream::iter([frame(b"a"), Err("gone".into())]));
        let refused = gather_within(broken, 1024, patience).await.unwrap_err();
        assert_eq!(
            (refused.code().as_u16(), refused.to_string().as_str()),
            (400, "the body was interrupted: gone")
        );
    }

    #[test]
    fn warnings_are_cut_where_there_are_too_many() {
        let told = |warnings: &[String]| {
            let answer = answer(StatusCode::OK, Bytes::new(), warnings);
            let values = answer.headers().get_all(header::WARNING).iter();
            values
                .map(|value| value.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let few = vec!["a\nb \"c\"".to_owned(), String::new(), "d".repeat(4000)];
        assert_eq!(
            told(&few),
            [
                "299 - \"a b \\\"c\\\"\"".to_owned(),
                format!("299 - \"{}\"", "d".repeat(4000))
            ]
        );
        assert_eq!(told(&vec!["e".to_owned(); 100_000]), ["299 - \"e\""]);
        let many: Vec<_> = (0..100_000)
            .map(|number| format!("{number:06}{}", "x".repeat(300)))
            .collect();
        let cut = |number: usize| format!("299 - \"{number:06}{}\"", "x".repeat(250));
        assert_eq!(told(&many), (0..16).map(cut).collect::<Vec<_>>());
    }
}
