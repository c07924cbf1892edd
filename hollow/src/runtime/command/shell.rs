//! A shell, as far as it is simulated: scripts, pipelines, redirections, variables and the shell's built-in commands. It runs a
//! script or plans it: in a plan no time passes, no file is read, and what is printed is a log.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::{
    identity::Identity,
    outcome::{Outcome, Stop},
    plan::Plan,
    script::{self, Command, Joint, Pipeline, Redirection, Which},
    streams::{Input, Output, Streams, Variables},
};
use crate::runtime::{answers::ExecAnswer, files::Files};

/// How deep `sh -c` and `$(…)` may be nested.
pub(super) const MAX_DEPTH: usize = 4;
/// The most commands of one script, including those of nested scripts.
const MAX_COMMANDS: usize = 10_000;
/// The most commands in the plan of a container's own script, which is made again and again.
const MAX_PLANNED: usize = 2000;
/// The most bytes of one word.
pub(super) const MAX_WORD: usize = 64 * 1024;
/// The most words of one command.
const MAX_WORDS: usize = 4096;
/// The most bytes of all words of one command.
const MAX_COMMAND_LINE: usize = 256 * 1024;
/// The most bytes of a path.
const MAX_PATH: usize = 1024;

/// The environment in which a shell runs.
pub(super) enum World {
    /// No container: only a plan is made.
    Planned(Plan),
    /// A running container.
    Real(Real),
}

/// A running container as its commands see it.
pub(super) struct Real {
    pub(super) files: Arc<Files>,
    /// Answers to complete command lines.
    pub(super) answers: BTreeMap<String, ExecAnswer>,
    /// Notified of Ctrl-C at the terminal, if there is one.
    pub(super) interrupts: Option<Arc<Notify>>,
    /// The user that runs the commands, and its groups.
    pub(super) identity: Identity,
    /// The settings of the container's own command; `None` in an exec.
    pub(super) own: Option<Own>,
}

/// The settings of a container's own command, which is run when the container starts.
pub(super) struct Own {
    /// Whether unknown commands are assumed to succeed.
    pub(super) guesses: bool,
    /// What is printed for an unknown command if nothing else has been printed.
    pub(super) announcement: String,
}

pub(super) struct Shell {
    pub(super) variables: Variables,
    pub(super) hostname: String,
    pub(super) directory: String,
    /// The exit code of the last command.
    pub(super) last: i32,
    pub(super) stops_at_failure: bool,
    pub(super) depth: usize,
    /// How many more commands may be run.
    pub(super) commands: usize,
    /// How many bytes its programs have moved.
    pub(super) bytes: usize,
    /// Whether anything visible was printed.
    pub(super) has_printed: bool,
    /// Why a script of it was not run.
    pub(super) unread: Option<script::Unreadable>,
    pub(super) world: World,
}

/// The words of a command.
#[derive(Default)]
pub(super) struct Words {
    pub(super) all: Vec<String>,
    /// The bytes of all words together.
    bytes: usize,
}

impl Words {
    pub(super) fn extend(&mut self, word: Option<String>) {
        self.bytes += word.as_ref().map_or(0, String::len);
        self.all.extend(word);
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.all.len() > MAX_WORDS || self.bytes > MAX_COMMAND_LINE
    }
}

/// Variables, current directory, and whether the shell stops at a failure.
pub(super) struct Saved(Variables, String, bool);

impl Shell {
    pub(super) fn new(variables: BTreeMap<String, String>, hostname: String, world: World) -> Self {
        let commands = match world {
            World::Planned(_) | World::Real(Real { own: Some(_), .. }) => MAX_PLANNED,
            World::Real(_) => MAX_COMMANDS,
        };
        Self {
            variables: Variables::new(variables),
            hostname,
            directory: "/".to_owned(),
            last: 0,
            stops_at_failure: false,
            depth: 0,
            commands,
            bytes: 0,
            has_printed: false,
            unread: None,
            world,
        }
    }

    /// Gives it the same allowance of commands as at its beginning.
    pub(super) fn allow_more(&mut self) {
        self.commands = MAX_COMMANDS;
    }

    /// Runs a parsed script. Boxed because it is recursive.
    pub(super) fn script<'a>(
        &'a mut self,
        script: &'a [Pipeline],
        streams: &'a Streams,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let count = script.len();
            for (place, pipeline) in script.iter().enumerate() {
                let runs = match pipeline.joint {
                    Joint::Always => true,
                    Joint::AfterSuccess => self.last == 0,
                    Joint::AfterFailure => self.last != 0,
                };
                if !runs {
                    continue;
                }
                let code = self.pipeline(&pipeline.commands, streams).await?;
                self.last = if pipeline.is_negated {
                    i32::from(code == 0)
                } else {
                    code
                };
                let is_asked = script
                    .get(place + 1)
                    .is_some_and(|next| next.joint != Joint::Always);
                let is_looked_at = is_asked || pipeline.is_negated;
                if self.stops_at_failure && self.last != 0 && !is_looked_at && place + 1 < count {
                    return Err(Stop::Exit(self.last));
                }
            }
            Ok(self.last)
        })
    }

    async fn pipeline(&mut self, commands: &[Command], streams: &Streams) -> Outcome {
        if let [command] = commands {
            return self.command(command, streams).await;
        }
        let mut inner = streams.clone();
        let mut code = 0;
        for (place, command) in commands.iter().enumerate() {
            let pipe = (place + 1 < commands.len()).then(Output::pipe);
            inner.output = pipe
                .as_ref()
                .map_or_else(|| streams.output.clone(), |(output, _)| output.clone());
            // A clone reads from the same input, so this command takes only what it needs.
            let saved = self.save();
            let outcome = self.command(command, &inner).await;
            code = self.restore(saved, outcome)?;
            inner.input = pipe.map_or(Input::Empty, |(_, pipe)| {
                Input::bytes(std::mem::take(&mut *pipe.lock()))
            });
        }
        Ok(code)
    }

    /// Saves what a subshell must not change.
    pub(super) fn save(&self) -> Saved {
        Saved(
            self.variables.clone(),
            self.directory.clone(),
            self.stops_at_failure,
        )
    }

    /// Restores what was saved before a subshell; the end of the subshell does not end this shell.
    pub(super) fn restore(&mut self, saved: Saved, outcome: Outcome) -> Outcome {
        Saved(self.variables, self.directory, self.stops_at_failure) = saved;
        match outcome {
            Err(Stop::Exit(code)) => Ok(code),
            other => other,
        }
    }

    async fn command(&mut self, command: &Command, streams: &Streams) -> Outcome {
        self.take_turn().await?;
        let mut words = Words::default();
        for word in &command.words {
            self.expand(word, streams, &mut words).await?;
        }
        let words = words.all;
        let mut own = streams.clone();
        for redirection in &command.redirections {
            if let Err(why) = self.redirect(redirection, &mut own).await? {
                self.complain(&own, &why).await?;
                return Ok(1);
            }
        }
        match &command.compound {
            Some(compound) => self.compound(compound, &own).await,
            None => self.step(&words, &own).await,
        }
    }

    /// Applies redirections. The inner error is the message that is shown.
    async fn redirect(
        &mut self,
        redirection: &Redirection,
        streams: &mut Streams,
    ) -> Result<Result<(), String>, Stop> {
        match redirection {
            Redirection::Same { what, to } => {
                let output = if *to == Which::Stdout {
                    &streams.output
                } else {
                    &streams.error
                }
                .clone();
                set(streams, *what, output);
            }
            Redirection::Input(target) => {
                let path = self.word(target, streams).await?;
                match self.files(&path, Files::read).await? {
                    Ok(content) => streams.input = Input::bytes(content),
                    Err(why) => return Ok(Err(format!("can't open {path}: {why}"))),
                }
            }
            Redirection::Output {
                what,
                target,
                appends,
            } => {
                let path = self.word(target, streams).await?;
                let output = match path.as_str() {
                    "/dev/stdout" => streams.output.clone(),
                    "/dev/stderr" => streams.error.clone(),
                    "/dev/null" => Output::Nowhere,
                    _ => {
                        let resolved = self.resolve(&path);
                        let appends = *appends;
                        let opened = self.files(&resolved, move |files, path| {
                            files.write(path, b"", appends)
                        });
                        if let Err(why) = opened.await? {
                            return Ok(Err(format!("can't create {path}: {why}")));
                        }
                        Output::File(resolved)
                    }
                };
                set(streams, *what, output);
            }
        }
        Ok(Ok(()))
    }

    /// Runs one command: a built-in of the shell, or else a program.
    async fn step(&mut self, words: &[String], streams: &Streams) -> Outcome {
        // In `A=1 program` the variable stays set, unlike in a real shell; few scripts would notice.
        let assignments = words
            .iter()
            .take_while(|word| assignment(word).is_some())
            .count();
        let (assigned, words) = words.split_at(assignments);
        self.assign(assigned, streams).await?;
        let Some((first, arguments)) = words.split_first() else {
            return Ok(0);
        };
        match first.as_str() {
            "exit" | "return" => {
                let code = arguments
                    .first()
                    .map_or(Some(self.last), |code| code.parse().ok());
                Err(Stop::Exit(code.unwrap_or(2) & 0xff))
            }
            "exec" if !arguments.is_empty() => {
                Err(Stop::Exit(self.program(arguments, streams).await?))
            }
            "set" => {
                let has_e = |flags: &String| flags.starts_with('-') && flags.contains('e');
                self.stops_at_failure |= arguments.iter().any(has_e);
                Ok(0)
            }
            "export" | "local" | "readonly" => self.assign(arguments, streams).await.map(|()| 0),
            "unset" => {
                arguments
                    .iter()
                    .for_each(|name| self.variables.remove(name));
                Ok(0)
            }
            "cd" => {
                self.change_directory(arguments.first().map_or("/root", String::as_str), streams)
                    .await
            }
            "break" => Err(Stop::Break),
            "continue" => Err(Stop::Continue),
            "umask" | "wait" | "sync" | "exec" => Ok(0),
            _ => self.program(words, streams).await,
        }
    }

    async fn assign(&mut self, words: &[String], streams: &Streams) -> Result<(), Stop> {
        for (name, value) in words.iter().filter_map(|word| assignment(word)) {
            if !self.variables.set(name, value.to_owned()) {
                self.complain(streams, "out of memory").await?;
                return Err(Stop::Exit(2));
            }
        }
        Ok(())
    }

    async fn change_directory(&mut self, to: &str, streams: &Streams) -> Outcome {
        let resolved = self.resolve(to);
        if matches!(self.world, World::Real(_)) {
            let found = self.files(&resolved, Files::list).await?;
            if let Err(why) = found {
                self.complain(streams, &format!("cd: can't cd to {to}: {why}"))
                    .await?;
                return Ok(2);
            }
        }
        self.directory = resolved;
        Ok(0)
    }

    /// Runs `sh` with these arguments.
    pub(super) fn run_nested<'a>(
        &'a mut self,
        arguments: &'a [String],
        streams: &'a Streams,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if self.depth >= MAX_DEPTH {
                self.complain(streams, "too many shells in shells").await?;
                return Ok(2);
            }
            self.depth += 1;
            let saved = self.save();
            let outcome = self.sh(arguments, streams).await;
            self.depth -= 1;
            self.restore(saved, outcome)
        })
    }

    async fn sh(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let flags = arguments
            .iter()
            .take_while(|argument| argument.starts_with('-'))
            .count();
        let (flags, rest) = arguments.split_at(flags);
        let has = |flag: char| {
            flags
                .iter()
                .any(|flags| !flags.starts_with("--") && flags.contains(flag))
        };
        self.stops_at_failure = has('e');
        match rest.first() {
            Some(text) if has('c') => self.text(text, streams).await,
            Some(path) => {
                let resolved = self.resolve(path);
                match self.files(&resolved, Files::read).await? {
                    Ok(content) => self.text(&String::from_utf8_lossy(&content), streams).await,
                    Err(why) => {
                        self.complain(streams, &format!("can't open '{path}': {why}"))
                            .await?;
                        Ok(2)
                    }
                }
            }
            None if has('c') => {
                self.complain(streams, "-c requires an argument").await?;
                Ok(2)
            }
            None => self.interactive(streams).await,
        }
    }

    async fn text(&mut self, text: &str, streams: &Streams) -> Outcome {
        match script::read(text) {
            Ok(script) => {
                self.last = 0;
                self.script(&script, streams).await
            }
            Err(why)
                if matches!(
                    self.world,
                    World::Planned(_) | World::Real(Real { own: Some(_), .. })
                ) =>
            {
                if let World::Real(_) = self.world {
                    // A container's own script that is read only now; others are reported when the container starts.
                    tracing::warn!(
                        hostname = self.hostname,
                        error = why.text(),
                        "cannot run script of a simulated container"
                    );
                }
                self.unread.get_or_insert(why);
                Err(Stop::Unknown)
            }
            Err(why) => {
                self.complain(streams, &why.text()).await?;
                Ok(2)
            }
        }
    }

    /// Returns a path as the container's files know it: absolute, and without `.` and `..`.
    pub(super) fn resolve(&self, path: &str) -> String {
        let mut parts: Vec<&str> = Vec::new();
        let start = if path.starts_with('/') {
            ""
        } else {
            self.directory.as_str()
        };
        for part in start.split('/').chain(path.split('/')) {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        format!("/{}", parts.join("/"))
    }

    /// Runs a function on the container's files. The inner error is the message that programs show.
    pub(super) async fn files<T: Send + 'static>(
        &self,
        path: &str,
        ask: impl FnOnce(&Files, &str) -> std::io::Result<T> + Send + 'static,
    ) -> Result<Result<T, String>, Stop> {
        let World::Real(real) = &self.world else {
            return Err(Stop::Depends);
        };
        if path.len() > MAX_PATH {
            return Ok(Err("File name too long".to_owned()));
        }
        let (files, path) = (Arc::clone(&real.files), self.resolve(path));
        let answer = clock::spawn_blocking(move || ask(&files, &path)).await;
        Ok(answer
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(|error| words(&error)))
    }

    /// Prints to the error output, prefixed with the shell's name.
    pub(super) async fn complain(&mut self, streams: &Streams, what: &str) -> Result<(), Stop> {
        self.print(&streams.error, format!("sh: {what}\n").as_bytes())
            .await
    }
}

fn set(streams: &mut Streams, what: Which, output: Output) {
    match what {
        Which::Stdout => streams.output = output,
        Which::Stderr => streams.error = output,
        Which::Both => {
            streams.output = output.clone();
            streams.error = output;
        }
    }
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    word.split_once('=').filter(|(name, _)| is_name(name))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns libc's message for an error.
fn words(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "No such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "Permission denied".to_owned(),
        ErrorKind::AlreadyExists => "File exists".to_owned(),
        ErrorKind::NotADirectory => "Not a directory".to_owned(),
        ErrorKind::IsADirectory => "Is a directory".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "Read-only file system".to_owned(),
        _ => error.to_string(),
    }
}
