//! The rules of the house, read from its sources: what a reviewer would say each time is said here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
};

#[path = "house_rules/architecture.rs"]
mod architecture;
#[path = "house_rules/charts.rs"]
mod charts;
#[path = "house_rules/circles.rs"]
mod circles;
#[path = "house_rules/docs.rs"]
mod docs;
#[path = "house_rules/logs.rs"]
mod logs;
#[path = "house_rules/matches.rs"]
mod matches;
#[path = "house_rules/mesh_behaviour.rs"]
mod mesh_behaviour;
#[path = "house_rules/names.rs"]
mod names;
#[path = "house_rules/texts.rs"]
mod texts;

/// The hard limit; most files are a third of it.
const MAX_LINES: usize = 600;

/// The same of a file of tests, which are read one by one.
const MAX_TEST_LINES: usize = 800;
/// The most characters of a line of a comment.
const MAX_COMMENT: usize = 140;

/// The workspace's crates.
const CRATES: [&str; 28] = [
    "clock",
    "wire",
    "objectstore",
    "kubeapi",
    "apiserver",
    "crds",
    "limits",
    "testkit",
    "mqtt",
    "conformance",
    "record",
    "peer",
    "replay",
    "ui",
    "unixsocket",
    "spdy",
    "componentbase",
    "edged",
    "agent",
    "cloudsim",
    "mapper",
    "hollow",
    "simulated",
    "fuzz",
    "tests",
    "e2e",
    "bench",
    "examples/operator",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_owned()
}

fn walk(directory: &Path, wanted: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            // generated code has neither our style nor our length
            if !path.ends_with("target") && !path.ends_with("src/generated") {
                walk(&path, wanted, found);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension == wanted)
        {
            found.push(path);
        }
    }
}

fn files(extension: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for member in CRATES {
        walk(&root().join(member), extension, &mut found);
    }
    assert!(
        found.len() >= CRATES.len(),
        "the sources are not where they should be"
    );
    found.sort();
    found
        .into_iter()
        .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
        .collect()
}

fn sources() -> Vec<(PathBuf, String)> {
    files("rs")
        .into_iter()
        .filter(|(path, _)| !path.ends_with("tests/tests/house_rules.rs"))
        .collect()
}

fn is_test(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// Lines of `sources` in which `fault` finds one, as `file:line: line`.
fn lines(sources: &[(PathBuf, String)], fault: impl Fn(&Path, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources {
        for (number, line) in text.lines().enumerate() {
            if fault(path, line) {
                let path = path.strip_prefix(root()).unwrap_or(path);
                found.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    found
}

fn none(rule: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{rule}\n{}", found.join("\n"));
}

/// Whether code, not a comment, has one of these words.
fn has(line: &str, words: &[&str]) -> bool {
    !line.trim_start().starts_with("//") && words.iter().any(|word| line.contains(word))
}

/// Crates that run in virtual time.
const SIMULATED: [&str; 10] = [
    "objectstore",
    "kubeapi",
    "apiserver",
    "limits",
    "mqtt",
    "componentbase",
    "edged",
    "agent",
    "cloudsim",
    "hollow",
];

#[test]
fn time_and_random_numbers_come_from_the_crate_clock() {
    let words = [
        "Timestamp::now(",
        "SystemTime::now(",
        "UnixTime::now(",
        "std::time::Instant",
        "Uuid::new_v4(",
        "rand::random",
        "rand::rng(",
        "tokio::select!",
        "task::spawn_blocking(",
    ];
    let in_simulation = |path: &Path| {
        let path = path.strip_prefix(root()).unwrap_or(path);
        SIMULATED
            .iter()
            .any(|name| path.starts_with(Path::new(name).join("src")))
            && !is_test(path)
    };
    let found = lines(&sources(), |path, line| {
        in_simulation(path) && has(line, &words)
    });
    none("clock:: instead, which a simulation replaces", found);
}

#[test]
fn every_file_begins_by_saying_what_it_is() {
    let silent = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! "));
    none(
        "the first line of a file is //! and what it is",
        silent.map(|(path, _)| path.display().to_string()).collect(),
    );
}

#[test]
fn no_file_is_too_long() {
    let limit = |path: &Path| match is_test(path) || path.ends_with("suite.rs") {
        true => MAX_TEST_LINES,
        false => MAX_LINES,
    };
    let long = sources()
        .into_iter()
        .filter(|(path, text)| text.lines().count() > limit(path));
    none(
        "a file of more than 600 lines (of tests: 800) has more than one idea",
        long.map(|(path, text)| format!("{}: {} lines", path.display(), text.lines().count()))
            .collect(),
    );
}

/// rustfmt wraps code alone. Rows of tables cannot be wrapped.
#[test]
fn comments_are_wrapped() {
    let is_long = |_: &Path, line: &str| {
        let text = line
            .trim_start()
            .trim_start_matches(['/', '!'])
            .trim_start();
        line.trim_start().starts_with("//")
            && line.chars().count() > MAX_COMMENT
            && !text.starts_with('|')
    };
    none(
        "a line of a comment has at most 140 characters",
        lines(&sources(), is_long),
    );
}

#[test]
fn no_channel_is_unbounded() {
    let words = ["unbounded_channel", "UnboundedSender", "channel::unbounded"];
    none(
        "every queue has a bound",
        lines(&sources(), |_, line| has(line, &words)),
    );
}

#[test]
fn nothing_switches_verification_off() {
    let words = [
        "danger_accept_invalid",
        "NoVerifier",
        "SkipVerification",
        "InsecureSkip",
    ];
    none(
        "TLS verification cannot be switched off",
        lines(&sources(), |_, line| has(line, &words)),
    );
}

#[test]
fn no_shell_is_started() {
    let words = [
        "Command::new(\"sh\"",
        "Command::new(\"bash\"",
        "Command::new(\"/bin/sh\"",
        "Command::new(\"/bin/bash\"",
    ];
    none(
        "programs are started without a shell",
        lines(&sources(), |_, line| has(line, &words)),
    );
}

#[test]
fn no_test_sleeps_or_is_ignored() {
    let sources = sources();
    let never = ["thread::sleep", "#[ignore"];
    let of_tests = |path: &Path| is_test(path) || path.starts_with(root().join("e2e/src"));
    none(
        "a test waits for a condition",
        lines(&sources, |path, line| of_tests(path) && has(line, &never)),
    );
    // where the clock is paused or virtual, time is made to pass by sleeping
    let is_virtual =
        |text: &str| text.contains("start_paused") || text.contains("TestCloud::virtual_time(");
    let on_real_clock: Vec<_> = sources
        .into_iter()
        .filter(|(path, text)| is_test(path) && !is_virtual(text))
        .collect();
    let sleeps = [" sleep(", "::sleep(", " interval(", "::interval("];
    none(
        "a test on the real clock waits with `testkit`",
        lines(&on_real_clock, |_, line| has(line, &sleeps)),
    );
}

#[test]
fn nothing_is_left_to_do() {
    let words = ["todo!(", "unimplemented!(", "dbg!("];
    none(
        "what is not done is not there",
        lines(&sources(), |_, line| has(line, &words)),
    );
    let marks = ["TODO", "FIXME", "XXX"];
    none(
        "what is not done is not there",
        lines(&sources(), |_, line| {
            marks.iter().any(|mark| line.contains(mark))
        }),
    );
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let words = ["/work/", "/home/", "/Users/", "/root/."];
    none(
        "paths of one machine are nobody else's",
        lines(&sources(), |_, line| {
            words.iter().any(|word| line.contains(word))
        }),
    );
}

#[test]
fn members_take_versions_and_lints_from_the_workspace() {
    let mut wrong = Vec::new();
    for (path, text) in files("toml")
        .into_iter()
        .filter(|(path, _)| path.ends_with("Cargo.toml"))
    {
        let mut section = "";
        for (number, line) in text.lines().enumerate() {
            section = if line.starts_with('[') { line } else { section };
            let dependency = section.contains("dependencies")
                && line.contains('=')
                && !line.trim_start().starts_with('#');
            if dependency && !line.contains("workspace = true") {
                wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
        if !text.contains("[lints]\nworkspace = true") {
            wrong.push(format!("{}: the lints are the workspace's", path.display()));
        }
    }
    none(
        "the one version table is in the workspace's Cargo.toml",
        wrong,
    );
}

#[test]
fn every_crate_says_what_a_registry_shows() {
    let is_whole = |text: &str| {
        let package = text.split("\n\n").next().unwrap_or_default();
        let inherited = ["rust-version", "license", "readme", "version", "edition"];
        let own = ["description = \"", "keywords = [\"", "categories = [\""];
        inherited.iter().all(|key| package.contains(&format!("\n{key}.workspace = true")))
            && own.iter().all(|key| package.contains(&format!("\n{key}")))
            // a registry takes no more than five keywords
            && package.lines().all(|line| !line.starts_with("keywords") || line.matches(',').count() < 5)
    };
    let members = files("toml")
        .into_iter()
        .filter(|(path, _)| path.ends_with("Cargo.toml"));
    let bare = members
        .filter(|(_, text)| !is_whole(text))
        .map(|(path, _)| path.display().to_string());
    none(
        "a package has a description, keywords, categories, a readme, a licence and its Rust version",
        bare.collect(),
    );
}

#[test]
fn no_package_needs_one_that_no_registry_gets() {
    let manifests: Vec<_> = CRATES
        .iter()
        .filter_map(|member| fs::read_to_string(root().join(member).join("Cargo.toml")).ok())
        .map(|text| {
            let name = text
                .lines()
                .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            (
                name.unwrap_or_default().to_owned(),
                text.contains("\npublish.workspace = true"),
                text,
            )
        })
        .collect();
    assert_eq!(manifests.len(), CRATES.len());
    let mut wrong = Vec::new();
    for (name, _, text) in manifests.iter().filter(|(_, kept, _)| !kept) {
        let needs = text
            .split("\n[dependencies]\n")
            .nth(1)
            .and_then(|rest| rest.split("\n[").next());
        for (other, ..) in manifests.iter().filter(|(_, kept, _)| *kept) {
            let is_needed = |line: &str| {
                line.strip_prefix(other.as_str())
                    .is_some_and(|rest| rest.starts_with([' ', '.']))
            };
            if needs.is_some_and(|needs| needs.lines().any(is_needed)) {
                wrong.push(format!("{name} needs {other}, which is not published"));
            }
        }
    }
    none(
        "`make package` packages every crate that a registry gets",
        wrong,
    );
}
