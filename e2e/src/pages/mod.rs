//! The command blocks of the user pages: which there are, which a test runs, and what their commands print.
//!
//! A block of commands is fenced as `console`. HTML comments, which no reader sees, direct the tests:
//!
//! - `<!-- not run: REASON -->` before a block: no test runs it.
//! - `<!-- numbers vary -->` before a block: numbers in its output differ from run to run.
//! - `<!-- run: COMMAND -->`: tests run this command here, for example to undo what a block did.
//! - `<!-- stop: NAME -->`: tests stop the program of this name here.

mod compare;
mod session;
mod shell;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use self::{
    compare::shows,
    session::{Session, check},
    shell::Terminal,
};

/// The pages whose commands run one after the other on one machine, by the name of the session.
pub const SESSIONS: [(&str, &[&str]); 8] = [
    (
        "cloud",
        &[
            "README.md",
            "docs/admission.md",
            "docs/cluster.md",
            "docs/security.md",
            "docs/pod-fields.md",
            "docs/metrics-cloudsim.md",
            "docs/limits.md",
            "docs/glossary.md",
            "docs/mesh-behaviour.md",
            "docs/faults.md",
            "docs/simulation.md",
            "docs/controllers.md",
            "docs/kubeconfig.md",
            "docs/scenarios.md",
            "docs/node-jobs.md",
            "docs/node-groups.md",
        ],
    ),
    (
        "node",
        &[
            "docs/tutorial.md",
            "docs/streaming.md",
            "docs/upkeep.md",
            "docs/link.md",
            "docs/metrics.md",
            "docs/mappers.md",
            "docs/devices.md",
            "docs/stats.md",
            "docs/troubleshooting.md",
            "docs/node.md",
            "docs/differences.md",
            "docs/metaserver.md",
            "docs/edgecore.md",
            "docs/join.md",
            "docs/database.md",
        ],
    ),
    ("rules", &["docs/rules.md", "docs/servicebus.md"]),
    ("record", &["docs/record.md", "docs/replay.md"]),
    ("page", &["docs/ui.md"]),
    ("conformance", &["docs/conformance.md"]),
    ("snapshot", &["docs/from-cluster.md"]),
    // with containerd
    ("mesh", &["docs/mesh.md"]),
];

/// Pages in `docs/` for contributors, which name tests and files of the source.
const CONTRIBUTOR_PAGES: [&str; 1] = ["docs/proofs.md"];

/// A page with its blocks of commands, in order.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path in the repository.
    pub name: String,
    /// Its blocks of commands, and what tests do between them.
    pub blocks: Vec<Block>,
}

/// What tests do at one place of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Run the commands, and compare their output.
    Run {
        /// The commands.
        steps: Vec<Step>,
        /// Whether numbers in their output differ from run to run.
        numbers_vary: bool,
    },
    /// Nothing, for a reason.
    NotRun {
        /// The commands.
        steps: Vec<Step>,
        /// Why no test runs them.
        reason: String,
    },
    /// Run a command that the page does not show.
    Hidden(Step),
    /// Stop a program.
    Stop(String),
}

/// A command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of its line.
    pub line: usize,
    /// The command in one line, without its prompt and comment.
    pub command: String,
    /// What the page shows of its output.
    pub output: Vec<String>,
    /// Whether the page says that the command fails (`exit code 1`).
    pub fails: bool,
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the paths of all user pages in the repository: the README, `docs/`, and the READMEs of the chart and the examples.
///
/// # Errors
/// A folder cannot be read.
pub fn user_pages() -> anyhow::Result<Vec<String>> {
    let mut found = vec![
        "README.md".to_owned(),
        "charts/cloudsim/README.md".to_owned(),
    ];
    for entry in fs::read_dir(root().join("docs"))? {
        found.push(format!("docs/{}", entry?.file_name().to_string_lossy()));
    }
    for entry in fs::read_dir(root().join("examples"))? {
        let name = entry?.file_name();
        found.push(format!("examples/{}/README.md", name.to_string_lossy()));
    }
    found.retain(|page| {
        Path::new(page)
            .extension()
            .is_some_and(|extension| extension == "md")
            && root().join(page).is_file()
            && !CONTRIBUTOR_PAGES.contains(&page.as_str())
    });
    found.sort();
    Ok(found)
}

impl Page {
    /// Reads a page of the repository.
    ///
    /// # Errors
    /// The file cannot be read, or a mark is none of those above.
    pub fn read(name: &str) -> anyhow::Result<Self> {
        let text = fs::read_to_string(root().join(name))?;
        let blocks = blocks(&text).map_err(|error| error.context(name.to_owned()))?;
        Ok(Self {
            name: name.to_owned(),
            blocks,
        })
    }
}

/// Returns the blocks of a page.
fn blocks(text: &str) -> anyhow::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let (mut reason, mut numbers_vary) = (None, false);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```") {
            let inside: Vec<_> = lines
                .by_ref()
                .take_while(|(_, line)| !line.trim_start().starts_with("```"))
                .collect();
            let steps = steps(&inside);
            let is_shell = ["console", "sh", "bash", "shell"].contains(&language);
            anyhow::ensure!(
                !is_shell || language == "console" && !steps.is_empty(),
                "line {}: a block of commands is called console, and its commands begin with $ or #",
                number + 1
            );
            match (is_shell, reason.take()) {
                (false, None) => {}
                (false, Some(_)) => {
                    anyhow::bail!("line {}: no block of commands follows", number + 1)
                }
                (true, Some(reason)) => blocks.push(Block::NotRun { steps, reason }),
                (true, None) => blocks.push(Block::Run {
                    steps,
                    numbers_vary: std::mem::take(&mut numbers_vary),
                }),
            }
        } else if let Some(mark) = line
            .strip_prefix("<!--")
            .and_then(|rest| rest.strip_suffix("-->"))
        {
            match mark.trim().split_once(": ") {
                None if mark.trim() == "numbers vary" => numbers_vary = true,
                // what a program writes
                None if mark.trim() == "end of reports" => {}
                Some(("reports", _)) => {}
                Some(("not run", why)) => reason = Some(why.to_owned()),
                Some(("stop", name)) => blocks.push(Block::Stop(name.to_owned())),
                Some(("run", command)) => blocks.push(Block::Hidden(Step {
                    line: number + 1,
                    command: command.to_owned(),
                    output: Vec::new(),
                    fails: false,
                })),
                _ => anyhow::bail!("line {}: unknown mark {mark:?}", number + 1),
            }
        }
    }
    Ok(blocks)
}

/// Returns the commands of a block; a command may have several lines.
fn steps(lines: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continued = false;
    for (number, line) in lines {
        let prompt = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
        let text = match (prompt, steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step {
                    line: number + 1,
                    command: String::new(),
                    output: Vec::new(),
                    fails: line.contains("exit code 1"),
                });
                command
            }
            (None, Some(_)) if continued => line,
            (None, Some(step)) => {
                step.output.push((*line).to_owned());
                continue;
            }
            (None, None) => continue,
        };
        let text = text.split("  #").next().unwrap_or_default().trim();
        continued = text.ends_with('\\');
        if let Some(step) = steps.last_mut() {
            step.command.push_str(text.trim_end_matches('\\'));
        }
    }
    steps
}

/// Reports whether a command runs until it is stopped.
pub fn is_endless(command: &str) -> bool {
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
        "cloudsim" => match verb {
            "up" => !has("--detach"),
            "demo" => !has("--once"),
            _ => matches!(verb, "hollow" | "record" | "runtime"),
        },
        "edge-agent" => {
            verb == "--config" && rest.len() == 2 || verb == "join" && !has("--no-start")
        }
        "kubectl" => has("port-forward") || has("proxy"),
        "mosquitto_sub" => !has("-C"),
        "thermometer" => true,
        "python3" => verb.ends_with("server.py"),
        _ => false,
    }
}
