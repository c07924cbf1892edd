//! Reads what a container does from its pod's annotations and from its command. The table of annotations is in [`super`].

use std::{
    collections::{BTreeMap, BTreeSet},
    num::ParseIntError,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    answers::{ExecAnswer, Health, HttpAnswer},
    command::{self, Known, Live, Run},
    duration::duration,
};

#[cfg(test)]
mod tests;

/// The prefix of all annotations of the simulated runtime.
const PREFIX: &str = "sim.outrigger.dev/";

/// How long before its end, at the latest, a container has written its last line.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// The exit code of a killed container: 128 plus SIGKILL.
pub(super) const KILLED: i32 = 137;
/// The exit code of a container that was asked to stop and handles no signals: 128 plus SIGTERM.
pub(super) const TERMINATED: i32 = 143;

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exit {
    pub(super) code: i32,
    /// The reason as containerd reports it, in CamelCase.
    pub(super) reason: String,
    pub(super) message: String,
}

impl Exit {
    pub(super) fn code(code: i32) -> Self {
        Self {
            code,
            reason: if code == 0 { "Completed" } else { "Error" }.into(),
            message: String::new(),
        }
    }

    /// Returns what containerd reports for a container that could not be started.
    pub(super) fn start_error(message: &str) -> Self {
        Self {
            code: 128,
            reason: "StartError".into(),
            message: message.into(),
        }
    }
}

/// A set of TCP ports.
pub(super) type Ports = BTreeSet<u16>;

/// What one container does in one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) start_delay: Duration,
    pub(super) start_error: Option<String>,
    /// How long after its start the container ends by itself, and how; `None` means never.
    pub(super) exit: Option<(Duration, Exit)>,
    /// How long the container takes to end after it was asked to stop; `None` if it ignores the request.
    pub(super) stop_time: Option<Duration>,
    pub(super) stop_code: i32,
    /// The lines that are written to its log, and how long after its start.
    pub(super) log_lines: Vec<(Duration, String)>,
    /// Whether its log begins by naming the command, because nothing is known of what it would print.
    pub(super) is_announced: bool,
    /// Why its script is not run, if it cannot be read.
    pub(super) unread: Option<String>,
    /// How its command is run at the start, if it is not planned.
    pub(super) live: Option<Live>,
    pub(super) exec: BTreeMap<String, ExecAnswer>,
    /// The ports at which it listens, instead of those that it declares.
    pub(super) ports: Option<Ports>,
    /// How long after its start it begins to listen.
    pub(super) listen_after: Duration,
    /// HTTP answers by path without query; every other path is answered with 200.
    pub(super) http: BTreeMap<String, HttpAnswer>,
    /// gRPC health by service; every other service is `SERVING`.
    pub(super) grpc: BTreeMap<String, Health>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            start_delay: Duration::ZERO,
            start_error: None,
            exit: None,
            stop_time: Some(Duration::ZERO),
            stop_code: TERMINATED,
            log_lines: Vec::new(),
            is_announced: true,
            unread: None,
            live: None,
            exec: BTreeMap::new(),
            ports: None,
            listen_after: Duration::ZERO,
            http: BTreeMap::new(),
            grpc: BTreeMap::new(),
        }
    }
}

/// An annotation with an unknown name or a wrong value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key:?}: {fault}")]
pub(super) struct Invalid {
    key: String,
    fault: String,
}

/// Reads the annotations of `container` and ignores those of other containers and of other systems. If they do not say how the
/// container ends, its command decides.
pub(super) fn parse(
    annotations: &BTreeMap<String, String>,
    container: &str,
    attempt: u32,
    known: Known<'_>,
) -> Result<Behaviour, Invalid> {
    let own = format!("{PREFIX}{container}.");
    let mut behaviour = Behaviour::default();
    if command::handles_signals(&known) {
        behaviour.stop_code = 0;
    }
    let mut exit = ExitPlan::default();
    for (key, value) in annotations {
        let Some(name) = key.strip_prefix(&own) else {
            continue;
        };
        set(&mut behaviour, &mut exit, name, value).map_err(|fault| Invalid {
            key: key.clone(),
            fault,
        })?;
    }
    if behaviour.http.is_empty() {
        behaviour.http = command::http(&known);
    }
    let is_told = exit.is_planned() || exit.serves;
    behaviour.exit = exit.for_attempt(attempt);
    if !is_told {
        follow(&mut behaviour, command::run(known));
    }
    Ok(behaviour)
}

/// Adds what the command does to what the annotations say.
fn follow(behaviour: &mut Behaviour, run: Run) {
    behaviour.unread = run.unread;
    if run.live.is_some() {
        behaviour.live = run.live;
        behaviour.is_announced = false;
        return;
    }
    let end = run.end.map(|(after, _)| after.saturating_sub(LAST_WORDS));
    // A client that sees the end must find the last line in the log.
    let in_time = |(at, line): (Duration, String)| (end.map_or(at, |end| at.min(end)), line);
    behaviour
        .log_lines
        .extend(run.lines.into_iter().map(in_time));
    // A script that is not run is reported elsewhere: what is logged is the output of programs.
    behaviour.is_announced = !run.is_known && behaviour.unread.is_none();
    behaviour.exit = run.end.map(|(after, code)| (after, Exit::code(code)));
}

/// The `exit-…` annotations, which are evaluated together.
#[derive(Default)]
struct ExitPlan {
    after: Option<Duration>,
    code: Option<i32>,
    reason: Option<String>,
    attempts: Option<u32>,
    /// Whether the container does not end by itself, whatever its command is.
    serves: bool,
}

impl ExitPlan {
    fn is_planned(&self) -> bool {
        self.after.is_some() || self.code.is_some() || self.reason.is_some()
    }

    fn for_attempt(self, attempt: u32) -> Option<(Duration, Exit)> {
        if self.serves
            || !self.is_planned()
            || self.attempts.is_some_and(|attempts| attempt >= attempts)
        {
            return None;
        }
        let mut exit = Exit::code(self.code.unwrap_or(0));
        if let Some(reason) = self.reason {
            exit.reason = reason;
        }
        Some((self.after.unwrap_or_default(), exit))
    }
}

fn set(
    behaviour: &mut Behaviour,
    exit: &mut ExitPlan,
    name: &str,
    value: &str,
) -> Result<(), String> {
    match name {
        "exit-after" => exit.after = Some(duration(value)?),
        "exit-code" => exit.code = Some(integer(value)?),
        "exit-reason" => exit.reason = Some(value.into()),
        "exit-attempts" => exit.attempts = Some(integer(value)?),
        "serve" => {
            exit.serves = value
                .parse()
                .map_err(|_| format!("{value:?} is neither true nor false"))?
        }
        "start-delay" => behaviour.start_delay = duration(value)?,
        "start-error" => behaviour.start_error = Some(value.into()),
        "stop-time" if value == "never" => behaviour.stop_time = None,
        "stop-time" => behaviour.stop_time = Some(duration(value)?),
        "stop-code" => behaviour.stop_code = integer(value)?,
        "log-lines" => {
            behaviour.log_lines = value
                .lines()
                .map(|line| (Duration::ZERO, line.to_owned()))
                .collect()
        }
        "exec" => behaviour.exec = json(value)?,
        "ports" => behaviour.ports = Some(ports(value)?),
        "listen-after" => behaviour.listen_after = duration(value)?,
        "http" => {
            behaviour.http = json(value)?;
            let mut statuses = behaviour.http.values().map(|answer| answer.status);
            if let Some(status) = statuses.find(|status| !(200..600).contains(status)) {
                return Err(format!("{status} is no status of an answer: 200 to 599"));
            }
        }
        "grpc" => behaviour.grpc = json(value)?,
        _ => return Err("no such annotation of the simulated runtime".into()),
    }
    Ok(())
}

fn json<T: serde::de::DeserializeOwned>(value: &str) -> Result<T, String> {
    serde_json::from_str(value).map_err(|e| format!("not the JSON wanted: {e}"))
}

/// Reads `8080,9090`, or `none`.
fn ports(value: &str) -> Result<Ports, String> {
    if value == "none" {
        return Ok(Ports::new());
    }
    value.split(',').map(|port| integer(port.trim())).collect()
}

fn integer<T: std::str::FromStr<Err = ParseIntError>>(value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|e| format!("{value:?} is not an integer as wanted: {e}"))
}
