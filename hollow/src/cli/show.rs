//! `cloudsim show` and `cloudsim diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cloudsim::faults::Period;

use crate::nearest;

/// What is shown of a recording.
#[derive(Clone, Debug, Args)]
pub struct Show {
    /// Recordings, older files first; `-` reads stdin
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Wait for more of the last file until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,

    /// Only connections of this node
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,

    /// Only messages of this kind, for example pod-status. Repeatable
    #[arg(long = "kind", value_name = "KIND", value_parser = kind)]
    pub kinds: Vec<String>,

    /// Only messages about this object, NAME or NAMESPACE/NAME
    #[arg(long, value_name = "OBJECT")]
    pub object: Option<String>,

    /// Only messages from this time after the begin of the recording, for example 90s
    #[arg(long, value_name = "TIME")]
    pub since: Option<Period>,

    /// Only messages up to this time after the begin
    #[arg(long, value_name = "TIME")]
    pub until: Option<Period>,

    /// Output format: json or lanes [default: a table]
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    pub output: Option<ShowFormat>,
}

/// Parses a kind of frames.
fn kind(text: &str) -> Result<String, String> {
    if record::kinds().any(|kind| kind == text) {
        return Ok(text.to_owned());
    }
    let near = nearest(text, record::kinds());
    Err(format!(
        "no frame has this kind{near}; `cloudsim show` prints the kinds of a recording"
    ))
}

/// How a recording is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    /// Each frame as a line of JSON
    Json,
    /// An arrow between edge and cloud for each frame
    Lanes,
}

/// Two recordings that are compared.
#[derive(Clone, Debug, Args)]
pub struct Diff {
    /// First recording
    #[arg(value_name = "FILE")]
    pub first: PathBuf,

    /// Second recording
    #[arg(value_name = "FILE")]
    pub second: PathBuf,

    /// Only connections of this node; two names separated by a comma if the recordings have different ones
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub node: Vec<String>,

    /// Only messages of this kind, for example pod-status. Repeatable
    #[arg(long = "kind", value_name = "KIND", value_parser = kind)]
    pub kinds: Vec<String>,

    /// Output format: text or json
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub output: DiffFormat,
}

/// How differences are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// Lines for people
    Text,
    /// One JSON document
    Json,
}
