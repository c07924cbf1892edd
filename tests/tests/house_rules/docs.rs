//! Pages for users: blocks of commands can be pasted and are run by tests, sentences are short, and words are those of the product.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use e2e::pages::{Block, Page, SESSIONS, Step, is_endless, user_pages};

use super::{none, root, sources, walk};

/// The most words of a sentence on a user page.
const MAX_SENTENCE: usize = 45;
/// The most words of a sentence on average.
const MAX_AVERAGE: usize = 18;

/// Phrases that a newcomer does not understand at first reading, each with a replacement.
const BANNED: [(&str, &str); 48] = [
    ("told", "reported, shown, printed"),
    ("tells", "reports, shows"),
    ("tell of", "report"),
    ("says so", "reports this"),
    ("is said", "is shown"),
    ("anew", "again"),
    ("given again", "reissued"),
    ("taken back", "revoked"),
    ("taken away", "removed"),
    ("put on record", "recorded"),
    ("brought to nodes", "sent to nodes"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("is over", "has ended"),
    ("is no more", "no longer exists"),
    ("are gone", "no longer exist"),
    ("let be", "ignored"),
    ("left out", "ignored, skipped"),
    ("leave out", "omit"),
    ("no matter", "has no effect"),
    ("held by", "checked by, enforced by"),
    ("stands", "is"),
    ("stand in", "are in"),
    ("lies", "is in"),
    ("what nothing acts on", "unused"),
    ("acts on it", "uses it"),
    ("so many", "the number"),
    ("so long", "the duration"),
    ("the newest", "the latest"),
    ("good for", "valid for"),
    ("by who may", "by clients with the permission to"),
    ("before a cluster", "in cluster mode"),
    ("cloud without a cluster", "standalone mode"),
    ("look into", "inspect"),
    ("ends well", "succeeds"),
    ("takes part", "(rewrite)"),
    ("first steps", "quick start"),
    ("but for", "except"),
    ("beyond", "more than, above"),
    ("what waits", "(name it)"),
    ("what counts", "(name it)"),
    ("not yet there", "missing"),
    ("by hand and", "manually"),
    ("e.g.", "for example"),
    ("i.e.", "that is"),
    ("etc.", "and so on"),
    ("simply", "(omit)"),
    ("carries the house", "underlies the design"),
];

/// Files of this repository whose content is for users: examples and what they may copy.
const FILES_FOR_USERS: [&str; 4] = [
    "mapper/src/thermometer.rs",
    "mapper/examples/thermometer.rs",
    "examples/operator/src/main.rs",
    "hollow/src/testing/mod.rs",
];

fn text(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// All pages with commands, also those for contributors.
fn pages() -> Vec<String> {
    let mut found = Vec::<PathBuf>::new();
    for folder in ["docs", "charts", "examples"] {
        walk(&root().join(folder), "md", &mut found);
    }
    found.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|page| root().join(page)));
    let relative = |path: PathBuf| path.strip_prefix(root()).unwrap().display().to_string();
    found.into_iter().map(relative).collect()
}

fn steps(block: &Block) -> &[Step] {
    match block {
        Block::Run { steps, .. } | Block::NotRun { steps, .. } => steps,
        Block::Hidden(_) | Block::Stop(_) => &[],
    }
}

#[test]
fn blocks_of_commands_can_be_pasted_one_after_the_other() {
    let mut wrong = Vec::new();
    for name in pages() {
        for block in Page::read(&name).unwrap().blocks {
            let steps = steps(&block);
            for (index, step) in steps.iter().enumerate() {
                let place = format!("{name}:{}: {}", step.line, step.command);
                if step.command.ends_with('&') {
                    wrong.push(format!(
                        "{place}: gets no input and may not be ready; use another terminal"
                    ));
                } else if is_endless(&step.command) && index + 1 < steps.len() {
                    wrong.push(format!(
                        "{place}: runs until Ctrl-C, so the next command needs another block"
                    ));
                }
            }
        }
    }
    none("blocks of commands can be pasted", wrong);
}

#[test]
fn commands_that_do_not_end_are_recognized() {
    for (command, endless) in [
        ("cloudsim up --nodes 1", true),
        ("cloudsim up --detach", false),
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
}

#[test]
fn every_block_of_commands_on_user_pages_is_run_or_says_why_not() {
    let run: BTreeSet<&str> = SESSIONS
        .iter()
        .flat_map(|(_, pages)| *pages)
        .copied()
        .collect();
    let (mut wrong, mut seen, mut counts) = (Vec::new(), BTreeSet::new(), (0, 0));
    for name in user_pages().unwrap() {
        for block in Page::read(&name).unwrap().blocks {
            match block {
                Block::Run { steps, .. } if !run.contains(name.as_str()) => wrong.push(format!(
                    "{name}:{}: run the page in a session of e2e::pages, or put \
                     `<!-- not run: REASON -->` before the block",
                    steps[0].line
                )),
                Block::Run { .. } => {
                    seen.insert(name.clone());
                    counts.0 += 1;
                }
                Block::NotRun { reason, .. } if reason.len() < 5 => {
                    wrong.push(format!("{name}: {reason:?} is no reason"));
                }
                Block::NotRun { .. } => counts.1 += 1,
                Block::Hidden(_) | Block::Stop(_) => {}
            }
        }
        let text = text(&name);
        let (mut is_code, mut before) = (false, "");
        for (number, line) in text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            if !is_code && before.is_empty() && line.starts_with("    ") {
                wrong.push(format!("{name}:{}: fence blocks of code", number + 1));
            }
            before = line;
        }
    }
    let idle = run.iter().filter(|page| !seen.contains(**page));
    wrong.extend(idle.map(|page| format!("{page}: has no block to run")));
    none(
        "every block of commands is run by a test, or says why not",
        wrong,
    );
    assert!(
        counts.0 > 2 * counts.1,
        "{counts:?} blocks are run, and are not"
    );
}

/// The paragraphs, items and cells of a page, without code, comments and targets of links; whether each is a cell.
fn paragraphs(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let (mut paragraph, mut is_code) = (String::new(), false);
    for line in text.lines().chain([""]) {
        let line = line.trim();
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let item = line.strip_prefix("- ").or_else(|| {
            line.split_once(". ").and_then(|(number, rest)| {
                number.chars().all(|c| c.is_ascii_digit()).then_some(rest)
            })
        });
        let breaks = line.is_empty()
            || is_fence
            || is_code
            || item.is_some()
            || ["#", "|", "<!--", "![", "[!["]
                .iter()
                .any(|begin| line.starts_with(begin));
        if breaks && !paragraph.is_empty() {
            found.push((false, plain(&std::mem::take(&mut paragraph))));
        }
        match item {
            _ if is_code || is_fence => {}
            Some(item) => paragraph.push_str(item),
            None if line.starts_with('|') => {
                let cells = line.trim_matches('|').split('|');
                found.extend(cells.map(|cell| (true, plain(cell))));
            }
            None if breaks => {}
            None => paragraph.push_str(line),
        }
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
    }
    found
}

/// The text of a paragraph with `CODE` for each code span, and without targets of links.
fn plain(paragraph: &str) -> String {
    let spans = paragraph.split('`').enumerate();
    let text: String = spans
        .map(|(index, part)| if index % 2 == 1 { "CODE" } else { part })
        .collect();
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    plain.replace(['[', '*'], "")
}

/// The sentences of a paragraph.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for word in paragraph.split_whitespace() {
        let sentence = found.last_mut().unwrap();
        sentence.push_str(word);
        sentence.push(' ');
        if word
            .trim_end_matches([')', '"', '”'])
            .ends_with(['.', '!', '?'])
        {
            found.push(String::new());
        }
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

#[test]
fn sentences_on_user_pages_are_short() {
    let (mut long, mut words, mut count) = (Vec::new(), 0, 0);
    for name in user_pages().unwrap() {
        for (is_cell, paragraph) in paragraphs(&text(&name)) {
            for sentence in sentences(&paragraph) {
                let length = sentence.split_whitespace().count();
                if length > MAX_SENTENCE {
                    long.push(format!("{name}: {length} words: {sentence}"));
                }
                if !is_cell {
                    words += length;
                    count += 1;
                }
            }
        }
    }
    none("a sentence has at most 45 words", long);
    assert!(count > 1500, "only {count} sentences were found");
    assert!(
        words <= MAX_AVERAGE * count,
        "{words} words in {count} sentences"
    );
}

#[test]
fn user_pages_use_the_words_of_the_product() {
    let mut wrong = Vec::new();
    let mut all = user_pages().unwrap();
    all.push("charts/cloudsim/templates/NOTES.txt".to_owned());
    for name in all {
        for (number, line) in text(&name).lines().enumerate() {
            let lower = format!(" {} ", line.to_lowercase());
            for (phrase, better) in BANNED {
                let is_word = |found: &(usize, &str)| {
                    let bytes = lower.as_bytes();
                    !bytes[found.0 - 1].is_ascii_alphanumeric()
                        && !bytes[found.0 + phrase.len()].is_ascii_alphanumeric()
                };
                if lower.match_indices(phrase).any(|found| is_word(&found)) {
                    wrong.push(format!("{name}:{}: {phrase:?}: {better}", number + 1));
                }
            }
        }
    }
    none("a newcomer understands the page at first reading", wrong);
}

/// The names of all tests that have three words or more; shorter ones are also words of users.
fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in sources() {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line
                .strip_prefix("async fn ")
                .or_else(|| line.strip_prefix("fn "))
                && std::mem::take(&mut is_test)
            {
                let name = name.split('(').next().unwrap_or_default();
                names.extend((name.matches('_').count() > 1).then(|| name.to_owned()));
            }
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        }
    }
    names
}

#[test]
fn user_pages_name_neither_tests_nor_files_of_the_source() {
    let names = test_names();
    assert!(names.len() > 1000, "{} tests", names.len());
    let mut wrong = Vec::new();
    for name in user_pages().unwrap() {
        for (number, line) in text(&name).lines().enumerate() {
            let is_path = |c: char| c.is_alphanumeric() || "_-./".contains(c);
            for word in line.split(|c| !is_path(c)) {
                let bare = word.trim_start_matches("../").trim_end_matches(['.', '/']);
                let is_file = bare.ends_with(".rs")
                    || ["tests/", "e2e/", "simulated/", "house_rules"]
                        .iter()
                        .any(|folder| bare.starts_with(folder))
                    || bare.contains("/src/");
                if names.contains(bare) || is_file && !FILES_FOR_USERS.contains(&bare) {
                    wrong.push(format!("{name}:{}: {word}", number + 1));
                }
            }
        }
    }
    none("user pages are about the product", wrong);
}

/// `docs/images/diagram.py` draws them from texts.
#[test]
fn pictures_are_those_of_their_sources() {
    let mut script = Command::new("python3");
    script.arg(root().join("docs/images/diagram.py"));
    let output = script.arg("--check").output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
