//! The options of results and of log files. The program `cloudsim` uses them as well.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;

use super::values;

/// What a result is printed as for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Output {
    /// Formats the value as a document that ends with a newline.
    ///
    /// # Errors
    /// The value cannot be serialized.
    pub fn document(self, value: &impl Serialize) -> anyhow::Result<String> {
        Ok(match self {
            Self::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
            Self::Yaml => format!("{}\n", serde_saphyr::to_string(value)?.trim_end()),
        })
    }
}

/// How one result is printed.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputArgs {
    /// Output format: json or yaml [default: text]
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    pub format: Option<Output>,
}

/// The logs of a bug report.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct LogArgs {
    /// Start of the logs: a duration before now or a time
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = values::time)]
    pub since: Timestamp,

    /// End of the logs: a duration before now or a time [default: now]
    #[arg(long, value_name = "WHEN", value_parser = values::time)]
    pub until: Option<Timestamp>,

    /// Another log file to include. Repeatable
    #[arg(long = "log-file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
}
