//! Reads files that the kernel writes.

use std::{fs, path::Path};

use anyhow::{Context, ensure};

/// Returns the text of a file such as those below `/proc`, which is never empty.
pub(super) fn read(path: impl AsRef<Path>) -> anyhow::Result<String> {
    let path = path.as_ref();
    let text =
        fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    ensure!(!text.is_empty(), "{} is empty", path.display());
    Ok(text)
}
