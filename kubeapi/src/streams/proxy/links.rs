//! Rewrites the links in a backend's HTML, so that they lead through the proxy.

use std::{mem, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::Frame;
use lol_html::{
    MemorySettings, OutputSink, element,
    errors::RewritingError,
    send::{Element, HtmlRewriter, Settings},
};
use parking_lot::Mutex;

use super::{location::link_through_proxy, path::ProxyPath};
use crate::Body;

/// The attributes that are links, by element. Source: `atomsToAttrs` of `k8s.io/apimachinery/pkg/util/proxy`.
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// The longest tag, in bytes. From a longer one on, a page is sent as it is.
const MAX_TAG_BYTES: usize = 256 * 1024;

/// Reports whether a response with these headers is a page whose links are rewritten: HTML that is not compressed.
pub(super) fn are_in(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    kind == Some("text/html") && !headers.contains_key(header::CONTENT_ENCODING)
}

/// Returns a response's body; in a page, all links lead through the proxy. Pages are UTF-8, as in kube-apiserver.
pub(super) fn through_proxy(headers: &HeaderMap, page: Body, place: &ProxyPath) -> Body {
    if !are_in(headers) {
        return page;
    }
    let rewriter = Some(Rewriter::new(place.prefix.clone()));
    let frames = stream::unfold(
        (BodyStream::new(page), rewriter),
        async |(mut page, rewriter)| {
            let mut rewriter = rewriter?;
            loop {
                let written = match page.next().await {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(bytes) => rewriter.write(&bytes),
                        Err(trailers) => return Some((Ok(trailers), (page, Some(rewriter)))),
                    },
                    Some(Err(error)) => return Some((Err(error), (page, None))),
                    None => {
                        let last = rewriter.end().map(Frame::data).map_err(Into::into);
                        return Some((last, (page, None)));
                    }
                };
                match written {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Some((Ok(Frame::data(bytes)), (page, Some(rewriter)))),
                    Err(error) => return Some((Err(error.into()), (page, None))),
                }
            }
        },
    );
    StreamBody::new(frames).boxed_unsync()
}

/// What the rewriter has written and nobody has taken.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl OutputSink for Written {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.0.lock().extend_from_slice(chunk);
    }
}

impl Written {
    fn take(&self) -> Bytes {
        mem::take(&mut *self.0.lock()).into()
    }
}

/// Rewrites a page that comes in parts.
struct Rewriter {
    /// None after a tag that is too long.
    html: Option<HtmlRewriter<'static, Written>>,
    written: Written,
}

impl Rewriter {
    fn new(prefix: String) -> Self {
        let written = Written::default();
        let prefix = Arc::new(prefix);
        let handlers = LINKS.iter().map(|(name, attributes)| {
            let prefix = Arc::clone(&prefix);
            element!(*name, move |element: &mut Element<'_, '_>| {
                for attribute in *attributes {
                    let link = element.get_attribute(attribute);
                    if let Some(link) = link.and_then(|link| link_through_proxy(&link, &prefix)) {
                        element.set_attribute(attribute, &link)?;
                    }
                }
                Ok(())
            })
        });
        let memory = MemorySettings::new()
            .with_max_allowed_memory_usage(MAX_TAG_BYTES)
            .with_graceful_bail_out_on_memory_limit_exceeded(true);
        // a page with faults is sent with them
        let settings = Settings::new_send()
            .with_strict(false)
            .with_memory_settings(memory);
        let settings = handlers.fold(settings, Settings::append_element_content_handler);
        Self {
            html: Some(HtmlRewriter::new(settings, written.clone())),
            written,
        }
    }

    fn write(&mut self, part: &Bytes) -> Result<Bytes, RewritingError> {
        let Some(html) = &mut self.html else {
            return Ok(part.clone());
        };
        match html.write(part) {
            // it has written what it had read
            Err(RewritingError::MemoryLimitExceeded(_)) => self.html = None,
            written => written?,
        }
        Ok(self.written.take())
    }

    fn end(self) -> Result<Bytes, RewritingError> {
        if let Some(html) = self.html {
            html.end()?;
        }
        Ok(self.written.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a page that comes in parts of this many bytes.
    fn page(html: &str, size: usize) -> String {
        let mut rewriter = Rewriter::new("/api/v1/namespaces/n/pods/p/proxy".into());
        let mut whole = Vec::new();
        for part in html.as_bytes().chunks(size) {
            let part = Bytes::copy_from_slice(part);
            whole.extend(rewriter.write(&part).unwrap());
        }
        whole.extend(rewriter.end().unwrap());
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn links_lead_through_the_proxy() {
        let prefix = "/api/v1/namespaces/n/pods/p/proxy";
        for (html, expected) in [
            (
                "<a href=\"/x?y=1\">test</a>",
                format!("<a href=\"{prefix}/x?y=1\">test</a>"),
            ),
            (
                "<IMG SRC='/a.png'/>é",
                format!("<IMG SRC=\"{prefix}/a.png\" />é"),
            ),
            (
                "<a href=\"x\"><a href=\"//other/x\">",
                "<a href=\"x\"><a href=\"//other/x\">".into(),
            ),
            (
                "<a href=\"https://other/x\">",
                "<a href=\"https://other/x\">".into(),
            ),
            (
                "<p href=\"/x\"><!-- <a href=\"/x\"> --></p",
                "<p href=\"/x\"><!-- <a href=\"/x\"> --></p".into(),
            ),
            (
                "<script>'<a href=\"/x\">'</script>",
                "<script>'<a href=\"/x\">'</script>".into(),
            ),
        ] {
            for size in [1, 7, 1000] {
                assert_eq!(page(html, size), expected, "{html} in parts of {size}");
            }
        }
    }

    #[test]
    fn a_page_with_a_huge_tag_is_sent_as_it_is() {
        let huge = format!(
            "<a href=\"/{}\"><a href=\"/x\">",
            "x".repeat(2 * MAX_TAG_BYTES)
        );
        assert_eq!(page(&huge, 1000), huge);
    }

    #[test]
    fn only_plain_html_is_rewritten() {
        for (kind, encoding, expected) in [
            ("text/html", None, true),
            ("text/html; charset=utf-8", None, true),
            ("text/html", Some("gzip"), false),
            ("text/plain", None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
            if let Some(encoding) = encoding {
                headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
            }
            assert_eq!(are_in(&headers), expected, "{kind} {encoding:?}");
        }
    }
}
