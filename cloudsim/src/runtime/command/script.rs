//! Reads scripts of a shell: lists of pipelines of simple commands. Loops, conditions and what else is more than that are not read.

use std::{iter::Peekable, str::Chars};

/// The longest script that is read: those in manifests are a few lines.
pub(super) const MAX_SCRIPT: usize = 16 * 1024;
/// How deep one `$(…)` may be in another.
const MAX_DEPTH: usize = 4;

/// When a pipeline is run, by how the one before it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    Always,
    AfterSuccess,
    AfterFailure,
}

/// Part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// A variable's name. What is not in quotes is split at its spaces.
    Variable {
        name: String,
        is_quoted: bool,
    },
    /// What this script prints.
    Output {
        script: Script,
        is_quoted: bool,
    },
}

/// Words as they are before variables stand for their values.
pub(super) type Word = Vec<Part>;

/// Where an input comes from or an output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// `< file`
    Input(Word),
    /// `> file`, `2>> file`, `&> file`
    Output { what: Which, target: Word, appends: bool },
    /// `2>&1`, `>&2`
    Same { what: Which, to: Which },
}

/// An output.
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
    pub(super) redirections: Vec<Redirection>,
}

/// Commands of which each reads what the one before it prints; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) joint: Joint,
    pub(super) commands: Vec<Command>,
}

/// A list of pipelines.
pub(super) type Script = Vec<Pipeline>;

/// Why a script is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A quote or `$(` has no end: more may follow.
    Unfinished,
    /// It is more than a list of simple commands.
    Unsupported,
}

impl Unreadable {
    /// What a shell says.
    pub(super) fn text(self) -> &'static str {
        match self {
            Unfinished => "syntax error: unterminated quoted string",
            Unsupported => {
                "syntax error: this is not simulated: known are lists of commands, pipes, redirections, variables and $(…)"
            }
        }
    }
}

use Unreadable::{Unfinished, Unsupported};

/// Words with which the shell's own language begins.
const KEYWORDS: [&str; 11] = ["if", "for", "while", "until", "case", "function", "{", "}", "[[", "!", "trap"];

/// Reads a script.
pub(super) fn read(text: &str) -> Result<Script, Unreadable> {
    if text.len() > MAX_SCRIPT {
        return Err(Unsupported);
    }
    Reader::new(&mut text.chars().peekable(), 0).script()
}

struct Reader<'a, 'b> {
    rest: &'a mut Peekable<Chars<'b>>,
    script: Script,
    joint: Joint,
    pipeline: Vec<Command>,
    command: Command,
    depth: usize,
}

impl<'a, 'b> Reader<'a, 'b> {
    fn new(rest: &'a mut Peekable<Chars<'b>>, depth: usize) -> Self {
        let (script, pipeline, command) = (Script::new(), Vec::new(), Command::default());
        Self { rest, script, joint: Joint::Always, pipeline, command, depth }
    }

    /// Reads to the end, or to the `)` of a `$(`.
    fn script(mut self) -> Result<Script, Unreadable> {
        while self.step()? {}
        if self.depth > 0 {
            self.rest.next_if_eq(&')').ok_or(Unfinished)?;
        }
        self.end_pipeline(Joint::Always)?;
        Ok(self.script)
    }

    /// Reads one word or sign; false at the end.
    fn step(&mut self) -> Result<bool, Unreadable> {
        let Some(&next) = self.rest.peek() else { return Ok(false) };
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
                    self.end_command()?.then_some(()).ok_or(Unsupported)?;
                    // an empty command after it is no pipeline
                    self.pipeline_goes_on()?;
                }
            }
            '&' => {
                self.rest.next();
                if self.rest.next_if_eq(&'>').is_some() {
                    self.target(Which::Both)?;
                } else {
                    // alone it makes a process in the background
                    self.rest.next_if_eq(&'&').ok_or(Unsupported)?;
                    self.end_pipeline(Joint::AfterSuccess)?;
                }
            }
            '>' => self.output(Which::Stdout)?,
            '<' => {
                self.rest.next();
                if matches!(self.rest.peek(), Some('<' | '(' | '&')) {
                    return Err(Unsupported);
                }
                let target = self.next_word()?;
                self.command.redirections.push(Redirection::Input(target));
            }
            ')' if self.depth > 0 => return Ok(false),
            '(' | ')' => return Err(Unsupported),
            _ => {
                let word = self.word()?;
                // `2>`: the number belongs to the redirection
                let number = match word.as_slice() {
                    [Part::Text(text)] if self.rest.peek() == Some(&'>') => text.as_str(),
                    _ => "",
                };
                match number {
                    "1" => self.output(Which::Stdout)?,
                    "2" => self.output(Which::Stderr)?,
                    _ => self.command.words.push(word),
                }
            }
        }
        Ok(true)
    }

    /// Whether there was one.
    fn end_command(&mut self) -> Result<bool, Unreadable> {
        let command = std::mem::take(&mut self.command);
        if let Some([Part::Text(first)]) = command.words.first().map(Vec::as_slice)
            && KEYWORDS.contains(&first.as_str())
        {
            return Err(Unsupported);
        }
        let is_one = !command.words.is_empty() || !command.redirections.is_empty();
        if is_one {
            self.pipeline.push(command);
        }
        Ok(is_one)
    }

    fn pipeline_goes_on(&mut self) -> Result<(), Unreadable> {
        while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
        match self.rest.peek() {
            None => Err(Unfinished),
            Some('|' | ';' | '&' | ')') => Err(Unsupported),
            Some(_) => Ok(()),
        }
    }

    fn end_pipeline(&mut self, next: Joint) -> Result<(), Unreadable> {
        self.end_command()?;
        let commands = std::mem::take(&mut self.pipeline);
        if !commands.is_empty() {
            self.script.push(Pipeline { joint: self.joint, commands });
            self.joint = next;
        }
        Ok(())
    }

    /// At a `>`.
    fn output(&mut self, what: Which) -> Result<(), Unreadable> {
        self.rest.next();
        if self.rest.next_if_eq(&'&').is_none() {
            return self.target(what);
        }
        let to = match self.rest.next() {
            Some('1') => Which::Stdout,
            Some('2') => Which::Stderr,
            _ => return Err(Unsupported),
        };
        self.command.redirections.push(Redirection::Same { what, to });
        Ok(())
    }

    /// After a `>`.
    fn target(&mut self, what: Which) -> Result<(), Unreadable> {
        let appends = self.rest.next_if_eq(&'>').is_some();
        let target = self.next_word()?;
        self.command.redirections.push(Redirection::Output { what, target, appends });
        Ok(())
    }

    fn next_word(&mut self) -> Result<Word, Unreadable> {
        while self.rest.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
        let word = self.word()?;
        if word.is_empty() { Err(Unsupported) } else { Ok(word) }
    }

    fn word(&mut self) -> Result<Word, Unreadable> {
        let mut word = Word::new();
        let mut is_quoted = false;
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' if !is_quoted => break,
                '`' => return Err(Unsupported),
                '"' => {
                    is_quoted = !is_quoted;
                    push(&mut word, "");
                    self.rest.next();
                }
                '\'' if !is_quoted => {
                    self.rest.next();
                    let text: String =
                        std::iter::from_fn(|| self.rest.next_if(|next| *next != '\'')).collect();
                    self.rest.next().ok_or(Unfinished)?;
                    push(&mut word, &text);
                }
                '\\' => {
                    self.rest.next();
                    match self.rest.next().ok_or(Unfinished)? {
                        // the line goes on
                        '\n' => {}
                        escaped => {
                            if is_quoted && !matches!(escaped, '"' | '\\' | '$' | '`') {
                                push(&mut word, "\\");
                            }
                            push(&mut word, escaped.encode_utf8(&mut [0; 4]));
                        }
                    }
                }
                '$' => {
                    self.rest.next();
                    let part = self.variable(is_quoted)?;
                    word.push(part);
                }
                other => {
                    self.rest.next();
                    push(&mut word, other.encode_utf8(&mut [0; 4]));
                }
            }
        }
        if is_quoted { Err(Unfinished) } else { Ok(word) }
    }

    /// After a `$`.
    fn variable(&mut self, is_quoted: bool) -> Result<Part, Unreadable> {
        if self.rest.next_if_eq(&'(').is_some() {
            if self.depth >= MAX_DEPTH || self.rest.peek() == Some(&'(') {
                return Err(Unsupported);
            }
            let script = Reader::new(self.rest, self.depth + 1).script()?;
            return Ok(Part::Output { script, is_quoted });
        }
        let is_name = |next: &char| next.is_ascii_alphanumeric() || *next == '_';
        let is_braced = self.rest.next_if_eq(&'{').is_some();
        let mut name: String = std::iter::from_fn(|| self.rest.next_if(is_name)).collect();
        if name.is_empty() && self.rest.next_if_eq(&'?').is_some() {
            name.push('?');
        }
        if is_braced {
            // `${A:-b}` and its like
            self.rest.next_if_eq(&'}').ok_or(Unsupported)?;
        }
        match (name.is_empty(), is_braced) {
            (false, _) => Ok(Part::Variable { name, is_quoted }),
            (true, true) => Err(Unsupported),
            (true, false) => Ok(Part::Text("$".into())),
        }
    }
}

fn push(word: &mut Word, text: &str) {
    match word.last_mut() {
        Some(Part::Text(last)) => last.push_str(text),
        _ => word.push(Part::Text(text.to_owned())),
    }
}
