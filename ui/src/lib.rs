//! The live page of cloudsim: its files, compressed when this crate is built, and the headers with which a browser gets them. No IO.
//!
//! The page is in `page/`: HTML, CSS and JavaScript modules that a browser runs as they are. `page/vendor/` has libraries of others with
//! their licences.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

/// The path prefix of the page.
pub const PREFIX: &str = "/ui/";

/// What the browser may load and do: only what this server sends, no inline scripts, and no other page may embed it.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'";
/// The headers of each response.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    // the browser asks each time whether its copy is current
    ("cache-control", "no-cache"),
];

/// A file of the page.
#[derive(Debug)]
struct PageFile {
    /// Its path below the prefix.
    name: &'static str,
    content_type: &'static str,
    /// Its entity tag.
    tag: &'static str,
    gzip: &'static [u8],
}

/// All files.
const FILES: &[PageFile] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Answers a request for a file of the page. `path` is that of the request.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Response<Bytes> {
    let name = match path.strip_prefix(PREFIX) {
        Some("") => "index.html",
        Some(name) => name,
        // relative paths of the page need the slash
        None => return redirect(PREFIX),
    };
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return message(StatusCode::NOT_FOUND, "The page has no such file.");
    };
    if method != Method::GET && method != Method::HEAD {
        return message(StatusCode::METHOD_NOT_ALLOWED, "Use GET.");
    }
    let has_copy = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim().trim_start_matches("W/") == file.tag);
    let mut response = match has_copy {
        true => empty(StatusCode::NOT_MODIFIED),
        false => Response::new(Bytes::from_static(file.gzip)),
    };
    let own = response.headers_mut();
    if !has_copy {
        own.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        own.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(file.content_type),
        );
    }
    own.insert(header::ETAG, HeaderValue::from_static(file.tag));
    with_headers(response)
}

/// Returns a response that sends the browser to another path of this server.
pub fn redirect(path: &'static str) -> Response<Bytes> {
    let mut response = empty(StatusCode::SEE_OTHER);
    let place = HeaderValue::from_static(path);
    response.headers_mut().insert(header::LOCATION, place);
    with_headers(response)
}

/// Returns a response with a sentence for the visitor.
pub fn message(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(format!("{text}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    with_headers(response)
}

fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

fn with_headers(mut response: Response<Bytes>) -> Response<Bytes> {
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests;
