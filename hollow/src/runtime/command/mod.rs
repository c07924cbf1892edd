//! What commands do, by one interpreter for two ends: [`run`] plans what a container's own command would do (when it ends, with which
//! code, and what it prints), without time and files; [`execute`] does what a command says in a container that runs: an exec, or the
//! container's own command where it has to do with files or the time of day ([`Live`]). No process is run for either.
//!
//! Known are the [`programs`], on their own or in scripts of the [`shell`]. A container whose command is not known serves: it runs on.
//!
//! What outsiders can make larger has a bound: scripts, words, variables, commands of a script, scripts in scripts, pipes, lines, plans
//! and files.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt;
use tokio::{sync::mpsc, task::unconstrained};
use wire::cri::{ContainerConfig, ImageSpec};

pub(super) use self::run::{Live, Run};
use self::{
    outcome::Stop,
    plan::Plan,
    run::SHORT_WORK,
    shell::{Own, Real, Shell, World},
    streams::{Input, Output, Streams},
};
use super::{
    answers::{ExecAnswer, HttpAnswer},
    files::Files,
};

mod arithmetic;
mod expand;
mod flow;
mod interactive;
mod outcome;
mod output;
mod plan;
mod programs;
mod run;
mod script;
mod shell;
mod streams;
mod terminal;
#[cfg(test)]
mod tests;

/// Images of servers: with a command of their own they serve also where others would end.
const SERVERS: [&str; 20] = [
    "caddy",
    "envoy",
    "etcd",
    "haproxy",
    "httpd",
    "mariadb",
    "memcached",
    "mongo",
    "mosquitto",
    "mysql",
    "nats",
    "nginx",
    "pause",
    "postgres",
    "rabbitmq",
    "redis",
    "registry",
    "traefik",
    "valkey",
    "eclipse-mosquitto",
];

/// Images whose own command is a shell, which somebody types at where the container has an input.
const SHELLS: [&str; 10] = [
    "alpine",
    "archlinux",
    "bash",
    "busybox",
    "centos",
    "debian",
    "fedora",
    "rockylinux",
    "toybox",
    "ubuntu",
];

/// The entrypoint of the image of Kubernetes' own tests.
const AGNHOST: &str = "/agnhost";

/// The words that a container executes: its own, or those of its image as far as they matter here.
pub(super) fn words(config: &ContainerConfig) -> Vec<String> {
    let words: Vec<String> = config.command.iter().chain(&config.args).cloned().collect();
    let is_agnhost = || {
        config.command.is_empty()
            && config.image.as_ref().is_some_and(|image| image_name(named(image)) == "agnhost")
    };
    if !words.is_empty() && is_agnhost() {
        return [AGNHOST.to_owned()].into_iter().chain(words).collect();
    }
    let is_shell = || config.image.as_ref().is_some_and(|image| SHELLS.contains(&image_name(named(image))));
    if words.is_empty() && config.stdin && is_shell() { vec!["sh".to_owned()] } else { words }
}

/// The image as the pod names it.
pub(super) fn named(image: &ImageSpec) -> &str {
    if image.user_specified_image.is_empty() { &image.image } else { &image.user_specified_image }
}

/// What is known of a container before it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    /// Command and arguments, without what is in the image.
    pub(super) words: &'a [String],
    /// Its variables.
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) hostname: &'a str,
    /// The image as the pod names it.
    pub(super) image: &'a str,
    /// Whether it is there to end: an init container, or in a pod of a job.
    pub(super) ends: bool,
    /// Whether it has an input.
    pub(super) has_input: bool,
    /// Whether it has a terminal, which is an input that never ends though nobody may type at it.
    pub(super) has_terminal: bool,
}

/// What the container does.
pub(super) fn run(known: Known<'_>) -> Run {
    let run = plan(&known);
    if run.end.is_some() || run.live.is_some() || !known.ends || serves(&known) {
        return run;
    }
    // it does what it is there for, whatever that is
    let done = run.lines.last().map_or(Duration::ZERO, |(at, _)| *at) + SHORT_WORK;
    Run { end: Some((done, 0)), ..run }
}

/// What the words of a container say that it does.
fn plan(known: &Known<'_>) -> Run {
    let world = World::Planned(Plan::new(known.ends));
    let mut shell = Shell::new(known.variables.clone(), known.hostname.to_owned(), world);
    let input = if known.has_input || known.has_terminal { Input::Awaited } else { Input::Empty };
    let streams = Streams { input, output: Output::Plan, error: Output::Plan };
    let outcome = match known.words {
        [] => Err(Stop::Serves),
        // nothing is waited for in a plan, so it is done at once
        words => unconstrained(shell.program(words, &streams)).now_or_never().unwrap_or(Err(Stop::Serves)),
    };
    let World::Planned(plan) = shell.world else { return Run::default() };
    let now = plan.now;
    let run = plan.finish();
    match outcome {
        Err(Stop::Break | Stop::Continue) => Run { end: Some((now, 0)), is_known: true, ..run },
        Ok(code) | Err(Stop::Exit(code)) => Run { end: Some((now, code)), is_known: true, ..run },
        Err(Stop::Waits) => Run { is_known: true, live: known.has_input.then_some(Live::Typed), ..run },
        Err(Stop::Depends) => Run { is_known: true, live: Some(Live::Own { guesses: known.ends }), ..run },
        Err(Stop::Serves | Stop::Unknown | Stop::Broken(_)) => Run { is_known: !run.lines.is_empty(), ..run },
    }
}

/// A container that runs, as its commands see it.
pub(super) struct Inside {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) hostname: String,
    pub(super) files: Arc<Files>,
    /// Answers to whole command lines.
    pub(super) answers: BTreeMap<String, ExecAnswer>,
    /// The number of the user.
    pub(super) user: i64,
    /// Whether this is the container's own command, and how it is run then.
    pub(super) own: Option<Live>,
}

/// Bytes that go to a command and come from it.
pub(super) struct Channels {
    /// Its input; absent: at its end. At a terminal, what is typed.
    pub(super) stdin: Option<mpsc::Receiver<Bytes>>,
    /// Its output; at a terminal, what is to be seen there.
    pub(super) stdout: mpsc::Sender<Bytes>,
    pub(super) stderr: mpsc::Sender<Bytes>,
}

/// The program is not in the container.
#[derive(Debug, thiserror::Error)]
#[error("OCI runtime exec failed: exec failed: unable to start container process: exec: {0:?}: {why}: unknown", why = missing(.0))]
pub(super) struct NoProgram(String);

/// In the words of containerd, which clients look for.
fn missing(program: &str) -> String {
    if program.contains('/') {
        format!("stat {program}: no such file or directory")
    } else {
        "executable file not found in $PATH".to_owned()
    }
}

/// Runs a command to its end, and tells its exit code. Dropped, it ends at once.
pub(super) async fn execute(
    words: &[String],
    inside: Inside,
    channels: Channels,
    is_terminal: bool,
) -> Result<i32, NoProgram> {
    let program = words.first().map_or("", String::as_str);
    if !programs::exists(program) && !inside.answers.contains_key(&words.join(" ")) {
        return Err(NoProgram(program.to_owned()));
    }
    let Inside { variables, hostname, files, answers, user, own } = inside;
    let own = match own {
        Some(Live::Own { guesses }) => Some(Own { guesses, announcement: announcement(words) }),
        Some(Live::Typed) | None => None,
    };
    let Channels { stdin, stdout, stderr } = channels;
    if !is_terminal {
        let world = World::Real(Real { files, answers, interrupts: None, user, own });
        let mut shell = Shell::new(variables, hostname, world);
        let input = stdin.map_or(Input::Empty, Input::live);
        let streams = Streams { input, output: Output::Live(stdout), error: Output::Live(stderr) };
        return Ok(code(shell.program(words, &streams).await));
    }
    drop(stderr);
    let (terminal, attached) = terminal::new(stdin, stdout);
    let interrupts = Arc::clone(&attached.interrupts);
    let world = World::Real(Real { files, answers, interrupts: Some(Arc::clone(&interrupts)), user, own });
    let mut shell = Shell::new(variables, hostname, world);
    let output = Output::Live(attached.output);
    let streams = Streams { input: Input::live(attached.input), output: output.clone(), error: output };
    let is_shell = programs::is_interactive(words);
    let program = async move {
        let run = shell.program(words, &streams);
        tokio::select! {
            // an interactive shell lives on, and sees to it itself
            () = interrupts.notified(), if !is_shell => terminal::INTERRUPTED,
            outcome = run => code(outcome),
        }
        // with the streams, the terminal's last output can be seen to be so
    };
    Ok(terminal.run(program).await)
}

/// What the log of a container says first of which nothing else is known.
pub(super) fn announcement(words: &[String]) -> String {
    format!("started: {}", words.join(" ").replace('\n', " "))
}

fn code(outcome: Result<i32, Stop>) -> i32 {
    match outcome {
        Ok(code) | Err(Stop::Exit(code)) => code,
        Err(Stop::Break | Stop::Continue) => 0,
        Err(Stop::Serves | Stop::Waits | Stop::Depends | Stop::Unknown | Stop::Broken(_)) => 1,
    }
}

/// How it answers requests over HTTP, where its words say so: `agnhost liveness` fails at `/healthz` ten seconds after its
/// start, `agnhost serve-hostname` tells its name.
pub(super) fn http(known: &Known<'_>) -> BTreeMap<String, HttpAnswer> {
    let words: Vec<&str> =
        known.words.iter().map(|word| word.rsplit('/').next().unwrap_or_default()).collect();
    match (image_name(known.image), words.as_slice()) {
        ("agnhost", ["liveness", ..] | ["agnhost", "liveness", ..]) => {
            let failing = HttpAnswer { status: 500, after: Duration::from_secs(10), ..HttpAnswer::default() };
            BTreeMap::from([("/healthz".to_owned(), failing)])
        }
        ("agnhost", ["serve-hostname", ..] | ["agnhost", "serve-hostname", ..]) => {
            let own = HttpAnswer { body: known.hostname.to_owned(), ..HttpAnswer::default() };
            BTreeMap::from([("/".to_owned(), own)])
        }
        _ => BTreeMap::new(),
    }
}

/// The last part of an image's name, without tag and digest.
fn image_name(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split(['@', ':']).next().unwrap_or_default()
}

/// Whether this is something that is never done.
fn serves(known: &Known<'_>) -> bool {
    const ENDLESS: [&str; 5] = ["while true", "while :", "while [ true ]", "infinity", "tail -f"];
    let text = known.words.join(" ");
    if ENDLESS.iter().any(|endless| text.contains(endless)) {
        return true;
    }
    known.words.is_empty() && SERVERS.contains(&image_name(known.image))
}
