//! A terminal for commands of pages: quotes, variables, `$(…)`, `|` and `&&` as in a shell, which is not started.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use anyhow::{Context, bail};

use crate::{Output, run_with_input};

/// A terminal with a current directory, variables, and programs of this build.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// The current directory.
    pub directory: PathBuf,
    /// Variables, also of the environment of programs.
    pub variables: BTreeMap<String, String>,
    /// Programs that are not those of the machine, by the name under which pages call them.
    pub programs: BTreeMap<String, PathBuf>,
}

impl Terminal {
    /// Runs a line to its end, and returns the output of its last command.
    ///
    /// # Errors
    /// The line uses more of a shell than this knows, or a program cannot be started or does not end.
    pub fn run(&mut self, line: &str) -> anyhow::Result<Output> {
        let mut all = Output {
            code: Some(0),
            stdout: Vec::new(),
            stderr: String::new(),
        };
        let mut rest = line;
        while all.code == Some(0) && !rest.trim().is_empty() {
            // the variables of a pipeline are those that the one before it has exported
            let pipeline = self.pipeline(&mut rest)?;
            self.run_pipeline(&pipeline, &mut all)?;
        }
        Ok(all)
    }

    fn run_pipeline(&mut self, pipeline: &[Vec<String>], all: &mut Output) -> anyhow::Result<()> {
        let mut input = String::new();
        for (index, words) in pipeline.iter().enumerate() {
            if words.first().is_some_and(|word| word == "export") {
                let assigned = words.iter().filter_map(|word| word.split_once('='));
                self.variables
                    .extend(assigned.map(|(name, value)| (name.to_owned(), value.to_owned())));
                continue;
            }
            let output = run_with_input(&mut self.command(words)?, &input)?;
            all.stderr.push_str(&output.stderr);
            all.code = output.code;
            input = output.text();
            if index + 1 == pipeline.len() {
                all.stdout.extend(output.stdout);
            }
        }
        Ok(())
    }

    /// Returns the one command of a line, to be started in the background.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn background(&mut self, line: &str) -> anyhow::Result<Command> {
        let mut rest = line;
        let pipeline = self.pipeline(&mut rest)?;
        match pipeline.as_slice() {
            [words] if rest.is_empty() => self.command(words),
            _ => bail!("{line}: not one command"),
        }
    }

    fn command(&self, words: &[String]) -> anyhow::Result<Command> {
        let is_assignment = |word: &&String| {
            word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            })
        };
        let assigned = words.iter().take_while(is_assignment).count();
        let (program, arguments) = words[assigned..].split_first().context("no command")?;
        let path = self.programs.get(program);
        let mut command = Command::new(path.map_or_else(|| program.into(), Clone::clone));
        command
            .args(arguments)
            .current_dir(&self.directory)
            .envs(&self.variables)
            .envs(
                words[..assigned]
                    .iter()
                    .filter_map(|word| word.split_once('=')),
            );
        Ok(command)
    }

    /// Removes the commands before the next `&&` from `rest`, and returns the words of each, with the values of their variables.
    fn pipeline(&mut self, rest: &mut &str) -> anyhow::Result<Vec<Vec<String>>> {
        let mut commands = vec![Vec::new()];
        let mut word: Option<String> = None;
        while let Some(c) = rest.chars().next() {
            *rest = &rest[c.len_utf8()..];
            if matches!(c, ' ' | '|' | '&')
                && let Some(command) = commands.last_mut()
            {
                command.extend(word.take());
            }
            match c {
                ' ' => {}
                '|' => commands.push(Vec::new()),
                '&' if rest.starts_with('&') => {
                    *rest = &rest[1..];
                    break;
                }
                '<' | '>' | ';' | '&' | '`' => bail!("{c:?} is not supported before {rest:?}"),
                '~' if word.is_none() => {
                    word = Some(self.variables.get("HOME").context("no $HOME")?.clone());
                }
                '\'' => {
                    let (inside, after) = rest.split_once('\'').context("an open quote")?;
                    word.get_or_insert_default().push_str(inside);
                    *rest = after;
                }
                '"' => {
                    let inside = self.parse_quoted(rest)?;
                    word.get_or_insert_default().push_str(&inside);
                }
                '$' => {
                    let value = self.expand(rest)?;
                    word.get_or_insert_default().push_str(&value);
                }
                c => word.get_or_insert_default().push(c),
            }
        }
        if let Some(command) = commands.last_mut() {
            command.extend(word);
        }
        Ok(commands)
    }

    /// Removes the text up to the closing `"` from `rest`, and returns it with the values of its variables.
    fn parse_quoted(&mut self, rest: &mut &str) -> anyhow::Result<String> {
        let mut text = String::new();
        loop {
            let c = rest.chars().next().context("an open quote")?;
            *rest = &rest[c.len_utf8()..];
            match c {
                '"' => return Ok(text),
                '$' => text.push_str(&self.expand(rest)?),
                c => text.push(c),
            }
        }
    }

    /// Returns the value of what follows a `$`, and removes it from `rest`.
    fn expand(&mut self, rest: &mut &str) -> anyhow::Result<String> {
        if let Some(inside) = rest.strip_prefix('(') {
            let (command, after) = inside.split_once(')').context("$( without )")?;
            *rest = after;
            let output = self.run(command)?.success()?;
            return Ok(output.text().trim_end().to_owned());
        }
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        *rest = after;
        match name {
            "PWD" => Ok(self.directory.display().to_string()),
            name => self
                .variables
                .get(name)
                .cloned()
                .with_context(|| format!("no variable ${name}")),
        }
    }
}
