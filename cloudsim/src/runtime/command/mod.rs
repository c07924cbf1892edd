//! What a container's command would do, as far as its words say: when it ends, with which code, and what it prints. No process is
//! run and no file is read. Pure.
//!
//! Known are the commands of [`shell`], on their own or in a script of `sh -c`. What is not known serves: it runs on.

use std::{collections::BTreeMap, time::Duration};

use super::behaviour::HttpAnswer;

mod script;
mod shell;
#[cfg(test)]
mod tests;

/// How long something runs whose work is not known, but that is there to end: an init container, a pod of a job.
pub(super) const SHORT_WORK: Duration = Duration::from_millis(500);

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
}

/// What a command does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// Lines of its log, and how long after its start each is written.
    pub(super) lines: Vec<(Duration, String)>,
    /// When it ends by itself, and with which code; absent: never.
    pub(super) end: Option<(Duration, i32)>,
    /// Whether its words say so, and not only what it is there for.
    pub(super) is_known: bool,
}

/// What the container does.
pub(super) fn run(known: Known<'_>) -> Run {
    let run = shell::run(&known);
    if run.end.is_some() || !known.ends || serves(&known) {
        return run;
    }
    // it does what it is there for, whatever that is
    let done = run.lines.last().map_or(Duration::ZERO, |(at, _)| *at) + SHORT_WORK;
    Run { end: Some((done, 0)), ..run }
}

/// How it answers requests over HTTP, where its words say so: `agnhost liveness` fails at `/healthz` ten seconds after its start.
pub(super) fn http(known: &Known<'_>) -> BTreeMap<String, HttpAnswer> {
    let words: Vec<&str> =
        known.words.iter().map(|word| word.rsplit('/').next().unwrap_or_default()).collect();
    match (image_name(known.image), words.as_slice()) {
        ("agnhost", ["liveness", ..] | ["agnhost", "liveness", ..]) => {
            let failing = HttpAnswer { status: 500, after: Duration::from_secs(10), ..HttpAnswer::default() };
            BTreeMap::from([("/healthz".to_owned(), failing)])
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
