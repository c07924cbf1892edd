//! Whether output has colours: on a terminal that shows them, unless the user wants none (<https://no-color.org>).

use std::{ffi::OsStr, io::IsTerminal};

/// Reports whether what is written to `output` may have colours.
pub(crate) fn is_wanted(output: &impl IsTerminal) -> bool {
    let variable = |name: &str| std::env::var_os(name);
    decide(
        output.is_terminal(),
        variable("NO_COLOR").as_deref(),
        variable("TERM").as_deref(),
    )
}

/// `NO_COLOR` counts with any value but the empty one; the terminal `dumb` shows no colours.
fn decide(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_user_wants_them() {
        for (is_terminal, no_color, term, expected) in [
            (true, None, Some("xterm"), true),
            (true, None, None, true),
            (true, Some(""), Some("xterm"), true),
            (true, Some("1"), Some("xterm"), false),
            (true, Some("0"), None, false),
            (true, None, Some("dumb"), false),
            (false, None, Some("xterm"), false),
        ] {
            let found = decide(is_terminal, no_color.map(OsStr::new), term.map(OsStr::new));
            assert_eq!(found, expected, "{is_terminal} {no_color:?} {term:?}");
        }
    }
}
