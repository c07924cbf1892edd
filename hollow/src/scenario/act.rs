//! Runs one step.

use std::time::Duration;

use agent::devicetwin::{DeviceTwin, Reading};
use clock::{Instant, spawn_blocking};
use cloudsim::faults::{Conditions, FaultTarget, Link as Standing, SendHostileError};
use componentbase::Link;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::pinned_kind,
};
use limits::read_regular_text;
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, sleep_until};

use super::{
    Stage, Step,
    expect::is,
    file::{CLOUD, Expect, Replayed, Report, Target},
    story,
};
use crate::{fleet::HollowNode, manifests, testing::recording};

/// The field manager.
const MANAGER: &str = "cloudsim-run";
/// How often something without events is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The same in virtual time, in which each look takes most of the work.
const VIRTUAL_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The largest file in bytes; an API server accepts no larger object either.
const MAX_MANIFEST_BYTES: u64 = 3 * 1024 * 1024;

/// How long a report waits until a node has the device.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a step failed.
type Why = String;

impl Stage {
    /// Runs a step; returns why it failed.
    pub(super) async fn carry_out(&mut self, step: &Step) -> Result<(), Why> {
        match step {
            Step::Apply(objects) => self.apply(objects).await,
            Step::ApplyFile(file) => {
                let objects = read(&self.base.join(file)).await?;
                self.apply(&Value::from(objects)).await
            }
            Step::Replay(replayed) => self.replay(replayed).await,
            Step::Delete(target) => {
                let deleted = self
                    .api(target)
                    .await?
                    .delete(&target.name, &DeleteParams::default())
                    .await;
                deleted.map(drop).map_err(|error| story(&error))
            }
            Step::Faults(faults) => self.link(&faults.node, faults.conditions.clone()),
            Step::Cut(node) => self.link(node, Conditions::link(Standing::Cut)),
            Step::HalfOpen(node) => self.link(node, Conditions::link(Standing::HalfOpen)),
            Step::Restore(node) => {
                self.faults.restore(node);
                Ok(())
            }
            Step::Certificate(certificate) => {
                self.faults.set_certificate(*certificate);
                Ok(())
            }
            Step::SendMalformed(malformed) => {
                let sent = self
                    .faults
                    .send_hostile(&malformed.node, malformed.message)
                    .await;
                match sent {
                    // the node does not wait for the end of a message that it refuses
                    Err(SendHostileError::NotWritten(_)) if malformed.message.may_end_session() => {
                        Ok(())
                    }
                    sent => sent.map_err(|error| error.to_string()),
                }
            }
            Step::Stop(cloud) if cloud == CLOUD => {
                self.stop_cloud().await.map_err(|error| story(&error))
            }
            Step::Start(cloud) if cloud == CLOUD => {
                self.start_cloud().await.map_err(|error| story(&error))
            }
            Step::Kill(node) => {
                self.node(node)?.kill().await;
                Ok(())
            }
            Step::Stop(node) => {
                self.node(node)?.stop().await;
                Ok(())
            }
            Step::Start(node) => self
                .node(node)?
                .start()
                .await
                .map_err(|error| story(&error)),
            Step::Pause(time) => {
                sleep(time.get()).await;
                Ok(())
            }
            Step::At(time) => {
                let (due, now) = (self.begun + time.get(), Instant::now());
                if due < now {
                    return Err(format!("{time} passed {:?} ago", now - due));
                }
                sleep_until(due).await;
                Ok(())
            }
            Step::Repeat(repeat) => {
                let mut due = Instant::now();
                for number in 1..=repeat.times {
                    sleep_until(due).await;
                    due += repeat.every.get();
                    for step in &repeat.steps {
                        Box::pin(self.carry_out(step))
                            .await
                            .map_err(|why| format!("time {number}: {}: {why}", step.title()))?;
                    }
                }
                Ok(())
            }
            Step::Remember(node) => {
                self.remembered.insert(node.clone(), self.containers(node));
                Ok(())
            }
            Step::Report(report) => self.report(report).await,
            Step::Expect(expect) => self.expect(expect).await,
        }
    }

    /// Reports values of a device to the agent of its node, as soon as that knows it.
    async fn report(&self, report: &Report) -> Result<(), Why> {
        let id = report.id()?;
        let begun = Instant::now();
        let mut looks = looks();
        let twin = loop {
            looks.tick().await;
            let knows = |twin: &DeviceTwin| {
                let catalogue = twin.devices().now();
                catalogue.is_some_and(|all| all.devices.contains_key(&id))
            };
            let twins = self.nodes.values().filter_map(HollowNode::devices);
            if let Some(twin) = twins.into_iter().find(knows) {
                break twin;
            }
            if begun.elapsed() >= REPORT_TIMEOUT {
                return Err(format!(
                    "no node had the device {id} within {REPORT_TIMEOUT:?}; check its spec.nodeName"
                ));
            }
        };
        let readings = report.values.iter().map(|(property, values)| Reading {
            property: property.clone(),
            value: Some(values.draw()),
            ..Reading::default()
        });
        let reported = twin.report(&id, readings.collect()).await;
        reported.map_err(|error| story(&error))
    }

    /// Plays the edge of a recording, and names the first difference.
    async fn replay(&self, replayed: &Replayed) -> Result<(), Why> {
        let (file, may_differ) = replayed.parts();
        let cloud = self.cloud().map_err(|error| story(&error))?;
        let outcome = recording::replay(cloud, &self.base.join(file))
            .await
            .map_err(|error| story(&error))?;
        if let Some(why) = outcome.ended {
            return Err(format!("the session ended: {why}"));
        }
        match outcome.comparison.differences.first() {
            Some(first) if !may_differ => {
                let text = first.to_text(["recording", "replay"]);
                Err(format!(
                    "the cloud responded differently: {}",
                    text.trim_end()
                ))
            }
            _ => Ok(()),
        }
    }

    fn link(&self, node: &str, conditions: Conditions) -> Result<(), Why> {
        let whom = if node == "all" {
            FaultTarget::All
        } else {
            FaultTarget::Node(node.to_owned())
        };
        self.faults
            .add(&whom, conditions)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn node(&mut self, name: &str) -> Result<&mut HollowNode, Why> {
        self.nodes
            .get_mut(name)
            .ok_or_else(|| format!("there is no node {name}"))
    }

    async fn apply(&self, objects: &Value) -> Result<(), Why> {
        let all = match objects {
            Value::Array(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        for object in all {
            let target: Target = target(object)?;
            let parameters = PatchParams::apply(MANAGER).force();
            let applied = self
                .api(&target)
                .await?
                .patch(&target.name, &parameters, &Patch::Apply(object))
                .await;
            applied
                .map_err(|error| format!("{} {}: {}", target.kind, target.name, story(&error)))?;
        }
        Ok(())
    }

    async fn api(&self, target: &Target) -> Result<Api<DynamicObject>, Why> {
        let (group, version) = target
            .api_version
            .split_once('/')
            .unwrap_or(("", &target.api_version));
        let gvk = GroupVersionKind::gvk(group, version, &target.kind);
        let client = self.client().map_err(|error| story(&error))?;
        let found = pinned_kind(&client, &gvk).await;
        let (resource, capabilities) = found.map_err(|error| match error {
            // its Display is a debug dump of the kind
            kube::Error::Discovery(_) => format!(
                "the API serves no kind {} in apiVersion {}; check both, or apply its CustomResourceDefinition first",
                target.kind, target.api_version
            ),
            error => format!(
                "cannot find kind {} of apiVersion {}: {}",
                target.kind,
                target.api_version,
                story(&error)
            ),
        })?;
        let namespace = target.namespace.as_deref();
        Ok(manifests::api(client, &resource, &capabilities, namespace))
    }

    /// Waits until the expectation holds, and checks that it lasts as long as it has to.
    async fn expect(&self, expect: &Expect) -> Result<(), Why> {
        let api = match &expect.object {
            Some(target) => Some((self.api(target).await?, target)),
            None => None,
        };
        let begun = Instant::now();
        let mut held: Option<Instant> = None;
        let mut looks = looks();
        loop {
            looks.tick().await;
            let seen = match &api {
                Some((api, target)) => of_object(api, target, expect).await,
                None => self.of_node(expect).await,
            };
            match (seen, held) {
                (Ok(()), since) => {
                    let since = since.unwrap_or_else(Instant::now);
                    if since.elapsed() >= expect.lasting.get() {
                        return Ok(());
                    }
                    held = Some(since);
                }
                (Err(seen), Some(since)) => {
                    return Err(format!(
                        "the condition held for {} ms only; then: {seen}",
                        since.elapsed().as_millis()
                    ));
                }
                (Err(seen), None) if begun.elapsed() >= expect.within.get() => {
                    return Err(format!(
                        "the condition was not met within {}; last state: {seen}",
                        expect.within
                    ));
                }
                (Err(_), None) => {}
            }
        }
    }

    async fn of_node(&self, expect: &Expect) -> Result<(), Why> {
        let name = expect.node.as_deref().unwrap_or_default();
        if !self.nodes.contains_key(name) {
            return Err(format!("there is no node {name}"));
        }
        if let Some(wanted) = expect.connected {
            let link = self
                .nodes
                .get(name)
                .and_then(HollowNode::link)
                .map(|link| *link.borrow());
            let connected = link.is_some_and(|link| link != Link::Down);
            if connected != wanted {
                return Err(format!("connected={connected}"));
            }
        }
        if let Some(wanted) = expect.ready {
            let target = Target {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                namespace: None,
                name: name.to_owned(),
            };
            let node = get(&self.api(&target).await?, name)
                .await?
                .unwrap_or_default();
            let conditions = node["status"]["conditions"].as_array();
            let ready = conditions
                .into_iter()
                .flatten()
                .find(|condition| condition["type"] == "Ready");
            let status = ready
                .and_then(|ready| ready["status"].as_str())
                .unwrap_or("missing");
            if (status == "True") != wanted {
                return Err(format!("its Ready condition is {status}"));
            }
        }
        if expect.same_containers {
            let remembered = self
                .remembered
                .get(name)
                .ok_or("no containers were recorded; add a `remember:` step before")?;
            let now = self.containers(name);
            if let Some(([pod, container], _)) = remembered
                .iter()
                .find(|(place, id)| now.get(*place) != Some(id))
            {
                return Err(format!(
                    "container {container} of the pod with UID {pod} was replaced"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the times at which something without events is checked.
fn looks() -> Interval {
    let mut looks = interval(match clock::is_simulated() {
        true => VIRTUAL_POLL_INTERVAL,
        false => POLL_INTERVAL,
    });
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

async fn of_object(api: &Api<DynamicObject>, target: &Target, expect: &Expect) -> Result<(), Why> {
    let object = get(api, &target.name).await?;
    match (object, expect.gone) {
        (None, true) => Ok(()),
        (None, false) => Err(format!("there is no {} {}", target.kind, target.name)),
        (Some(_), true) => Err("it still exists".to_owned()),
        (Some(object), false) => {
            let wrong = expect
                .has
                .iter()
                .find(|(path, wanted)| !is(path.find(&object), wanted));
            wrong.map_or(Ok(()), |(path, _)| {
                let found = path
                    .find(&object)
                    .map_or("nothing".to_owned(), Value::to_string);
                Err(format!("{path} is {found}"))
            })
        }
    }
}

async fn get(api: &Api<DynamicObject>, name: &str) -> Result<Option<Value>, Why> {
    let object = api.get_opt(name).await.map_err(|error| story(&error))?;
    object
        .map(serde_json::to_value)
        .transpose()
        .map_err(|error| error.to_string())
}

fn target(object: &Value) -> Result<Target, Why> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let missing = |field: &str| format!("cannot apply an object without {field}");
    Ok(Target {
        api_version: text("/apiVersion").ok_or_else(|| missing("apiVersion"))?,
        kind: text("/kind").ok_or_else(|| missing("kind"))?,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name").ok_or_else(|| missing("metadata.name"))?,
    })
}

/// Reads the documents of a file.
async fn read(file: &std::path::Path) -> Result<Vec<Value>, Why> {
    let path = file.to_owned();
    let reading = spawn_blocking(move || read_regular_text(&path, MAX_MANIFEST_BYTES));
    let read = reading.await.unwrap_or_else(|error| Err(error.into()));
    let text = read.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    manifests::documents(&text)
        .map_err(|error| format!("{} is not a manifest: {error}", file.display()))
}
