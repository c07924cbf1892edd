//! Records, in order, everything that happens to the objects of one kind.

use std::path::Path;

use anyhow::Context;
use serde_json::{Deserializer, Value};

use crate::{Kubectl, Process, until};

/// A `kubectl get --watch` that runs beside a test.
#[derive(Debug)]
pub struct Watch(Process);

/// One change.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: String,
    /// The object after the change.
    pub object: Value,
}

impl WatchEvent {
    /// Returns the object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the object's uid.
    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

impl Watch {
    /// Watches `resource` in the default namespace from now on, including what exists. Returns when the watch has begun.
    pub fn start(kubectl: &Kubectl, resource: &str, logs: &Path) -> anyhow::Result<Self> {
        // With an API path of its own nothing is listed first, and nothing is missed between list and watch.
        let arguments = [
            "get",
            resource,
            "--watch",
            "--output-watch-events",
            "-o",
            "json",
            "-v=6",
        ];
        let mut process = kubectl.start(&arguments, logs)?;
        // kubectl logs this when its request is answered.
        process.wait_for("watch=true")?;
        Ok(Self(process))
    }

    /// Returns the events so far. An object that is just being written is left out.
    pub fn events(&self) -> Vec<WatchEvent> {
        let log = self.0.log();
        // The messages of -v=6 are separate lines, which begin unlike any line of kubectl's JSON.
        let is_log = |line: &&str| {
            line.starts_with('I') && line.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
        };
        let json: String = log
            .lines()
            .filter(|line| !is_log(line))
            .flat_map(|line| [line, "\n"])
            .collect();
        let events = Deserializer::from_str(&json)
            .into_iter::<Value>()
            .map_while(Result::ok);
        let event = |mut event: Value| WatchEvent {
            kind: event["type"].as_str().unwrap_or_default().to_owned(),
            object: event["object"].take(),
        };
        events.map(event).collect()
    }

    /// Waits until an event is as wanted.
    pub fn wait(
        &self,
        what: &str,
        wanted: impl Fn(&WatchEvent) -> bool,
    ) -> anyhow::Result<WatchEvent> {
        until(what, || {
            let events = self.events();
            let last = events.last().map(|event| event.object.to_string());
            events
                .into_iter()
                .find(|event| wanted(event))
                .with_context(|| format!("last: {last:?}"))
        })
    }
}
