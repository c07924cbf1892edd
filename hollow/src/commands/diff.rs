//! `cloudsim diff`: compares two recordings by meaning.

use std::{path::Path, process::ExitCode};

use anyhow::Context;
use replay::{Comparison, Script, Selection, compare};
use wire::text::count;

use super::{print_line, warn};
use crate::cli::{Diff, DiffFormat};

/// The exit code if nothing was compared, as of `kubectl diff`.
pub(super) const NOT_COMPARED: u8 = 2;

/// Why nothing was compared; the program ends with [`NOT_COMPARED`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotCompared(pub(super) String);

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
    Ok(match comparison.is_same() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Reads a recording, and warns if parts of it are missing.
pub(super) fn read(file: &Path, selection: &Selection) -> anyhow::Result<Script> {
    let name = file.display();
    let script =
        Script::open(file, selection).with_context(|| NotCompared(format!("cannot use {name}")))?;
    if let Some(offset) = script.truncated {
        warn(&format!(
            "{name} ends within a block at byte {offset}; the rest was not recorded"
        ));
    }
    if script.truncated.is_none() && script.open > 0 {
        let open = count(script.open, "connection");
        warn(&format!(
            "{name} has no end of {open}: its program still runs or was killed, and the last messages may be missing"
        ));
    }
    if script.lost > 0 {
        let frames = count(script.lost, "frame");
        warn(&format!(
            "{name} lacks {frames}: the program sent more than the disk could write"
        ));
    }
    let is_all = selection.node.is_none() && selection.kinds.is_empty();
    if script.sent.is_empty() && !is_all {
        let why = format!("{name} has no message that matches; correct --node or --kind");
        return Err(NotCompared(why).into());
    }
    if script.sent.is_empty() {
        warn(&format!("{name} has no message"));
    }
    Ok(script)
}

fn print(comparison: &Comparison, diff: &Diff) -> anyhow::Result<()> {
    match diff.output {
        DiffFormat::Text => print_line(comparison.to_text(["A", "B"]).trim_end()),
        DiffFormat::Json => print_line(&serde_json::to_string_pretty(comparison)?),
    }
    Ok(())
}
