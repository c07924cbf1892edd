//! `cloudsim diff`: compares two recordings by meaning.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use replay::{Comparison, Script, Selection, compare};
use wire::text::count;

use super::{print_line, warn};
use crate::cli::{Diff, DiffFormat};

/// The exit code if a recording cannot be used, as of `kubectl diff`.
pub(super) const UNUSABLE: u8 = 2;

/// A recording that cannot be used; the program ends with [`UNUSABLE`].
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}", .0.display())]
pub(super) struct UnusableRecording(pub(super) PathBuf);

pub(super) fn run(diff: &Diff) -> anyhow::Result<ExitCode> {
    let node = |which: usize| diff.node.get(which).or(diff.node.last()).cloned();
    let [first, second] = [(0, &diff.first), (1, &diff.second)].map(|(which, file)| {
        let selection = Selection {
            node: node(which),
            kinds: diff.kinds.clone(),
        };
        read(file, &selection)
    });
    let comparison = compare(&first?, &second?);
    print(&comparison, diff)?;
    Ok(exit_code(&comparison))
}

/// Reads a recording, and warns if parts of it are missing.
pub(super) fn read(file: &Path, selection: &Selection) -> anyhow::Result<Script> {
    let script = Script::open(file, selection)
        .map_err(|error| anyhow::Error::new(error).context(UnusableRecording(file.to_owned())))?;
    let name = file.display();
    if let Some(offset) = script.truncated {
        warn(&format!(
            "{name} ends within a block at byte {offset}; the rest was not recorded"
        ));
    }
    if script.lost > 0 {
        let frames = count(script.lost, "frame");
        warn(&format!(
            "{name} lacks {frames}: the program sent more than the disk could write"
        ));
    }
    if script.sent.is_empty() {
        warn(&format!("{name} has no message that matches"));
    }
    Ok(script)
}

pub(super) fn exit_code(comparison: &Comparison) -> ExitCode {
    match comparison.is_same() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn print(comparison: &Comparison, diff: &Diff) -> anyhow::Result<()> {
    match diff.output {
        DiffFormat::Text => print_line(comparison.to_text(["A", "B"]).trim_end()),
        DiffFormat::Json => print_line(&serde_json::to_string_pretty(comparison)?),
    }
    Ok(())
}
