//! Checks image names; an image with an invalid name is never requested. Pure.
//!
//! `[host[:port]/]path[/path…][:tag][@algorithm:hex]`, by the rules of the OCI distribution specification.

/// Maximum length of a name without tag and digest.
const MAX_NAME: usize = 255;
/// Maximum length of a tag.
const MAX_TAG: usize = 128;
/// Minimum number of hexadecimal digits of a digest.
const MIN_DIGEST: usize = 32;
/// Number of hexadecimal digits that would be taken for an image id.
const ID_DIGITS: usize = 64;

/// Returns an error in the kubelet's words if the name is invalid.
pub(super) fn check(image: &str) -> Result<(), String> {
    if is_valid(image) {
        return Ok(());
    }
    let why = if is_valid(&image.to_lowercase()) {
        ": repository name must be lowercase"
    } else {
        ""
    };
    Err(format!(
        "Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: invalid reference format{why}"
    ))
}

fn is_valid(image: &str) -> bool {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    // a colon before the last slash belongs to the host
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    name.len() <= MAX_NAME
        && is_name(name)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

fn is_name(name: &str) -> bool {
    if name.len() == ID_DIGITS && name.bytes().all(is_hex) {
        return false;
    }
    match name.split_once('/') {
        Some((host, path))
            if host.contains(['.', ':']) || host == "localhost" || host != host.to_lowercase() =>
        {
            is_host(host) && path.split('/').all(is_path_component)
        }
        _ => name.split('/').all(is_path_component),
    }
}

fn is_host(host: &str) -> bool {
    let (address, port) = match host.rsplit_once(':') {
        Some((address, port)) if !port.ends_with(']') => (address, Some(port)),
        _ => (host, None),
    };
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
    };
    let is_address = match address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => address.split('.').all(is_label),
    };
    is_address
        && port
            .is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reports whether `part` consists of lower-case letters and digits, separated by one `.`, one or two `_`, or any number of `-`.
fn is_path_component(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let at_ends = [bytes.first(), bytes.last()]
        .into_iter()
        .all(|end| end.is_some_and(|byte| is_word(*byte)));
    at_ends
        && bytes.split(|byte| is_word(*byte)).all(|between| {
            matches!(between, b"" | b"." | b"_" | b"__") || between.iter().all(|byte| *byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(is_word)
        && tag
            .bytes()
            .all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        let mut parts = algorithm.split(['+', '.', '_', '-']);
        let is_path_component = |part: &str| {
            part.bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        parts.all(is_path_component) && hex.len() >= MIN_DIGEST && hex.bytes().all(is_hex)
    })
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        let digest = "a".repeat(64);
        for good in [
            "nginx",
            "nginx:1.27",
            "library/nginx",
            "localhost/nginx",
            "localhost:5000/a/b:1",
            "registry.example.com:5000/team-x/my__app.v2/a--b:V1.0_x-y",
            "Host/app",
            "[2001:db8::1]:5000/app",
            "10.0.0.1/app",
            &format!("nginx@sha256:{digest}"),
            &format!("host.example/nginx:1@sha256:{digest}"),
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = format!("a/{}", "b".repeat(MAX_NAME));
        let (hex, short) = ("a".repeat(ID_DIGITS), "nginx@sha256:abc");
        for bad in [
            "",
            " ",
            "nginx:",
            "nginx:-x",
            "/nginx",
            "nginx/",
            "a//b",
            "a..b",
            "a___b",
            "-a",
            "a-",
            "Nginx:1",
            "a b",
            "a/B",
            "host:port/a",
            "-host.x/a",
            "[::g]/a",
            "a@",
            "a@b",
            "é",
            "a:b:c",
            &long,
            &hex,
            short,
            "http://a/b",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        assert!(check("Nginx:1").is_err_and(|message| message.ends_with("must be lowercase")));
        assert!(check("a b").is_err_and(|message| message.ends_with("invalid reference format")));
    }
}
