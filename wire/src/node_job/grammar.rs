//! What values in the spec of a node job look like. The API checks them, and the node does so again before it uses them.
//!
//! Each function returns why the value is invalid.

/// The longest version, bytes.
const MAX_VERSION: usize = 128;
/// The longest image, bytes.
const MAX_IMAGE: usize = 512;
/// The resources that a node can check.
const CHECK_ITEMS: [&str; 3] = ["cpu", "mem", "disk"];

/// Checks a version: `v1.23.0`, or `v1.23.0-beta.1` with parts of letters, digits, `.` and `_`.
///
/// # Errors
/// Why it is invalid.
pub fn check_version(version: &str) -> Result<(), String> {
    let form = || "must be v and three numbers, for example v1.23.0 or v1.23.0-beta.1".to_owned();
    if version.len() > MAX_VERSION {
        return Err(format!("must have at most {MAX_VERSION} characters"));
    }
    let mut parts = version.strip_prefix('v').ok_or_else(form)?.split('-');
    let numbers: Vec<&str> = parts.next().unwrap_or_default().split('.').collect();
    let is_number =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
    };
    if numbers.len() == 3 && numbers.iter().all(is_number) && parts.all(is_word) {
        Ok(())
    } else {
        Err(form())
    }
}

/// Checks the name of an image: `REGISTRY/PATH` or `PATH/NAME`, with a tag or a digest.
///
/// # Errors
/// Why it is invalid.
pub fn check_image(image: &str) -> Result<(), String> {
    let form = || {
        "must be the name of an image with at least one slash, for example kubeedge/installation-package"
            .to_owned()
    };
    if image.len() > MAX_IMAGE {
        return Err(format!("must have at most {MAX_IMAGE} characters"));
    }
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err("must end with @sha256: and 64 hexadecimal digits".to_owned());
    }
    let (directory, last) = name.rsplit_once('/').ok_or_else(form)?;
    let (last, tag) = match last.split_once(':') {
        Some((last, tag)) => (last, Some(tag)),
        None => (last, None),
    };
    let is_tag = |tag: &str| {
        !tag.is_empty()
            && tag.len() <= 128
            && is_made_of(tag, b"._-")
            && !tag.starts_with(['.', '-'])
    };
    let mut directories = directory.split('/');
    let first = directories.next().unwrap_or_default();
    let (host, port) = first.split_once(':').unwrap_or((first, "0"));
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let are_names = [host, last]
        .into_iter()
        .chain(directories)
        .all(is_component);
    if are_names && is_port && tag.is_none_or(is_tag) {
        Ok(())
    } else {
        Err(form())
    }
}

/// Checks the resources that a node checks first: `cpu`, `mem` and `disk`.
///
/// # Errors
/// The first unknown one.
pub fn check_items<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    match items.into_iter().find(|item| !CHECK_ITEMS.contains(item)) {
        Some(item) => Err(format!("{item:?} is unknown; use cpu, mem or disk")),
        None => Ok(()),
    }
}

/// Checks the name of a job. KubeEdge's CloudHub looks for the first `node` in the path of a message, so that it would send a job of this
/// name to the wrong node.
///
/// # Errors
/// Why it is invalid.
pub fn check_name(name: &str) -> Result<(), String> {
    if name == "node" {
        return Err("a node job cannot be named \"node\"; choose another name".to_owned());
    }
    Ok(())
}

fn is_digest(digest: &str) -> bool {
    digest
        .strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_made_of(text: &str, others: &[u8]) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}

/// Reports whether `text` is a part of the path of an image, or a host.
fn is_component(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    is_end(text.bytes().next()) && is_end(text.bytes().next_back()) && is_made_of(text, b"._-")
}
