//! Simulates what commands do, by one interpreter for two purposes: [`run()`] plans what a container's own command would do (when it
//! ends, with which code, and what it prints), without time and files; [`execute`] does what a command says in a running container:
//! an exec, or the container's own command if it uses files or the time of day ([`Live`]). No process is run for either.
//!
//! The [`programs`] are known, alone or in scripts of the [`shell`]. A container whose command is not known is a server: it runs on.
//!
//! Everything that outsiders can make larger has a bound: scripts, words, variables, commands of a script, nested scripts, pipes,
//! lines, plans and files.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt;
use tokio::{sync::mpsc, task::unconstrained};
use wire::cri::{ContainerConfig, ImageSpec};

pub(super) use self::{
    identity::Identity,
    run::{Live, Run},
};
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
mod identity;
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

/// Images of servers: even with a command of their own they keep running where others would end.
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

/// Images whose own command is a shell, which reads what is typed if the container has an input.
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

/// Returns the words that a container executes: its own, or those of its image as far as they matter here.
pub(super) fn words(config: &ContainerConfig) -> Vec<String> {
    let words: Vec<String> = config.command.iter().chain(&config.args).cloned().collect();
    let is_agnhost = || {
        config.command.is_empty()
            && config
                .image
                .as_ref()
                .is_some_and(|image| image_name(pod_image_name(image)) == "agnhost")
    };
    if !words.is_empty() && is_agnhost() {
        return [AGNHOST.to_owned()].into_iter().chain(words).collect();
    }
    let is_shell = || {
        config
            .image
            .as_ref()
            .is_some_and(|image| SHELLS.contains(&image_name(pod_image_name(image))))
    };
    if words.is_empty() && config.stdin && is_shell() {
        vec!["sh".to_owned()]
    } else {
        words
    }
}

/// Returns the image's name as the pod gives it.
pub(super) fn pod_image_name(image: &ImageSpec) -> &str {
    if image.user_specified_image.is_empty() {
        &image.image
    } else {
        &image.user_specified_image
    }
}

/// What is known of a container before it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    /// Command and arguments, without what is in the image.
    pub(super) words: &'a [String],
    /// Its environment variables.
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) hostname: &'a str,
    /// The image's name as the pod gives it.
    pub(super) image: &'a str,
    /// Whether it is expected to end: an init container, or a container in a Job's pod.
    pub(super) ends: bool,
    /// Whether it has an input.
    pub(super) has_input: bool,
    /// Whether it has a terminal, which is an input that never ends even if nobody types.
    pub(super) has_terminal: bool,
}

/// Plans what the container does.
pub(super) fn run(known: Known<'_>) -> Run {
    let run = plan(&known);
    if run.end.is_some() || run.live.is_some() || !known.ends || serves(&known) {
        return run;
    }
    // It does its unknown work for a short time and then succeeds.
    let done = run.lines.last().map_or(Duration::ZERO, |(at, _)| *at) + SHORT_WORK;
    Run {
        end: Some((done, 0)),
        ..run
    }
}

/// Plans what the words of a container say.
fn plan(known: &Known<'_>) -> Run {
    let world = World::Planned(Plan::new(known.ends));
    let mut shell = Shell::new(known.variables.clone(), known.hostname.to_owned(), world);
    let input = if known.has_input || known.has_terminal {
        Input::Awaited
    } else {
        Input::Empty
    };
    let streams = Streams {
        input,
        output: Output::Plan,
        error: Output::Plan,
    };
    let outcome = match known.words {
        [] => Err(Stop::Serves),
        // A plan waits for nothing, so it is complete at once.
        words => unconstrained(shell.program(words, &streams))
            .now_or_never()
            .unwrap_or(Err(Stop::Serves)),
    };
    let World::Planned(plan) = shell.world else {
        return Run::default();
    };
    let now = plan.now;
    let run = Run {
        unread: shell.unread.map(script::Unreadable::text),
        ..plan.finish()
    };
    match outcome {
        Err(Stop::Break | Stop::Continue) => Run {
            end: Some((now, 0)),
            is_known: true,
            ..run
        },
        Ok(code) | Err(Stop::Exit(code)) => Run {
            end: Some((now, code)),
            is_known: true,
            ..run
        },
        Err(Stop::Waits) => Run {
            is_known: true,
            live: known.has_input.then_some(Live::Typed),
            ..run
        },
        Err(Stop::Depends) => Run {
            is_known: true,
            live: Some(Live::Own {
                guesses: known.ends,
            }),
            ..run
        },
        Err(Stop::Serves | Stop::Unknown | Stop::Broken(_)) => Run {
            is_known: !run.lines.is_empty(),
            ..run
        },
    }
}

/// A running container as its commands see it.
pub(super) struct Inside {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) hostname: String,
    pub(super) files: Arc<Files>,
    /// Answers to complete command lines.
    pub(super) answers: BTreeMap<String, ExecAnswer>,
    pub(super) identity: Identity,
    /// How the command is run if it is the container's own; `None` for an exec.
    pub(super) own: Option<Live>,
}

/// The byte channels of a command's input and output.
pub(super) struct Channels {
    /// The input, at a terminal what is typed; `None` means that it is empty.
    pub(super) stdin: Option<mpsc::Receiver<Bytes>>,
    /// The output; at a terminal, what is shown there.
    pub(super) stdout: mpsc::Sender<Bytes>,
    pub(super) stderr: mpsc::Sender<Bytes>,
}

/// The error for a program that does not exist in the container.
#[derive(Debug, thiserror::Error)]
#[error("OCI runtime exec failed: exec failed: unable to start container process: exec: {0:?}: {why}: unknown", why = missing(.0))]
pub(super) struct NoProgram(String);

/// Returns the error message in containerd's words, which clients look for.
fn missing(program: &str) -> String {
    if program.contains('/') {
        format!("stat {program}: no such file or directory")
    } else {
        "executable file not found in $PATH".to_owned()
    }
}

/// Runs a command to its end and returns its exit code. When the future is dropped, the command ends at once.
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
    let Inside {
        variables,
        hostname,
        files,
        answers,
        identity,
        own,
    } = inside;
    let own = match own {
        Some(Live::Own { guesses }) => Some(Own {
            guesses,
            announcement: announcement(words),
        }),
        Some(Live::Typed) | None => None,
    };
    let Channels {
        stdin,
        stdout,
        stderr,
    } = channels;
    if !is_terminal {
        let world = World::Real(Real {
            files,
            answers,
            interrupts: None,
            identity,
            own,
        });
        let mut shell = Shell::new(variables, hostname, world);
        let input = stdin.map_or(Input::Empty, Input::live);
        let streams = Streams {
            input,
            output: Output::Live(stdout),
            error: Output::Live(stderr),
        };
        return Ok(code(shell.program(words, &streams).await));
    }
    drop(stderr);
    let (terminal, attached) = terminal::new(stdin, stdout);
    let interrupts = Arc::clone(&attached.interrupts);
    let world = World::Real(Real {
        files,
        answers,
        interrupts: Some(Arc::clone(&interrupts)),
        identity,
        own,
    });
    let mut shell = Shell::new(variables, hostname, world);
    let output = Output::Live(attached.output);
    let streams = Streams {
        input: Input::live(attached.input),
        output: output.clone(),
        error: output,
    };
    let is_shell = programs::is_interactive(words);
    let program = async move {
        let run = shell.program(words, &streams);
        clock::select! {
            // An interactive shell survives Ctrl-C and handles it itself.
            () = interrupts.notified(), if !is_shell => terminal::INTERRUPTED,
            outcome = run => code(outcome),
        }
        // The streams end with the command, so that the terminal can see which output is the last.
    };
    Ok(terminal.run(program).await)
}

/// Returns the first log line of a container of which nothing else is known.
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

/// Returns how the container answers HTTP requests, if its words say so: `agnhost liveness` fails at `/healthz` ten seconds
/// after its start, `agnhost serve-hostname` answers with its name.
pub(super) fn http(known: &Known<'_>) -> BTreeMap<String, HttpAnswer> {
    let words: Vec<&str> = known
        .words
        .iter()
        .map(|word| word.rsplit('/').next().unwrap_or_default())
        .collect();
    match (image_name(known.image), words.as_slice()) {
        ("agnhost", ["liveness", ..] | ["agnhost", "liveness", ..]) => {
            let failing = HttpAnswer {
                status: 500,
                after: Duration::from_secs(10),
                ..HttpAnswer::default()
            };
            BTreeMap::from([("/healthz".to_owned(), failing)])
        }
        ("agnhost", ["serve-hostname", ..] | ["agnhost", "serve-hostname", ..]) => {
            let own = HttpAnswer {
                body: known.hostname.to_owned(),
                ..HttpAnswer::default()
            };
            BTreeMap::from([("/".to_owned(), own)])
        }
        _ => BTreeMap::new(),
    }
}

/// Returns the last part of an image's name, without tag and digest.
fn image_name(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split(['@', ':']).next().unwrap_or_default()
}

/// Reports whether the container ends well when it is asked to stop: it is a known server, or its script says so.
pub(super) fn handles_signals(known: &Known<'_>) -> bool {
    let is_server = known.words.is_empty() && SERVERS.contains(&image_name(known.image));
    is_server
        || known
            .words
            .iter()
            .any(|word| word.split_whitespace().any(|word| word == "trap"))
}

/// Reports whether this container never ends.
fn serves(known: &Known<'_>) -> bool {
    const ENDLESS: [&str; 5] = [
        "while true",
        "while :",
        "while [ true ]",
        "infinity",
        "tail -f",
    ];
    let text = known.words.join(" ");
    if ENDLESS.iter().any(|endless| text.contains(endless)) {
        return true;
    }
    known.words.is_empty() && SERVERS.contains(&image_name(known.image))
}
