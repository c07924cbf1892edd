//! The commands that are known, and how a script of them goes.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Known, Run,
    script::{self, Command, Joint, Part, Word},
};
use crate::runtime::behaviour::duration;

/// What a script may print; what is more is left out.
const MAX_LINES: usize = 1000;
/// How deep one `sh -c` may be in another.
const MAX_DEPTH: usize = 4;

/// What the words of a container say that it does.
pub(super) fn run(known: &Known<'_>) -> Run {
    let mut shell = Shell {
        variables: known.variables.clone(),
        hostname: known.hostname,
        guesses: known.ends,
        now: Duration::ZERO,
        line: String::new(),
        run: Run::default(),
        stops_at_failure: false,
        last: 0,
    };
    let end = shell.command(known.words, false, 0);
    shell.end_line();
    let mut run = shell.run;
    run.is_known = !matches!(end, Next::Serves) || !run.lines.is_empty();
    run.end = match end {
        Next::Goes(code) | Next::Ends(code) => Some((shell.now, code)),
        Next::Serves => None,
    };
    run
}

/// What comes after a command.
enum Next {
    /// The next one; it ended with this code.
    Goes(i32),
    /// Nothing: the whole ends with this code.
    Ends(i32),
    /// Nothing: it runs on.
    Serves,
}

struct Shell<'a> {
    variables: BTreeMap<String, String>,
    hostname: &'a str,
    /// Whether what is not known is taken to end well.
    guesses: bool,
    now: Duration,
    line: String,
    run: Run,
    stops_at_failure: bool,
    last: i32,
}

impl Shell<'_> {
    fn script(&mut self, text: &str, depth: usize) -> Next {
        let Ok(commands) = script::read(text) else { return Next::Serves };
        self.last = 0;
        let count = commands.len();
        for (place, command) in commands.iter().enumerate() {
            let runs = match command.joint {
                Joint::Always => true,
                Joint::AfterSuccess => self.last == 0,
                Joint::AfterFailure => self.last != 0,
            };
            if !runs {
                continue;
            }
            let words: Vec<String> = command.words.iter().flat_map(|word| self.expand(word)).collect();
            match self.step(command, &words, depth) {
                Next::Goes(code) => self.last = code,
                end => return end,
            }
            let is_asked = commands.get(place + 1).is_some_and(|next| next.joint != Joint::Always);
            if self.stops_at_failure && self.last != 0 && !is_asked && place + 1 < count {
                return Next::Ends(self.last);
            }
        }
        Next::Goes(self.last)
    }

    /// One command of a script: what only a shell knows, or else what is a program too.
    fn step(&mut self, command: &Command, words: &[String], depth: usize) -> Next {
        let Some((first, arguments)) = words.split_first() else { return Next::Goes(0) };
        if let Some((name, value)) = first.split_once('=').filter(|(name, _)| is_name(name)) {
            if arguments.is_empty() {
                self.variables.insert(name.to_owned(), value.to_owned());
                return Next::Goes(0);
            }
            return self.step(command, arguments, depth);
        }
        match first.as_str() {
            "exit" | "return" => {
                let code = arguments.first().map_or(Some(self.last), |code| code.parse().ok());
                Next::Ends(code.unwrap_or(2) & 0xff)
            }
            "exec" if !arguments.is_empty() => match self.command(arguments, command.is_redirected, depth) {
                Next::Goes(code) => Next::Ends(code),
                end => end,
            },
            "set" => {
                let has_e = |flags: &String| flags.starts_with('-') && flags.contains('e');
                self.stops_at_failure |= arguments.iter().any(has_e);
                Next::Goes(0)
            }
            "export" => {
                let values = arguments.iter().filter_map(|argument| argument.split_once('='));
                self.variables.extend(values.map(|(name, value)| (name.to_owned(), value.to_owned())));
                Next::Goes(0)
            }
            // they change what nobody sees
            "cd" | "mkdir" | "touch" | "chmod" | "chown" | "cp" | "mv" | "rm" | "ln" | "umask" | "wait"
            | "sync" => Next::Goes(0),
            _ => self.command(words, command.is_redirected, depth),
        }
    }

    /// A program and its arguments.
    fn command(&mut self, words: &[String], is_silent: bool, depth: usize) -> Next {
        let Some((program, arguments)) = words.split_first() else { return Next::Serves };
        match program.rsplit('/').next().unwrap_or_default() {
            "true" | ":" => Next::Goes(0),
            "false" => Next::Goes(1),
            "echo" => self.print(&echo(arguments), is_silent),
            "printf" => self.print(&printf(arguments), is_silent),
            "hostname" => self.print(&format!("{}\n", self.hostname), is_silent),
            "env" | "printenv" if arguments.is_empty() => {
                let text: String =
                    self.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
                self.print(&text, is_silent)
            }
            "sleep" => self.sleep(arguments),
            "exit" => Next::Goes(
                arguments.first().and_then(|code| code.parse::<i32>().ok()).unwrap_or_default() & 0xff,
            ),
            "sh" | "bash" | "ash" | "dash" if depth < MAX_DEPTH => self.nested(arguments, depth + 1),
            _ if depth > 0 && self.guesses => {
                self.now += super::SHORT_WORK;
                Next::Goes(0)
            }
            _ => Next::Serves,
        }
    }

    fn nested(&mut self, arguments: &[String], depth: usize) -> Next {
        let flags = arguments.iter().take_while(|argument| argument.starts_with('-')).count();
        let (flags, rest) = arguments.split_at(flags);
        let has = |flag: char| flags.iter().any(|flags| !flags.starts_with("--") && flags.contains(flag));
        match rest.first() {
            Some(script) if has('c') => {
                self.stops_at_failure = has('e');
                match self.script(script, depth) {
                    Next::Ends(code) => Next::Goes(code),
                    next => next,
                }
            }
            // nobody types anything
            None if !has('c') => Next::Goes(0),
            _ => Next::Serves,
        }
    }

    fn sleep(&mut self, arguments: &[String]) -> Next {
        let seconds = |text: &String| match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => duration(text).ok(),
        };
        let Some(times) =
            arguments.iter().map(seconds).collect::<Option<Vec<_>>>().filter(|times| !times.is_empty())
        else {
            let is_endless = arguments.iter().any(|argument| argument.starts_with("inf"));
            return if is_endless { Next::Serves } else { Next::Goes(1) };
        };
        self.end_line();
        self.now = times.into_iter().fold(self.now, Duration::saturating_add);
        Next::Goes(0)
    }

    fn print(&mut self, text: &str, is_silent: bool) -> Next {
        for piece in text.split_inclusive('\n').filter(|_| !is_silent) {
            self.line.push_str(piece.trim_end_matches('\n'));
            if piece.ends_with('\n') {
                self.push_line();
            }
        }
        Next::Goes(0)
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.push_line();
        }
    }

    fn push_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if self.run.lines.len() < MAX_LINES {
            self.run.lines.push((self.now, line));
        }
    }

    fn expand(&self, word: &Word) -> Option<String> {
        let is_empty_variable = |part: &Part| match part {
            Part::Variable(name) => self.value(name).is_empty(),
            Part::Text(_) => false,
        };
        // `$A` without a value is no word at all
        if word.iter().all(is_empty_variable) {
            return None;
        }
        Some(
            word.iter()
                .map(|part| match part {
                    Part::Text(text) => text.clone(),
                    Part::Variable(name) => self.value(name),
                })
                .collect(),
        )
    }

    fn value(&self, name: &str) -> String {
        match name {
            "?" => self.last.to_string(),
            "HOSTNAME" => self.hostname.to_owned(),
            _ => self.variables.get(name).cloned().unwrap_or_default(),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn echo(arguments: &[String]) -> String {
    let flags = arguments
        .iter()
        .take_while(|argument| matches!(argument.as_str(), "-n" | "-e" | "-ne" | "-en"))
        .count();
    let (flags, words) = arguments.split_at(flags);
    let has = |flag: char| flags.iter().any(|flags| flags.contains(flag));
    let text = words.join(" ");
    let text = if has('e') { unescaped(&text) } else { text };
    if has('n') { text } else { text + "\n" }
}

/// `%s` and `%d` stand for the arguments, one after the other.
fn printf(arguments: &[String]) -> String {
    let Some((format, values)) = arguments.split_first() else { return String::new() };
    let mut values = values.iter();
    let mut text = unescaped(format);
    while let Some(at) = text.find("%s").into_iter().chain(text.find("%d")).min() {
        let value = values.next().cloned().unwrap_or_default().replace('%', "\u{0}");
        text.replace_range(at..at + 2, &value);
    }
    text.replace("%%", "%").replace('\u{0}', "%")
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}
