//! Says which directories will be created: a misspelled path should be noticed.

use std::path::Path;

use super::{paste, print_line};

/// Prints that `directory` will be created if it does not exist.
pub(super) fn announce(directory: Option<&Path>) {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    if let Some(missing) = directory.filter(is_missing) {
        print_line(&format!("creating directory {}", paste::path(missing)));
    }
}
