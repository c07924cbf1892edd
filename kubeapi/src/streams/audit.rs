//! The audit log of streams into pods: a log line with the target `audit`.

use crate::{Identity, request::path::Target};

/// The most characters of a command that are logged.
const MAX_COMMAND_CHARACTERS: usize = 200;

/// Logs that a caller opens a stream. Values of named options are left out of commands, since they may be secrets.
pub(super) fn stream_started(
    caller: &Identity,
    target: &Target,
    container: &str,
    command: &[&str],
) {
    let (what, command) = (target.part_name(), format_command(command));
    let (user, kind, namespace, name) = (
        &caller.user,
        &target.kind.plural,
        &target.namespace,
        &target.name,
    );
    tracing::info!(target: "audit", user, what, kind, namespace, name, container, command, "stream opened");
}

/// Reports whether the value after an option of this name may be a secret.
fn is_secret(option: &str) -> bool {
    let option = option.to_lowercase();
    option.starts_with('-')
        && ["pass", "secret", "token", "key", "auth"]
            .iter()
            .any(|word| option.contains(word))
}

fn format_command(command: &[&str]) -> String {
    let mut words = Vec::new();
    let mut hides = false;
    for word in command
        .iter()
        .flat_map(|argument| argument.split_whitespace())
    {
        match word.split_once('=') {
            _ if hides => words.push("***".to_owned()),
            Some((name, _)) => words.push(format!("{name}=***")),
            None => words.push(word.to_owned()),
        }
        hides = !hides && !word.contains('=') && is_secret(word);
    }
    let text: String = words
        .join(" ")
        .chars()
        .map(|one| if one.is_control() { ' ' } else { one })
        .collect();
    match text.char_indices().nth(MAX_COMMAND_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_without_what_may_be_secret() {
        let table: [(&[&str], &str); 4] = [
            (&["ls", "-l", "/tmp"], "ls -l /tmp"),
            (
                &["sh", "-c", "PASSWORD=hunter2 run --token abc --now"],
                "sh -c PASSWORD=*** run --token *** --now",
            ),
            (&["env", "A=b", "--key=c", "x"], "env A=*** --key=*** x"),
            (&["a\u{1b}[2Jb"], "a [2Jb"),
        ];
        for (command, expected) in table {
            assert_eq!(format_command(command), expected);
        }
        assert_eq!(
            format_command(&["x".repeat(500).as_str()]).chars().count(),
            MAX_COMMAND_CHARACTERS + 1
        );
    }
}
