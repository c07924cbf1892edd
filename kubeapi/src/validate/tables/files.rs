//! The files of volumes.

use crate::validate::{
    engine::{
        Row,
        Rule::{self, Format, Limited, Required},
        row,
    },
    formats,
};

/// The mode of a file.
pub const MODE: Rule = Limited(
    0,
    0o777,
    "must be a number between 0 and 0777 (octal), both inclusive",
);

/// A key of a secret or config map, and the file for it.
pub static KEY_TO_PATH: &[Row] = &[
    row("key", Required("")),
    row("path", Required("")),
    row("path", Format(formats::file_path)),
    row("mode", MODE),
];
