//! Parses shell scripts: lists of pipelines of commands, with conditions and loops ([`compound`]). Functions, `case` and everything
//! beyond that are not supported.

use std::{iter::Peekable, str::Chars};

pub(super) use self::compound::Compound;

mod compound;
mod word;

/// The longest script that is parsed, in bytes: those in manifests are a few lines.
pub(super) const MAX_SCRIPT: usize = 16 * 1024;
/// How deep `$(…)` may be nested.
const MAX_DEPTH: usize = 4;

/// When a pipeline is run, depending on how the previous one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    Always,
    AfterSuccess,
    AfterFailure,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// A variable's name. Its value is split at spaces unless it is quoted.
    Variable {
        name: String,
        is_quoted: bool,
        /// What is used if the variable is empty or not set.
        otherwise: Option<Otherwise>,
    },
    /// The output of this script.
    Output {
        script: Script,
        is_quoted: bool,
    },
    /// The result of `$((…))`.
    Sum(String),
}

/// What is done if a variable is empty or not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// `${A:-b}`
    Word(Word),
    /// `${A:?}`: the shell ends.
    Fails,
}

/// A word before its variables are expanded.
pub(super) type Word = Vec<Part>;

/// A redirection of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// `< file`
    Input(Word),
    /// `> file`, `2>> file`, `&> file`
    Output {
        what: Which,
        target: Word,
        appends: bool,
    },
    /// `2>&1`, `>&2`
    Same { what: Which, to: Which },
}

/// An output that a redirection names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Stdout,
    Stderr,
    Both,
}

/// One command of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    /// A condition or loop, instead of words.
    pub(super) compound: Option<Box<Compound>>,
    pub(super) redirections: Vec<Redirection>,
}

/// Commands of which each reads the output of the previous one; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) joint: Joint,
    /// Whether it begins with `!`.
    pub(super) is_negated: bool,
    pub(super) commands: Vec<Command>,
}

/// A list of pipelines.
pub(super) type Script = Vec<Pipeline>;

/// Why a script cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A quote or `$(` has no end; more lines may follow.
    Unfinished,
    /// It uses this, which is not supported.
    Unsupported(&'static str),
}

impl Unreadable {
    /// Returns the shell's error message.
    pub(super) fn text(self) -> String {
        match self {
            Unfinished => "syntax error: unterminated quoted string".to_owned(),
            Unsupported(what) => {
                format!("syntax error: the simulated runtime does not support {what}")
            }
        }
    }
}

use Unreadable::{Unfinished, Unsupported};

/// Part of a pipeline is missing.
const NO_COMMAND: Unreadable = Unsupported("pipes without a command");

/// Parses a script.
pub(super) fn read(text: &str) -> Result<Script, Unreadable> {
    if text.len() > MAX_SCRIPT {
        return Err(Unsupported("scripts of more than 16 KiB"));
    }
    Reader::new(&mut text.chars().peekable(), Depth::default()).script()
}

/// How deep a script is nested.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    /// How many `$(…)` surround it.
    scripts: usize,
    /// How many conditions and loops surround it, including those around its `$(…)`.
    compounds: usize,
}

struct Reader<'a, 'b> {
    rest: &'a mut Peekable<Chars<'b>>,
    script: Script,
    joint: Joint,
    is_negated: bool,
    pipeline: Vec<Command>,
    command: Command,
    depth: Depth,
    /// The words that end the script when they stand at the place of a command, and the one that has ended it.
    ends: &'static [&'static str],
    end: Option<&'static str>,
}

impl<'a, 'b> Reader<'a, 'b> {
    fn new(rest: &'a mut Peekable<Chars<'b>>, depth: Depth) -> Self {
        let (script, pipeline, command) = (Script::new(), Vec::new(), Command::default());
        let (joint, is_negated) = (Joint::Always, false);
        Self {
            rest,
            script,
            joint,
            is_negated,
            pipeline,
            command,
            depth,
            ends: &[],
            end: None,
        }
    }

    /// Parses to the end, or to the `)` of a `$(`.
    fn script(mut self) -> Result<Script, Unreadable> {
        while self.step()? {}
        if self.depth.scripts > 0 {
            self.rest.next_if_eq(&')').ok_or(Unfinished)?;
        }
        self.end_pipeline(Joint::Always)?;
        Ok(self.script)
    }

    /// Parses one word or sign; returns false at the end.
    fn step(&mut self) -> Result<bool, Unreadable> {
        let Some(&next) = self.rest.peek() else {
            return Ok(false);
        };
        match next {
            ' ' | '\t' | '\r' => drop(self.rest.next()),
            '#' => while self.rest.next_if(|next| *next != '\n').is_some() {},
            ';' | '\n' => {
                self.rest.next();
                self.end_pipeline(Joint::Always)?;
            }
            '|' => {
                self.rest.next();
                if self.rest.next_if_eq(&'|').is_some() {
                    self.end_pipeline(Joint::AfterFailure)?;
                } else {
                    self.end_command()?.then_some(()).ok_or(NO_COMMAND)?;
                    // An empty command after it makes no pipeline.
                    self.pipeline_goes_on()?;
                }
            }
            '&' => self.ampersand()?,
            '>' => self.output(Which::Stdout)?,
            '<' => {
                self.rest.next();
                if matches!(self.rest.peek(), Some('<' | '(' | '&')) {
                    return Err(Unsupported("here documents and other forms of <"));
                }
                let target = self.next_word()?;
                self.command.redirections.push(Redirection::Input(target));
            }
            ')' if self.depth.scripts > 0 => return Ok(false),
            '(' | ')' => return Err(self.unsupported_bracket()),
            _ => {
                let word = self.word()?;
                if self.command == Command::default()
                    && let [Part::Text(first)] = word.as_slice()
                {
                    if let Some(end) = self.ends.iter().find(|end| *end == first) {
                        self.end = Some(end);
                        return Ok(false);
                    }
                    if first == "!" && self.pipeline.is_empty() {
                        self.is_negated = !self.is_negated;
                        return Ok(true);
                    }
                    if let Some(compound) = self.compound(first)? {
                        self.command.compound = Some(Box::new(compound));
                        return Ok(true);
                    }
                }
                // In `2>`, the number belongs to the redirection.
                let number = match word.as_slice() {
                    [Part::Text(text)] if self.rest.peek() == Some(&'>') => text.as_str(),
                    _ => "",
                };
                match number {
                    "1" => self.output(Which::Stdout)?,
                    "2" => self.output(Which::Stderr)?,
                    _ if self.command.compound.is_some() => {
                        return Err(Unsupported("words after a condition or loop"));
                    }
                    _ => self.command.words.push(word),
                }
            }
        }
        Ok(true)
    }

    /// Parses `&&`, `&>` or `&`.
    fn ampersand(&mut self) -> Result<(), Unreadable> {
        self.rest.next();
        if self.rest.next_if_eq(&'>').is_some() {
            self.target(Which::Both)
        } else if self.rest.next_if_eq(&'&').is_some() {
            self.end_pipeline(Joint::AfterSuccess)
        } else {
            self.wait()
        }
    }

    /// Parses what follows a single `&`. With `wait` the shell does nothing else meanwhile, so that the command may as well run in the
    /// foreground. Other processes in the background are not supported.
    fn wait(&mut self) -> Result<(), Unreadable> {
        while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
        let is_wait = "wait"
            .chars()
            .all(|letter| self.rest.next_if_eq(&letter).is_some());
        if !is_wait
            || self
                .rest
                .peek()
                .is_some_and(|next| !matches!(next, '\n' | ';' | ')'))
        {
            return Err(Unsupported("processes in the background (&) without wait"));
        }
        self.end_pipeline(Joint::Always)
    }

    /// Says what a bracket at this place belongs to.
    fn unsupported_bracket(&self) -> Unreadable {
        match self.command.words.first().map(Vec::as_slice) {
            Some([Part::Text(first)]) if first == "case" => Unsupported("case"),
            _ => Unsupported("functions and subshells, ( )"),
        }
    }

    /// Ends the current command; returns whether there was one.
    fn end_command(&mut self) -> Result<bool, Unreadable> {
        let command = std::mem::take(&mut self.command);
        let text = |word: Option<&Word>| match word.map(Vec::as_slice) {
            Some([Part::Text(text)]) => text.clone(),
            _ => String::new(),
        };
        let first = text(command.words.first());
        // A condition with `&&` or `<` in it was cut there, and its end is elsewhere.
        if first == "[[" && text(command.words.last()) != "]]" {
            return Err(Unsupported("&&, || and < in [[ ]]"));
        }
        match first.as_str() {
            "case" | "esac" => return Err(Unsupported("case")),
            "function" => return Err(Unsupported("functions")),
            // when it is stopped, a container with a trap exits with 0
            "trap" if text(command.words.get(1)).starts_with("exit") => return Ok(false),
            "trap" => return Err(Unsupported("trap with other actions than exit")),
            "do" | "done" | "elif" | "else" | "fi" | "then" | "}" | "!" => {
                return Err(Unsupported("a reserved word at this place"));
            }
            _ => {}
        }
        let is_one = command != Command::default();
        if is_one {
            self.pipeline.push(command);
        }
        Ok(is_one)
    }

    fn pipeline_goes_on(&mut self) -> Result<(), Unreadable> {
        while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
        match self.rest.peek() {
            None => Err(Unfinished),
            Some('|' | ';' | '&' | ')') => Err(NO_COMMAND),
            Some(_) => Ok(()),
        }
    }

    fn end_pipeline(&mut self, next: Joint) -> Result<(), Unreadable> {
        self.end_command()?;
        let commands = std::mem::take(&mut self.pipeline);
        if !commands.is_empty() {
            let is_negated = std::mem::take(&mut self.is_negated);
            self.script.push(Pipeline {
                joint: self.joint,
                is_negated,
                commands,
            });
            self.joint = next;
        }
        Ok(())
    }

    /// Parses the redirection that begins with `>`.
    fn output(&mut self, what: Which) -> Result<(), Unreadable> {
        self.rest.next();
        if self.rest.next_if_eq(&'&').is_none() {
            return self.target(what);
        }
        let to = match self.rest.next() {
            Some('1') => Which::Stdout,
            Some('2') => Which::Stderr,
            _ => return Err(Unsupported("redirections to other outputs than 1 and 2")),
        };
        self.command
            .redirections
            .push(Redirection::Same { what, to });
        Ok(())
    }

    /// Parses what follows a `>`.
    fn target(&mut self, what: Which) -> Result<(), Unreadable> {
        let appends = self.rest.next_if_eq(&'>').is_some();
        let target = self.next_word()?;
        self.command.redirections.push(Redirection::Output {
            what,
            target,
            appends,
        });
        Ok(())
    }
}
