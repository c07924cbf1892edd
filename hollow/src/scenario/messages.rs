//! The title of a step, and errors in a step. Pure.

use serde_json::Value;
use wire::text::count;

use super::file::{CLOUD, Expect, Step};
use crate::nearest;

impl Step {
    /// Returns what the step does, in one line.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Apply(objects) => format!("apply {}", names(objects)),
            Self::ApplyFile(file) => format!("apply {}", file.display()),
            Self::Replay(replayed) => format!("replay {}", replayed.parts().0.display()),
            Self::Delete(target) => format!("delete {} {}", target.kind, target.name),
            Self::Faults(faults) => format!("faults on the link of {}", faults.node),
            Self::Cut(node) => format!("cut {node}"),
            Self::HalfOpen(node) => format!("half-open {node}"),
            Self::Restore(node) => format!("restore {node}"),
            Self::Certificate(certificate) => format!("certificate {}", certificate.name()),
            Self::SendMalformed(malformed) => {
                format!("send {} to {}", malformed.message.name(), malformed.node)
            }
            Self::Kill(node) => format!("kill {node}"),
            Self::Stop(node) => format!("stop {node}"),
            Self::Start(node) => format!("start {node}"),
            Self::Pause(time) => format!("pause {time}"),
            Self::At(time) => format!("at {time}"),
            Self::Repeat(repeat) => format!(
                "repeat {} every {}, {} times",
                count(repeat.steps.len(), "step"),
                repeat.every,
                repeat.times
            ),
            Self::Report(report) => format!("report of device {}", report.device),
            Self::Remember(node) => format!("remember the containers of {node}"),
            Self::Expect(expect) => expect.title(),
        }
    }

    /// Checks that the step is possible, given the names of the nodes if they are known.
    pub(super) fn check(&self, nodes: Option<&[&str]>) -> Result<(), String> {
        let known = |name: &String| match nodes {
            Some(nodes) if !nodes.contains(&name.as_str()) => Err(format!(
                "there is no node {name:?}{}; the nodes in `nodes:` are {}",
                nearest(name, nodes.iter().copied()),
                nodes.join(", ")
            )),
            _ => Ok(()),
        };
        match self {
            Self::Kill(cloud) if cloud == CLOUD => {
                Err("a cloud cannot be killed, only stopped: write `stop: cloud`".to_owned())
            }
            Self::Stop(cloud) | Self::Start(cloud) if cloud == CLOUD => Ok(()),
            Self::Cut(node)
            | Self::HalfOpen(node)
            | Self::Restore(node)
            | Self::Kill(node)
            | Self::Stop(node)
            | Self::Start(node)
            | Self::Remember(node) => known(node),
            Self::SendMalformed(malformed) => known(&malformed.node),
            Self::Repeat(repeat) => {
                if repeat.steps.is_empty() || repeat.times == 0 {
                    return Err("repeat needs steps, and at least 1 for times".to_owned());
                }
                let is_replay = |step: &Self| matches!(step, Self::Replay(_));
                if repeat.steps.iter().any(is_replay) {
                    return Err(
                        "a recording cannot be repeated; replay it in a step of its own".to_owned(),
                    );
                }
                repeat.steps.iter().try_for_each(|step| step.check(nodes))
            }
            Self::Faults(faults) => {
                if faults.node != "all" {
                    known(&faults.node)?;
                }
                faults.conditions.check().map_err(|error| error.to_string())
            }
            Self::Expect(expect) => {
                expect.node.iter().try_for_each(known)?;
                expect.check()
            }
            Self::Report(report) => report.id().map(drop),
            Self::Apply(_)
            | Self::ApplyFile(_)
            | Self::Replay(_)
            | Self::Delete(_)
            | Self::Certificate(_)
            | Self::Pause(_)
            | Self::At(_) => Ok(()),
        }
    }
}

impl Expect {
    fn title(&self) -> String {
        let mut what = match (&self.object, &self.node) {
            (Some(target), _) => format!("{} {}", target.kind, target.name),
            (None, Some(node)) => format!("node {node}"),
            (None, None) => String::new(),
        };
        let mut add = |text: String| what = format!("{what} {text}");
        self.has
            .iter()
            .for_each(|(path, value)| add(format!("{path}={value}")));
        if self.gone {
            add("gone".to_owned());
        }
        self.connected
            .iter()
            .for_each(|is| add(format!("connected={is}")));
        self.ready.iter().for_each(|is| add(format!("ready={is}")));
        if self.same_containers {
            add("runs the same containers".to_owned());
        }
        if !self.lasting.is_zero() {
            add(format!("for {}", self.lasting));
        }
        format!("expect {what} within {}", self.within)
    }

    fn check(&self) -> Result<(), String> {
        let of_node = self.connected.is_some() || self.ready.is_some() || self.same_containers;
        let why = match (&self.object, &self.node) {
            (Some(_), Some(_)) | (None, None) => "name one subject: either `object:` or `node:`",
            (Some(_), None) if of_node => {
                "connected, ready and sameContainers are conditions of a `node:`"
            }
            (Some(_), None) if self.gone && !self.has.is_empty() => {
                "`has:` and `gone:` exclude each other; remove one"
            }
            (None, Some(_)) if self.gone || !self.has.is_empty() => {
                "has and gone are conditions of an `object:`; for a Node, use {kind: Node, name: …}"
            }
            (None, Some(_)) if !of_node => {
                "name a condition of the node: connected, ready or sameContainers"
            }
            _ => return Ok(()),
        };
        Err(why.to_owned())
    }
}

/// Returns the objects of a manifest, by kind and name.
fn names(objects: &Value) -> String {
    let name = |object: &Value| {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or("?")
                .to_owned()
        };
        format!("{} {}", text("/kind"), text("/metadata/name"))
    };
    match objects {
        Value::Array(all) => all.iter().map(name).collect::<Vec<_>>().join(", "),
        one => name(one),
    }
}
