//! Blocks of commands on pages can be pasted as they are.

use std::{fs, path::PathBuf};

use super::{root, walk};

/// A command with the number of its line.
type Command = (usize, String);

/// Returns the commands of each block, without comments; a command may have several lines.
fn blocks(text: &str) -> Vec<Vec<Command>> {
    let mut blocks = Vec::new();
    let mut inside: Option<Vec<Command>> = None;
    let mut continued = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            match inside.take() {
                Some(block) => blocks.push(block),
                None => inside = Some(Vec::new()),
            }
            continue;
        }
        let Some(block) = &mut inside else { continue };
        let prompt = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
        let text = match prompt {
            Some(command) => {
                block.push((number + 1, String::new()));
                command
            }
            None if continued => line,
            None => continue,
        };
        let text = text.split("  #").next().unwrap().trim();
        continued = text.ends_with('\\');
        let command = &mut block.last_mut().unwrap().1;
        command.push_str(text.trim_end_matches('\\'));
    }
    blocks
}

/// Reports whether a command runs until it is stopped.
fn is_endless(command: &str) -> bool {
    let first = command.split('|').next().unwrap_or_default();
    let mut words = first
        .split_whitespace()
        .skip_while(|word| word.contains('='));
    let program = words
        .next()
        .unwrap_or_default()
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let verb = rest.first().copied().unwrap_or_default();
    let has = |option: &str| rest.contains(&option);
    match program {
        "cloudsim" => {
            matches!(verb, "up" | "hollow" | "runtime") || verb == "demo" && !has("--once")
        }
        "edge-agent" => {
            verb == "--config" && rest.len() == 2 || verb == "join" && !has("--no-start")
        }
        "kubectl" => has("port-forward") || has("proxy"),
        "mosquitto_sub" => !has("-C"),
        _ => false,
    }
}

fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["docs", "charts", "examples"] {
        walk(&root().join(folder), "md", &mut found);
    }
    found.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|page| root().join(page)));
    found
}

#[test]
fn blocks_of_commands_can_be_pasted_one_after_the_other() {
    let mut wrong = Vec::new();
    for page in pages() {
        for block in blocks(&fs::read_to_string(&page).unwrap()) {
            for (index, (line, command)) in block.iter().enumerate() {
                let place = format!("{}:{line}: {command}", page.display());
                if command.ends_with('&') {
                    wrong.push(format!(
                        "{place}: gets no input and may not be ready; use another terminal"
                    ));
                } else if is_endless(command) && index + 1 < block.len() {
                    wrong.push(format!(
                        "{place}: runs until Ctrl-C, so the next command needs another block"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_that_do_not_end_are_recognized() {
    for (command, endless) in [
        ("cloudsim up --nodes 1", true),
        ("target/debug/cloudsim demo", true),
        ("cloudsim demo --once", false),
        ("cloudsim token | ssh m edge-agent join --token -", false),
        ("A=b edge-agent join --cloud c", true),
        ("edge-agent join --cloud c --no-start", false),
        ("edge-agent --config f", true),
        ("kubectl -n a port-forward svc/b 80", true),
        ("kubectl get pods", false),
    ] {
        assert_eq!(is_endless(command), endless, "{command}");
    }
    let text = "```console\n$ a \\\n    b   # why\n# c &\noutput\n```\n";
    assert_eq!(
        blocks(text),
        [[(2, "a b".to_owned()), (4, "c &".to_owned())]]
    );
}
