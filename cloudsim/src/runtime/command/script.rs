//! Reads scripts of a shell as lists of simple commands. Loops, conditions, pipes and what else is more than that are not read.

use std::{iter::Peekable, str::Chars};

/// The longest script that is read: those in manifests are a few lines.
const MAX_SCRIPT: usize = 16 * 1024;

/// When a command is run, by how the one before it ended.
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
    /// A variable's name.
    Variable(String),
}

/// Words as they are before variables stand for their values.
pub(super) type Word = Vec<Part>;

/// One command of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) joint: Joint,
    pub(super) words: Vec<Word>,
    /// Whether what it prints goes somewhere else than to the log.
    pub(super) is_redirected: bool,
}

/// What is more than a list of simple commands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsupported;

/// Words with which the shell's own language begins.
const KEYWORDS: [&str; 11] = ["if", "for", "while", "until", "case", "function", "{", "}", "[[", "!", "trap"];

/// Reads a script.
pub(super) fn read(text: &str) -> Result<Vec<Command>, Unsupported> {
    if text.len() > MAX_SCRIPT {
        return Err(Unsupported);
    }
    let mut reader = Reader {
        rest: text.chars().peekable(),
        commands: Vec::new(),
        joint: Joint::Always,
        words: Vec::new(),
        is_redirected: false,
    };
    while reader.step()? {}
    reader.end_command(Joint::Always)?;
    Ok(reader.commands)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    commands: Vec<Command>,
    joint: Joint,
    words: Vec<Word>,
    is_redirected: bool,
}

impl Reader<'_> {
    /// Reads one word or sign; false at the end.
    fn step(&mut self) -> Result<bool, Unsupported> {
        let Some(&next) = self.rest.peek() else { return Ok(false) };
        match next {
            ' ' | '\t' | '\r' => drop(self.rest.next()),
            '#' => while self.rest.next_if(|next| *next != '\n').is_some() {},
            ';' | '\n' => {
                self.rest.next();
                self.end_command(Joint::Always)?;
            }
            '&' | '|' => {
                self.rest.next();
                // alone they make a pipe or a process in the background
                self.rest.next_if_eq(&next).ok_or(Unsupported)?;
                self.end_command(if next == '&' { Joint::AfterSuccess } else { Joint::AfterFailure })?;
            }
            '>' => self.redirection()?,
            '<' | '(' | ')' => return Err(Unsupported),
            _ => {
                let word = self.word()?;
                match word.as_slice() {
                    // `2>`: the number belongs to the redirection
                    [Part::Text(text)]
                        if matches!(text.as_str(), "1" | "2") && self.rest.peek() == Some(&'>') => {}
                    _ => self.words.push(word),
                }
            }
        }
        Ok(true)
    }

    fn end_command(&mut self, next: Joint) -> Result<(), Unsupported> {
        let words = std::mem::take(&mut self.words);
        let is_redirected = std::mem::take(&mut self.is_redirected);
        if let Some([Part::Text(first)]) = words.first().map(Vec::as_slice)
            && KEYWORDS.contains(&first.as_str())
        {
            return Err(Unsupported);
        }
        if !words.is_empty() {
            self.commands.push(Command { joint: self.joint, words, is_redirected });
            self.joint = next;
        }
        Ok(())
    }

    fn redirection(&mut self) -> Result<(), Unsupported> {
        self.rest.next();
        self.rest.next_if_eq(&'>');
        if self.rest.next_if_eq(&'&').is_some() {
            // both streams are one log
            return self.rest.next_if(char::is_ascii_digit).map(drop).ok_or(Unsupported);
        }
        while self.rest.next_if_eq(&' ').is_some() {}
        let target = self.word()?;
        let is_log =
            matches!(target.as_slice(), [Part::Text(path)] if path == "/dev/stdout" || path == "/dev/stderr");
        self.is_redirected = !is_log;
        Ok(())
    }

    fn word(&mut self) -> Result<Word, Unsupported> {
        let mut word = Word::new();
        let mut quoted = false;
        while let Some(&next) = self.rest.peek() {
            match next {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' if !quoted => break,
                '`' => return Err(Unsupported),
                '"' => {
                    quoted = !quoted;
                    push(&mut word, "");
                    self.rest.next();
                }
                '\'' if !quoted => {
                    self.rest.next();
                    let text: String =
                        std::iter::from_fn(|| self.rest.next_if(|next| *next != '\'')).collect();
                    self.rest.next().ok_or(Unsupported)?;
                    push(&mut word, &text);
                }
                '\\' => {
                    self.rest.next();
                    let escaped = self.rest.next().ok_or(Unsupported)?;
                    if quoted && !matches!(escaped, '"' | '\\' | '$' | '`') {
                        push(&mut word, "\\");
                    }
                    push(&mut word, escaped.encode_utf8(&mut [0; 4]));
                }
                '$' => {
                    self.rest.next();
                    word.push(self.variable()?);
                }
                other => {
                    self.rest.next();
                    push(&mut word, other.encode_utf8(&mut [0; 4]));
                }
            }
        }
        if quoted { Err(Unsupported) } else { Ok(word) }
    }

    fn variable(&mut self) -> Result<Part, Unsupported> {
        let is_name = |next: &char| next.is_ascii_alphanumeric() || *next == '_';
        let braced = self.rest.next_if_eq(&'{').is_some();
        let name: String = std::iter::from_fn(|| self.rest.next_if(is_name)).collect();
        if braced {
            // `${A:-b}` and its like
            self.rest.next_if_eq(&'}').ok_or(Unsupported)?;
        }
        match (name.is_empty(), self.rest.peek().copied()) {
            (false, _) => Ok(Part::Variable(name)),
            (true, Some('?' | '(')) | (true, _) if braced => Err(Unsupported),
            (true, Some('?')) => {
                self.rest.next();
                Ok(Part::Variable("?".into()))
            }
            (true, Some('(')) => Err(Unsupported),
            (true, _) => Ok(Part::Text("$".into())),
        }
    }
}

fn push(word: &mut Word, text: &str) {
    match word.last_mut() {
        Some(Part::Text(last)) => last.push_str(text),
        _ => word.push(Part::Text(text.to_owned())),
    }
}
