//! Runs programs that end by themselves.

use std::{
    io::{Read, Write},
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
};

use anyhow::{Context, anyhow, ensure};

use crate::until;

/// The result of a program.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, as text.
    pub stderr: String,
}

impl Output {
    /// Returns its stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns itself if the program succeeded.
    pub fn success(self) -> anyhow::Result<Self> {
        ensure!(
            self.code == Some(0),
            "exit code {:?}: {}{}",
            self.code,
            self.stderr,
            self.text()
        );
        Ok(self)
    }

    /// Returns its stderr if it ended with exit code 1, as for every mistake that a user can correct.
    pub fn failure(self) -> anyhow::Result<String> {
        ensure!(
            self.code == Some(1),
            "exit code {:?}, not 1: {}{}",
            self.code,
            self.stderr,
            self.text()
        );
        Ok(self.stderr)
    }
}

/// Fails, and shows the text, unless it contains all of these words.
pub fn ensure_says(text: &str, words: &[&str]) -> anyhow::Result<()> {
    for word in words {
        ensure!(text.contains(word), "{word:?} is not in:\n{text}");
    }
    Ok(())
}

/// Runs `command` to its end, which must come in time.
pub fn run(command: &mut Command) -> anyhow::Result<Output> {
    run_with_input(command, "")
}

/// Runs `command` with `input` on its stdin.
pub fn run_with_input(command: &mut Command, input: &str) -> anyhow::Result<Output> {
    let shown = format!("{command:?}");
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = Ended(child.with_context(|| format!("{shown} cannot be started"))?);
    let stdout = child.0.stdout.take().map(collect);
    let stderr = child.0.stderr.take().map(collect);
    if let Some(mut stdin) = child.0.stdin.take() {
        // A program that does not read its input has its reasons, and an exit code.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = until(&format!("end of {shown}"), || match child.0.try_wait() {
        Ok(Some(status)) => Ok(status),
        Ok(None) => Err("it runs".to_owned()),
        Err(error) => Err(error.to_string()),
    })?;
    let stderr = String::from_utf8_lossy(&collect_output(stderr)?).into_owned();
    Ok(Output {
        code: status.code(),
        stdout: collect_output(stdout)?,
        stderr,
    })
}

/// Reads in the background, because the program would block on a full pipe.
fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<std::io::Result<Vec<u8>>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

fn collect_output(reader: Option<JoinHandle<std::io::Result<Vec<u8>>>>) -> anyhow::Result<Vec<u8>> {
    match reader {
        Some(reader) => Ok(reader
            .join()
            .map_err(|_| anyhow!("the reader of the output has failed"))??),
        None => Ok(Vec::new()),
    }
}

/// A child that is killed when its owner is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only if the child has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
