//! Whether the log has colours: on a terminal, unless the user wants none. They cannot be forced, because the log of
//! `cloudsim up --detach` is a file.

use std::io::IsTerminal;

use crate::terminal::is_coloured;

/// Reports whether what is written to `output` may have colours.
pub(crate) fn is_wanted(output: &impl IsTerminal) -> bool {
    let variable = |name: &str| std::env::var_os(name);
    is_coloured(
        output.is_terminal(),
        variable("NO_COLOR").as_deref(),
        None,
        variable("TERM").as_deref(),
    )
}
