//! The errors and warnings of a configuration, with their path and cure.

use std::fmt;

/// An error, which prevents the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path, such as `modules.edgeHub.token`.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// The line in the file; `None` if the file does not set it.
    pub line: Option<u64>,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_line(f, self.line)?;
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// A warning about something that is surely not intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What is not intended.
    pub kind: WarningKind,
    /// The line in the file; `None` if the file does not set it.
    pub line: Option<u64>,
}

/// What is surely not intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// No version of EdgeCore knows this key; it is ignored.
    UnknownKey {
        /// The path of the key.
        path: String,
        /// The key that may have been meant.
        near: Option<String>,
    },
    /// The key is known with another case, and read as that.
    Case {
        /// The path of the key.
        path: String,
        /// The right spelling.
        right: String,
    },
    /// A key that begins every edgecore.yaml is missing.
    Missing {
        /// The key.
        path: &'static str,
        /// Its only value.
        value: &'static str,
    },
    /// EdgeCore knows the key, this agent does not use it, and its value is not the default.
    NotUsed {
        /// The path of the key.
        path: String,
    },
    /// The key has no effect because of another one.
    NoEffect {
        /// The path of the key.
        path: String,
        /// The other key and its value.
        cause: &'static str,
    },
}

impl Warning {
    /// Reports whether it is about a mistyped key.
    pub(super) fn is_typo(&self) -> bool {
        use WarningKind::{Case, UnknownKey};
        matches!(self.kind, UnknownKey { .. } | Case { .. })
    }

    /// Returns the path of the key.
    pub(super) fn path(&self) -> &str {
        match &self.kind {
            WarningKind::UnknownKey { path, .. }
            | WarningKind::Case { path, .. }
            | WarningKind::NotUsed { path }
            | WarningKind::NoEffect { path, .. } => path,
            WarningKind::Missing { path, .. } => path,
        }
    }
}

impl From<WarningKind> for Warning {
    fn from(kind: WarningKind) -> Self {
        Self { kind, line: None }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_line(f, self.line)?;
        self.kind.fmt(f)
    }
}

/// Writes the line of a setting, if the file has it.
fn write_line(f: &mut fmt::Formatter<'_>, line: Option<u64>) -> fmt::Result {
    line.map_or(Ok(()), |line| write!(f, "line {line}: "))
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey {
                path,
                near: Some(near),
            } => {
                write!(f, "{path}: unknown key, ignored; did you mean {near}?")
            }
            Self::UnknownKey { path, near: None } => write!(f, "{path}: unknown key, ignored"),
            Self::Case { path, right } => {
                write!(f, "{path}: read as {right}; write {right}, with this case")
            }
            Self::Missing { path, value } => {
                write!(f, "{path}: missing; write `{path}: {value}`")
            }
            Self::NotUsed { path } => write!(f, "{path}: not used by this agent"),
            Self::NoEffect { path, cause } => write!(f, "{path}: has no effect, since {cause}"),
        }
    }
}

/// The errors and warnings that were found.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) errors: Vec<FieldError>,
    pub(super) warnings: Vec<Warning>,
}

impl Report {
    pub(super) fn error(&mut self, path: &str, message: impl Into<String>) {
        let path = if path.is_empty() {
            "the document"
        } else {
            path
        };
        self.errors.push(FieldError {
            path: path.to_owned(),
            message: message.into(),
            line: None,
        });
    }

    pub(super) fn warn(&mut self, warning: WarningKind) {
        self.warnings.push(warning.into());
    }
}
