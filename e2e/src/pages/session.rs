//! Runs the blocks of pages one after the other on one machine, with the programs of this build.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

use super::{Block, Page, Step, Terminal, is_endless, root, shows};
use crate::{AGENT, CLOUDSIM, Mounts, Output, Process, binary, mapper_example, until};

/// What a program has printed when it is ready, by the beginning of its command.
const READY: [(&str, &str); 3] = [
    ("cloudsim up", "is ready"),
    ("cloudsim runtime", "serves CRI v1"),
    (AGENT, "edge-agent started"),
];

/// Commands that only read, so that they are repeated until they print what the page shows.
const READS: [&str; 16] = [
    "kubectl get",
    "kubectl logs",
    "kubectl exec",
    "kubectl describe",
    "kubectl top",
    "kubectl --context",
    "kubectl --kubeconfig",
    "kubectl --server",
    "cloudsim nodes",
    "cloudsim devices",
    "cloudsim rules",
    "cloudsim mesh",
    "cloudsim show",
    "edge-agent db",
    "curl",
    "ip",
];

/// Commands that begin with one of [`READS`] and change something.
const WRITES: [&str; 3] = ["devices set", "rules send", "db export"];

/// A machine on which pages are followed.
#[derive(Debug)]
pub struct Session {
    terminal: Terminal,
    /// Texts of pages, and what they are here.
    places: Vec<(String, String)>,
    /// The programs that run, in the order of their starts.
    running: Vec<(String, Process)>,
    /// The command of the cloud that runs.
    cloud: String,
    /// Whether a page started a cloud in the background, which a failed test leaves running.
    is_detached: bool,
    logs: PathBuf,
    /// Behind the programs, which have ended before.
    _mounts: Mounts,
}

impl Session {
    /// Returns a machine whose files are below `directory`. `places` are texts of the pages, such as paths, and what they are here.
    ///
    /// # Errors
    /// The files cannot be written, or the programs are not built.
    pub fn new(directory: &Path, places: &[(&str, &str)]) -> anyhow::Result<Self> {
        let (work, logs) = (directory.join("work"), directory.join("logs"));
        fs::create_dir_all(&work)?;
        fs::create_dir_all(&logs)?;
        for folder in ["examples", "charts"] {
            symlink(root().join(folder), work.join(folder))?;
        }
        let cloudsim = binary(CLOUDSIM)?;
        let programs = [
            ("target/debug/cloudsim", cloudsim.clone()),
            (CLOUDSIM, cloudsim),
            (AGENT, binary(AGENT)?),
            ("thermometer", mapper_example("thermometer")?),
            ("kubectl", testkit::kubectl()),
        ];
        // clouds of other tests are none of this machine
        let runtime = directory.join("run");
        DirBuilder::new().mode(0o700).create(&runtime)?;
        let variables = [("HOME", &work), ("XDG_RUNTIME_DIR", &runtime)];
        Ok(Self {
            terminal: Terminal {
                directory: work.clone(),
                variables: variables
                    .map(|(name, path)| (name.to_owned(), path.display().to_string()))
                    .into(),
                programs: BTreeMap::from(programs.map(|(name, path)| (name.to_owned(), path))),
            },
            places: places
                .iter()
                .map(|(shown, here)| ((*shown).to_owned(), (*here).to_owned()))
                .collect(),
            running: Vec::new(),
            cloud: String::new(),
            is_detached: false,
            logs,
            _mounts: Mounts::below(directory),
        })
    }

    /// Runs all blocks of a page, and returns the number of commands.
    ///
    /// # Errors
    /// A command fails, or does not print what the page shows.
    pub fn run_page(&mut self, name: &str) -> anyhow::Result<usize> {
        // each page begins in a new terminal, which uses the file that `cloudsim up` writes by default
        let kubeconfig = self.terminal.directory.join("cloudsim.kubeconfig");
        let kubeconfig = kubeconfig.display().to_string();
        let variables = &mut self.terminal.variables;
        variables.insert("KUBECONFIG".to_owned(), kubeconfig);
        let mut commands = 0;
        for block in Page::read(name)?.blocks {
            let (steps, numbers_vary) = match block {
                Block::NotRun { .. } => continue,
                Block::Stop(program) => {
                    self.stop(&program)
                        .with_context(|| format!("{name}: stop: {program}"))?;
                    continue;
                }
                Block::Hidden(step) => (vec![step], false),
                Block::Run {
                    steps,
                    numbers_vary,
                } => (steps, numbers_vary),
            };
            for step in steps {
                self.run_step(&step, numbers_vary)
                    .with_context(|| format!("{name}:{}: {}", step.line, step.command))?;
                commands += 1;
            }
        }
        Ok(commands)
    }

    fn run_step(&mut self, step: &Step, numbers_vary: bool) -> anyhow::Result<()> {
        let command = self.here(&step.command);
        if is_endless(&step.command) {
            return self.start(step, &command);
        }
        self.is_detached |= step.command.contains("--detach");
        let (terminal, places) = (&mut self.terminal, &self.places);
        let mut attempt = || {
            let mut output = terminal.run(&command)?;
            let text = as_shown(places, &output.text());
            output.stderr = as_shown(places, &output.stderr);
            output.stdout = text.into_bytes();
            check(&output, step, numbers_vary)
        };
        let is_read = READS
            .iter()
            .any(|read| step.command.starts_with(&format!("{read} ")) || step.command == *read)
            && !WRITES.iter().any(|write| step.command.contains(write));
        if is_read {
            until(&step.command, attempt)
        } else {
            attempt()
        }
    }

    /// Starts a program that runs until it is stopped, and waits until it is ready. The cloud that runs is used again if the page starts
    /// it in the same way; otherwise all programs are stopped first, because they use the same ports.
    fn start(&mut self, step: &Step, command: &str) -> anyhow::Result<()> {
        let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
        let name = program.rsplit('/').next().unwrap_or(program);
        let (name, line) = match rest.split_whitespace().next() {
            Some(verb) if name == CLOUDSIM && verb != "up" => (verb, format!("{name} {rest}")),
            _ => (name, format!("{name} {rest}")),
        };
        if name == CLOUDSIM {
            if self.cloud == line {
                return Ok(());
            }
            self.stop_all()?;
            self.cloud.clone_from(&line);
        }
        // a program of an earlier page that was stopped had the same name
        let log = format!("{}-{}", name.replace('=', "-"), step.line);
        let started = self.terminal.background(command)?;
        let mut process = Process::start(&log, started, &self.logs)?;
        let ready = READY.iter().find(|(begin, _)| line.starts_with(begin));
        if let Some((_, text)) = ready {
            process.wait_for(text)?;
        }
        let places = &self.places;
        until("the output that the page shows", || {
            let said = as_shown(places, &process.log());
            let missing = step.output.iter().find(|line| !shows(&said, line, false));
            ensure!(missing.is_none(), "{missing:?} is not in:\n{said}");
            Ok::<_, anyhow::Error>(())
        })?;
        self.running.push((name.to_owned(), process));
        Ok(())
    }

    /// Stops the program of this name that was started last, as Ctrl-C does.
    fn stop(&mut self, program: &str) -> anyhow::Result<()> {
        let index = self
            .running
            .iter()
            .rposition(|(name, _)| name == program)
            .context("it does not run")?;
        self.running.remove(index).1.terminate()?;
        if program == CLOUDSIM {
            self.cloud.clear();
        }
        Ok(())
    }

    /// Stops all programs, the latest first.
    fn stop_all(&mut self) -> anyhow::Result<()> {
        while let Some((_, mut process)) = self.running.pop() {
            process.terminate()?;
        }
        Ok(())
    }

    /// Returns the command with the places of this machine.
    fn here(&self, command: &str) -> String {
        let mut text = String::new();
        let mut rest = command;
        while let Some(c) = rest.chars().next() {
            let is_start = !text
                .chars()
                .next_back()
                .is_some_and(|before| before.is_alphanumeric() || "-_.".contains(before));
            let place = self
                .places
                .iter()
                .filter(|(shown, _)| is_start && rest.starts_with(shown.as_str()))
                .max_by_key(|(shown, _)| shown.len());
            match place {
                Some((shown, here)) => {
                    text.push_str(here);
                    rest = &rest[shown.len()..];
                }
                None => {
                    text.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        text
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // the agents before their cloud
        while self.running.pop().is_some() {}
        if self.is_detached {
            // This fails if the page has stopped the cloud.
            let _ = self.terminal.run("cloudsim down --all");
        }
    }
}

/// Returns the text with the places of the pages.
fn as_shown(places: &[(String, String)], text: &str) -> String {
    let mut places: Vec<_> = places.iter().collect();
    places.sort_by_key(|(_, here)| std::cmp::Reverse(here.len()));
    places.iter().fold(text.to_owned(), |text, (shown, here)| {
        text.replace(here, shown)
    })
}

/// Compares what a command printed with what the page shows.
///
/// # Errors
/// A line is missing, or the command failed and the page shows no error.
pub fn check(output: &Output, step: &Step, numbers_vary: bool) -> anyhow::Result<()> {
    let said = format!("{}{}", output.text(), output.stderr);
    let missing = step
        .output
        .iter()
        .find(|line| !shows(&said, line, numbers_vary));
    ensure!(missing.is_none(), "{missing:?} is not in:\n{said}");
    let is_error = |line: &String| {
        ["Error", "error", "The "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    let fails = step.fails || step.output.iter().any(is_error);
    ensure!(
        fails == (output.code != Some(0)),
        "exit code {:?}:\n{said}",
        output.code
    );
    Ok(())
}
