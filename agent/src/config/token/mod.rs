//! The join token outside the settings: the file that `keadm join` leaves beside them, and removing the token after use.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use componentbase::yaml;
use serde_json::{Value, value::RawValue};

use super::{Error, read_limited};

/// The file that holds nothing but the token, which has priority over the one in edgecore.yaml.
const BOOTSTRAP_FILE: &str = "bootstrap-edgecore.conf";

const TOKEN_PATH: [&str; 3] = ["modules", "edgeHub", "token"];

/// Returns the token of the bootstrap file that belongs to the configuration at `config`, if there is one. The file is in the
/// folder of edgecore.yaml or, as for `/etc/kubeedge/config/edgecore.yaml`, in the one above `config`.
pub(super) fn bootstrap_token(config: &Path) -> Result<Option<String>, Error> {
    let folder = config.parent().unwrap_or(Path::new(""));
    let above = folder.parent().filter(|_| folder.ends_with("config"));
    for file in [Some(folder), above]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(BOOTSTRAP_FILE))
    {
        match read_limited(&file) {
            Ok(text) => return Ok(Some(text.trim().to_owned())),
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Removes the token from the file at `path`, and nothing else: every other byte, the mode and the owner stay. The file is
/// replaced atomically, so that a crash leaves the old or the new one. Does nothing if there is no token.
///
/// # Errors
/// The file cannot be read, or its folder not be written to, or the token has a form that cannot be changed alone (as in
/// `edgeHub: {token: …}`). The file is then unchanged.
pub fn remove_token(path: &Path) -> Result<(), Error> {
    let text = read_limited(path)?;
    let mut document = yaml::parse(&text).map_err(|source| Error::Yaml {
        path: path.to_owned(),
        source,
    })?;
    let Some(token) = token_in(&mut document).filter(|token| !is_unset(token)) else {
        return Ok(());
    };
    *token = Value::String(String::new());
    let wiped = without_token_in_json(&text)
        .or_else(|| without_token(&text))
        .filter(|wiped| yaml::parse(wiped).is_ok_and(|wiped| wiped == document));
    let wiped = wiped.ok_or_else(|| Error::TokenStays(path.to_owned()))?;
    // a link is followed: its target is the configuration
    let target = fs::canonicalize(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    replace_like(&target, wiped.as_bytes(), &target).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

fn is_unset(token: &Value) -> bool {
    token.is_null() || token.as_str().is_some_and(str::is_empty)
}

/// Returns the token in a document; keys are compared without case, as in reading.
fn token_in(document: &mut Value) -> Option<&mut Value> {
    TOKEN_PATH.iter().try_fold(document, |value, key| {
        value
            .as_object_mut()?
            .iter_mut()
            .find(|(name, _)| name.eq_ignore_ascii_case(key))
            .map(|(_, value)| value)
    })
}

/// Removes the token from a text that is JSON, which is valid YAML, too.
fn without_token_in_json(text: &str) -> Option<String> {
    let mut value = serde_json::from_str::<&RawValue>(text).ok()?.get();
    for key in TOKEN_PATH {
        let object: BTreeMap<String, &RawValue> = serde_json::from_str(value).ok()?;
        value = object
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(key))?
            .1
            .get();
    }
    let start = value.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(format!(
        "{}\"\"{}",
        text.get(..start)?,
        text.get(start + value.len()..)?
    ))
}

/// Returns the text with the value of the token replaced by `""`, if it has a line of its own.
fn without_token(text: &str) -> Option<String> {
    let mut path: Vec<(usize, &str)> = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let start = offset;
        offset += line.len();
        let Some((indent, key, value)) = entry(line) else {
            continue;
        };
        path.retain(|(outer, _)| *outer < indent);
        path.push((indent, key));
        let here = path.len() == TOKEN_PATH.len()
            && path
                .iter()
                .zip(TOKEN_PATH)
                .all(|((_, key), wanted)| key.eq_ignore_ascii_case(wanted));
        if here {
            return Some(format!(
                "{}\"\"{}",
                text.get(..start + value.start)?,
                text.get(start + value.end..)?
            ));
        }
    }
    None
}

/// Returns the indentation, key and range of the value of a `key: value` line. The value ends before a comment. A line that
/// only looks like one does no harm, because the result is verified.
fn entry(line: &str) -> Option<(usize, &str, std::ops::Range<usize>)> {
    let body = line.trim_start_matches(' ');
    let indent = line.len() - body.len();
    if body.starts_with(['#', '-']) {
        return None;
    }
    let (key, rest) = body.split_once(':')?;
    let value = rest.trim_start();
    if value.len() == rest.len() && !rest.is_empty() {
        return None;
    }
    let start = line.len() - value.len();
    let length = value
        .find(" #")
        .and_then(|end| value.get(..end))
        .unwrap_or(value)
        .trim_end()
        .len();
    Some((
        indent,
        key.trim_end().trim_matches(['"', '\'']),
        start..start + length,
    ))
}

/// Replaces a file, on disk when this returns. The new one has the owner and mode of the file `like`.
pub(crate) fn replace_like(target: &Path, content: &[u8], like: &Path) -> io::Result<()> {
    let metadata = fs::metadata(like)?;
    let temporary = PathBuf::from(format!("{}.{}.tmp", target.display(), std::process::id()));
    let written =
        write_like(&temporary, content, &metadata).and_then(|()| fs::rename(&temporary, target));
    if written.is_err() {
        // the first error says what is wrong; this one would say the same
        let _ = fs::remove_file(&temporary);
        return written;
    }
    target
        .parent()
        .map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}

/// Writes the new file, which only its owner can read until it has the mode of the old one.
fn write_like(temporary: &Path, content: &[u8], old: &fs::Metadata) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(temporary)?;
    file.write_all(content)?;
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
