//! URLs as Go's `net/url` reads them: nothing is normalised but the scheme's case, and escapes stay as they are written.

use std::fmt;

/// A URL in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// The host with its port, without escapes.
    pub(crate) host: String,
    /// The path as it is shown: escaped where it must be.
    pub(crate) escaped_path: String,
    query: String,
    /// The text that was parsed.
    text: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What a part of a URL is, which decides on the characters that it may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

/// Parses a URL of a request: an absolute one, or a path on an unnamed host.
///
/// # Errors
/// Returns Go's text, without the URL.
pub(crate) fn parse_request_uri(text: &str) -> Result<Url, String> {
    parse(text, true).map_err(|why| format!("parse {text:?}: {why}"))
}

/// Parses a URL that may have a fragment.
///
/// # Errors
/// Returns Go's text.
pub(crate) fn parse_absolute(text: &str) -> Result<Url, String> {
    parse_request_uri(text)?;
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let url = parse(rest, false).map_err(|why| format!("parse {rest:?}: {why}"))?;
    unescape(fragment.as_bytes(), Part::Fragment)
        .map_err(|why| format!("parse {text:?}: {why}"))?;
    Ok(Url {
        text: text.to_owned(),
        ..url
    })
}

impl Url {
    /// Returns the length of its text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let host = self.host_and_port().0;
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    /// Returns the port; empty without one.
    pub(crate) fn port(&self) -> &str {
        self.host_and_port().1
    }

    fn host_and_port(&self) -> (&str, &str) {
        match self
            .host
            .rfind(':')
            .and_then(|colon| self.host.split_at_checked(colon))
        {
            Some((host, port)) if is_port(port) => (host, port.trim_start_matches(':')),
            _ => (&self.host, ""),
        }
    }

    /// Returns the parameters of the query; invalid ones are skipped, as Go does.
    pub(crate) fn query_pairs(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let text = |part: &str| unescape(part.as_bytes(), Part::Query).ok().map(into_text);
                Some((text(key)?, text(value)?))
            })
    }

    /// Returns the number of parameters at most.
    pub(crate) fn pairs(&self) -> usize {
        if self.query.is_empty() {
            0
        } else {
            1 + self.query.matches('&').count()
        }
    }
}

fn parse(text: &str, via_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && via_request {
        return Err("empty url".to_owned());
    }
    let mut url = Url {
        text: text.to_owned(),
        ..Url::default()
    };
    if text == "*" {
        url.escaped_path = "*".to_owned();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_lowercase();
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            return Ok(url);
        }
        if via_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().unwrap_or_default().contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let has_authority = !url.scheme.is_empty() || (!via_request && !rest.starts_with("///"));
    if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, path) = authority.split_at(end);
        url.host = parse_authority(authority)?;
        rest = path;
    }
    let path = unescape(rest.as_bytes(), Part::Path)?;
    url.escaped_path = if is_encoded(rest) {
        rest.to_owned()
    } else {
        escape_path(&path)
    };
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_authority(authority: &str) -> Result<String, String> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return parse_host(authority);
    };
    let host = parse_host(host)?;
    let is_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_user) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    unescape(user.as_bytes(), Part::User)?;
    Ok(host)
}

fn parse_host(host: &str) -> Result<String, String> {
    let wrong_port = |port: &str| Err(format!("invalid port {port:?} after host"));
    let Some(open) = host.rfind('[') else {
        if let Some((_, port)) = host
            .rfind(':')
            .and_then(|colon| host.split_at_checked(colon))
            && !is_port(port)
        {
            return wrong_port(port);
        }
        return unescape(host.as_bytes(), Part::Host).map(into_text);
    };
    let Some(close) = host.rfind(']').filter(|close| *close > open) else {
        return Err("missing ']' in host".to_owned());
    };
    let (name, port) = (&host[open + 1..close], &host[close + 1..]);
    if !is_port(port) {
        return wrong_port(port);
    }
    let (address, zone) = name.split_at(name.find("%25").unwrap_or(name.len()));
    let address = into_text(unescape(address.as_bytes(), Part::Host)?);
    let zone = into_text(unescape(zone.as_bytes(), Part::Zone)?);
    match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(_)) => Ok(format!("[{address}{zone}]{port}")),
        Ok(std::net::IpAddr::V4(_)) => Err("invalid IP-literal".to_owned()),
        Err(_) => Err(format!("invalid host: {}", crate::go_ip::fault(&address))),
    }
}

/// Reports whether this is nothing, or a colon with digits.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let is_host = matches!(part, Part::Host | Part::Zone);
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte != b'%' {
            if is_host && byte < 0x80 && must_be_escaped(byte, part) {
                return Err(format!(
                    "invalid character {:?} in host name",
                    char::from(byte).to_string()
                ));
            }
            bytes.push(if byte == b'+' && part == Part::Query {
                b' '
            } else {
                byte
            });
            at += 1;
            continue;
        }
        let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let escape = text.get(at..text.len().min(at + 3)).unwrap_or_default();
        let wrong = || {
            Err(format!(
                "invalid URL escape {:?}",
                String::from_utf8_lossy(escape)
            ))
        };
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
            return wrong();
        };
        let value = u8::try_from(high * 16 + low).unwrap_or_default();
        if part == Part::Host && high < 8 && escape != b"%25" {
            return wrong();
        }
        if part == Part::Zone
            && escape != b"%25"
            && value != b' '
            && must_be_escaped(value, Part::Host)
        {
            return wrong();
        }
        bytes.push(value);
        at += 3;
    }
    Ok(bytes)
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn must_be_escaped(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
        Part::Path => !b"$&+,/:;=@".contains(&byte),
        Part::User | Part::Query | Part::Fragment => true,
    }
}

/// Reports whether a path can stay as it is written.
fn is_encoded(path: &str) -> bool {
    path.bytes()
        .all(|byte| b"!'()*[]%".contains(&byte) || !must_be_escaped(byte, Part::Path))
}

fn escape_path(path: &[u8]) -> String {
    let mut escaped = String::with_capacity(path.len());
    for &byte in path {
        if must_be_escaped(byte, Part::Path) {
            escaped.push_str(&format!("%{byte:02X}"));
        } else {
            escaped.push(char::from(byte));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheme, host, host name, port, path; or the error.
    fn describe(text: &str) -> String {
        match parse_absolute(text) {
            Ok(url) => [
                &url.scheme,
                &url.host,
                url.hostname(),
                url.port(),
                &url.escaped_path,
            ]
            .join("|"),
            Err(why) => why
                .rsplit_once(": ")
                .map_or(why.clone(), |(_, why)| why.to_owned()),
        }
    }

    #[test]
    fn urls_are_read_as_go_reads_them() {
        let rows = [
            (
                "https://a.example:8443/p/q?x=1",
                "https|a.example:8443|a.example|8443|/p/q",
            ),
            (
                "HTTPS://A.Example:443/B/../c",
                "https|A.Example:443|A.Example|443|/B/../c",
            ),
            ("http://a.example", "http|a.example|a.example||"),
            ("http://a.example:80/", "http|a.example:80|a.example|80|/"),
            ("http://a.example:/", "http|a.example:|a.example||/"),
            ("http://[::1]:80/x", "http|[::1]:80|::1|80|/x"),
            (
                "http://[fe80::1%25eth0]/",
                "http|[fe80::1%eth0]|fe80::1%eth0||/",
            ),
            ("http://user:pass@host/", "http|host|host||/"),
            ("http://a/b c", "http|a|a||/b%20c"),
            ("http://a/b%2Fc", "http|a|a||/b%2Fc"),
            ("http://a/b%2fc", "http|a|a||/b%2fc"),
            ("http://a/ü", "http|a|a||/%C3%BC"),
            ("/absolute/path", "||||/absolute/path"),
            ("//host/path", "|host|host||/path"),
            ("mailto:a@b", "mailto||||"),
            ("*", "||||*"),
            ("../relative", "invalid URI for request"),
            ("a.example/x", "invalid URI for request"),
            ("", "empty url"),
            (":x", "missing protocol scheme"),
            ("http://a:b/", "invalid port \":b\" after host"),
            ("http://a b/", "invalid character \" \" in host name"),
            ("http://a/%zz", "invalid URL escape \"%zz\""),
            ("http://a/%2", "invalid URL escape \"%2\""),
            ("http://[::1", "missing ']' in host"),
            ("http://a\n/", "invalid control character in URL"),
        ];
        for (text, expected) in rows {
            assert_eq!(describe(text), expected, "{text}");
        }
    }

    #[test]
    fn queries_are_split_and_unescaped() {
        let pairs = |text: &str| {
            parse_absolute(text)
                .unwrap()
                .query_pairs()
                .collect::<Vec<_>>()
        };
        let texts = |pairs: &[(&str, &str)]| -> Vec<_> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert_eq!(
            pairs("http://a?x=1&x=a+b%21&y&=z"),
            texts(&[("x", "1"), ("x", "a b!"), ("y", ""), ("", "z")])
        );
        assert_eq!(pairs("http://a?x=%zz&a;b=1&c=2"), texts(&[("c", "2")]));
        assert!(pairs("http://a?").is_empty());
    }
}
