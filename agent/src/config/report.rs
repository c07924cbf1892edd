//! What is wrong with a configuration, all of it, with the place and the cure.

use std::fmt;

/// Something that stops the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, as `modules.edgeHub.token`.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Something that does not stop the start, but is surely not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No version of EdgeCore knows this key; it is ignored.
    UnknownKey {
        /// Its place.
        path: String,
        /// The key that may have been meant.
        near: Option<String>,
    },
    /// The key is known by another spelling of upper and lower case, and read as that.
    Case {
        /// Its place.
        path: String,
        /// The spelling to use.
        right: String,
    },
    /// EdgeCore knows the key, this agent does nothing with it, and its value is not the default one.
    NotUsed {
        /// Its place.
        path: String,
    },
    /// The key is used, but not beside what another one says.
    NoEffect {
        /// Its place.
        path: String,
        /// The other one, and what it says.
        cause: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { path, near: Some(near) } => {
                write!(f, "{path}: unknown key, ignored; did you mean {near}?")
            }
            Self::UnknownKey { path, near: None } => write!(f, "{path}: unknown key, ignored"),
            Self::Case { path, right } => write!(f, "{path}: read as {right}; write it so"),
            Self::NotUsed { path } => write!(f, "{path}: not used by this agent"),
            Self::NoEffect { path, cause } => write!(f, "{path}: has no effect, since {cause}"),
        }
    }
}

/// Faults and warnings as they are found.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Warning>,
}

impl Report {
    pub(super) fn fault(&mut self, path: &str, message: impl Into<String>) {
        let path = if path.is_empty() { "the document" } else { path };
        self.faults.push(Fault { path: path.to_owned(), message: message.into() });
    }

    pub(super) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
}
