//! The programs that every simulated container has.

use std::time::Duration;

use super::{
    arithmetic,
    outcome::{Outcome, Stop},
    run::SHORT_WORK,
    shell::{Real, Shell, World},
    streams::Streams,
};
use crate::runtime::duration::duration;

mod agnhost;
mod condition;
mod file;
mod filter;
mod tar;
mod text;

/// The names of all programs.
const NAMES: &[&str] = &[
    ":", "[", "[[", "agnhost", "ash", "basename", "bash", "cat", "chmod", "chown", "cp", "dash",
    "date", "dirname", "echo", "env", "exit", "expr", "false", "grep", "head", "hostname", "id",
    "ln", "ls", "mkdir", "mv", "printenv", "printf", "pwd", "readlink", "rm", "seq", "sh", "sleep",
    "sort", "sync", "tail", "tar", "tee", "test", "touch", "tr", "true", "tty", "uname", "wc",
    "which", "whoami",
];

/// Returns the last part of a program's path.
fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Reports whether a program exists.
pub(super) fn exists(program: &str) -> bool {
    NAMES.contains(&base(program))
}

/// Reports whether a command is a shell that reads its commands from its input.
pub(super) fn is_interactive(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let is_flag = |argument: &String| argument.starts_with('-') && !argument.contains('c');
    matches!(base(program), "sh" | "bash" | "ash" | "dash") && arguments.iter().all(is_flag)
}

impl Shell {
    /// Runs a program with its arguments.
    pub(super) async fn program(&mut self, words: &[String], streams: &Streams) -> Outcome {
        let Some((program, arguments)) = words.split_first() else {
            return Ok(0);
        };
        if let Some(answer) = self.answer(words) {
            self.pause(answer.delay).await;
            self.print(&streams.output, answer.stdout.as_bytes())
                .await?;
            self.print(&streams.error, answer.stderr.as_bytes()).await?;
            return Ok(answer.code);
        }
        match self.run_program(base(program), arguments, streams).await {
            Err(Stop::Broken(why)) => {
                self.print(
                    &streams.error,
                    format!("{}: {why}\n", base(program)).as_bytes(),
                )
                .await?;
                Ok(1)
            }
            Err(Stop::Unknown) => self.unknown(program, streams).await,
            outcome => outcome,
        }
    }

    /// Handles a program of which it is not known what it does.
    async fn unknown(&mut self, program: &str, streams: &Streams) -> Outcome {
        let guesses = match &self.world {
            World::Planned(plan) => plan.guesses,
            World::Real(Real { own: Some(own), .. }) => own.guesses,
            World::Real(_) => {
                self.complain(streams, &format!("{program}: not found"))
                    .await?;
                return Ok(127);
            }
        };
        if guesses && self.depth > 0 {
            // It does its unknown work for a short time and then succeeds.
            self.pause(SHORT_WORK).await;
            return Ok(0);
        }
        if let World::Real(Real { own: Some(own), .. }) = &mut self.world {
            let announcement = std::mem::take(&mut own.announcement);
            if !self.has_printed && !announcement.is_empty() && self.unread.is_none() {
                self.print(&streams.output, format!("{announcement}\n").as_bytes())
                    .await?;
            }
        }
        self.forever().await
    }

    fn answer(&self, words: &[String]) -> Option<crate::runtime::answers::ExecAnswer> {
        match &self.world {
            World::Real(Real { answers, .. }) if !answers.is_empty() => {
                answers.get(&words.join(" ")).cloned()
            }
            World::Real(_) | World::Planned(_) => None,
        }
    }

    async fn run_program(
        &mut self,
        name: &str,
        arguments: &[String],
        streams: &Streams,
    ) -> Outcome {
        let out = &streams.output;
        let text = match name {
            "true" | ":" | "chmod" | "chown" | "sync" => return Ok(0),
            "false" => return Ok(1),
            "exit" => {
                let code = arguments.first().and_then(|code| code.parse::<i32>().ok());
                return Ok(code.unwrap_or_default() & 0xff);
            }
            "sleep" => return self.sleep(arguments, streams).await,
            "sh" | "bash" | "ash" | "dash" => return self.run_nested(arguments, streams).await,
            "test" => return self.test(arguments, streams).await,
            "[" => return self.bracket("]", arguments, streams).await,
            "[[" => return self.bracket("]]", arguments, streams).await,
            "agnhost" => return self.agnhost(arguments, streams).await,
            "expr" => return self.expr(arguments, streams).await,
            "env" if !arguments.is_empty() => return Err(Stop::Unknown),
            "printenv" if !arguments.is_empty() => return self.printenv(arguments, streams).await,
            "cat" | "grep" | "head" | "sort" | "tail" | "tee" | "tr" | "wc" => {
                return self.filter(name, arguments, streams).await;
            }
            "cp" | "ln" | "ls" | "mkdir" | "mv" | "readlink" | "rm" | "touch" => {
                return self.file_program(name, arguments, streams).await;
            }
            "tar" => return self.tar(arguments, streams).await,
            "tty" => match &self.world {
                World::Real(real) if real.interrupts.is_some() => "/dev/pts/0\n".to_owned(),
                World::Real(_) | World::Planned(_) => "not a tty\n".to_owned(),
            },
            "echo" => text::echo(arguments),
            "printf" => text::printf(arguments),
            "hostname" => format!("{}\n", self.hostname),
            "env" | "printenv" => self.environment(),
            "pwd" => format!("{}\n", self.directory),
            "seq" => text::seq(arguments).map_err(Stop::Broken)?,
            "basename" | "dirname" => text::part_of_path(name, arguments),
            "uname" => text::uname(arguments, &self.hostname),
            "date" => self.real()?.date(arguments).map_err(Stop::Broken)?,
            "id" => self
                .real()?
                .identity
                .print(arguments)
                .map_err(Stop::Broken)?,
            "whoami" => format!("{}\n", self.real()?.identity.user_name()),
            "which" => {
                let found = arguments
                    .iter()
                    .filter(|name| NAMES.contains(&name.as_str()));
                found.map(|name| format!("/bin/{name}\n")).collect()
            }
            _ => return Err(Stop::Unknown),
        };
        self.print(out, text.as_bytes()).await?;
        Ok(i32::from(name == "which" && text.is_empty()))
    }

    fn real(&self) -> Result<&Real, Stop> {
        match &self.world {
            World::Real(real) => Ok(real),
            World::Planned(_) => Err(Stop::Depends),
        }
    }

    /// Returns the variables as `env` prints them; the first is the container's own name if it runs.
    fn environment(&self) -> String {
        let own = match self.world {
            World::Real(_) => format!("HOSTNAME={}\n", self.hostname),
            World::Planned(_) => String::new(),
        };
        self.variables
            .iter()
            .fold(own, |text, (name, value)| text + name + "=" + value + "\n")
    }

    /// Runs `expr A + B`; fails if the result is empty or 0.
    async fn expr(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = match words.as_slice() {
            [word] => (*word).to_owned(),
            [left, operator, right] => match (left.parse(), right.parse()) {
                (Ok(left), Ok(right)) => arithmetic::operate(left, operator, right)
                    .map_err(Stop::Broken)?
                    .to_string(),
                _ if matches!(*operator, "=" | "==") => i32::from(left == right).to_string(),
                _ if *operator == "!=" => i32::from(left != right).to_string(),
                _ => return Err(Stop::Broken("syntax error".to_owned())),
            },
            _ => return Err(Stop::Broken("syntax error".to_owned())),
        };
        self.print(&streams.output, format!("{result}\n").as_bytes())
            .await?;
        Ok(i32::from(result.is_empty() || result == "0"))
    }

    async fn printenv(&mut self, names: &[String], streams: &Streams) -> Outcome {
        let mut code = 0;
        for name in names {
            let value = if name == "HOSTNAME" {
                Some(self.hostname.clone())
            } else {
                self.variables.get(name).cloned()
            };
            match value {
                Some(value) => {
                    self.print(&streams.output, format!("{value}\n").as_bytes())
                        .await?
                }
                None => code = 1,
            }
        }
        Ok(code)
    }

    async fn sleep(&mut self, arguments: &[String], streams: &Streams) -> Outcome {
        let times: Option<Vec<_>> = arguments.iter().map(|text| sleep_time(text)).collect();
        match times.filter(|times| !times.is_empty()) {
            Some(times) => {
                self.pause(
                    times
                        .into_iter()
                        .fold(Duration::ZERO, Duration::saturating_add),
                )
                .await;
                Ok(0)
            }
            None if arguments.iter().any(|argument| argument.starts_with("inf")) => {
                self.forever().await
            }
            None => {
                if matches!(self.world, World::Real(_)) {
                    let wrong = arguments.first().map_or("missing operand".to_owned(), |a| {
                        format!("invalid number '{a}'")
                    });
                    self.print(&streams.error, format!("sleep: {wrong}\n").as_bytes())
                        .await?;
                }
                Ok(1)
            }
        }
    }

    /// Never ends.
    async fn forever(&mut self) -> Outcome {
        match self.world {
            World::Planned(_) => Err(Stop::Serves),
            World::Real(_) => std::future::pending().await,
        }
    }
}

/// Parses an argument of `sleep`: a number of seconds, or one with `s`, `m`, `h` or `d`, or a duration as annotations have it.
fn sleep_time(text: &str) -> Option<Duration> {
    let unit = |last: char| match last {
        's' => Some(1.0),
        'm' => Some(60.0),
        'h' => Some(3600.0),
        'd' => Some(86_400.0),
        _ => None,
    };
    let (number, unit) = match text
        .char_indices()
        .last()
        .and_then(|(at, last)| Some((at, unit(last)?)))
    {
        Some((at, unit)) => (text.get(..at)?, unit),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number * unit).ok(),
        Err(_) => duration(text).ok(),
    }
}

impl Real {
    fn date(&self, arguments: &[String]) -> Result<String, String> {
        let now = clock::now().to_zoned(jiff::tz::TimeZone::UTC);
        let format = arguments
            .iter()
            .find_map(|argument| argument.strip_prefix('+'));
        let is_iso = arguments.iter().any(|argument| argument.starts_with("-I"));
        let format = format.unwrap_or(if is_iso {
            "%Y-%m-%d"
        } else {
            "%a %b %e %H:%M:%S UTC %Y"
        });
        let text = jiff::fmt::strtime::format(format, &now)
            .map_err(|error| format!("invalid date format: {error}"))?;
        Ok(text + "\n")
    }
}
