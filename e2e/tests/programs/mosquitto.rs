//! Devices over MQTT with mosquitto and its programs: with the broker in the agent, with mosquitto beside it, which is killed, with
//! an agent that is killed, and with a link that is cut.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use e2e::{NODE, Ports, Rig, mosquitto, run, until};
use serde_json::{Value, json};
use testkit::PROCESS_TIMEOUT;

const MANIFESTS: &str = "
apiVersion: devices.kubeedge.io/v1beta1
kind: DeviceModel
metadata: {name: valve}
spec:
  protocol: mqtt
  properties:
  - {name: opening, type: INT, accessMode: ReadWrite, minimum: '0', maximum: '100'}
---
apiVersion: devices.kubeedge.io/v1beta1
kind: Device
metadata: {name: valve}
spec:
  deviceModelRef: {name: valve}
  nodeName: edge-1
  protocol: {protocolName: mqtt}
  properties:
  - {name: opening, desired: {value: '10'}, reportToCloud: true}
";

const DEVICE: &str = "$hw/events/device/default/valve";

/// A `mosquitto_sub` that listens to everything about the device; its lines come as topic and body.
struct Listener {
    child: Child,
    lines: Receiver<(String, Value)>,
}

impl Listener {
    fn start(port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new("stdbuf");
        command.args([
            "-oL",
            "mosquitto_sub",
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-q",
            "1",
            "-d",
        ]);
        command.args(["-F", "message %t %p", "-t", &format!("{DEVICE}/#")]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let (sender, lines) = channel();
        let (subscribed, is_subscribed) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if line.starts_with("Subscribed") {
                    let _ = subscribed.send(());
                }
                let message = line
                    .strip_prefix("message ")
                    .and_then(|rest| rest.split_once(' '));
                if let Some((topic, body)) = message {
                    let _ = sender.send((
                        topic.to_owned(),
                        serde_json::from_str(body).unwrap_or_default(),
                    ));
                }
            }
        });
        let listener = Self { child, lines };
        is_subscribed
            .recv_timeout(PROCESS_TIMEOUT)
            .context("mosquitto_sub does not subscribe")?;
        Ok(listener)
    }

    /// The next message on this topic that is as wanted.
    fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        self.within(PROCESS_TIMEOUT, what, wanted)
    }

    /// The same, where nothing may come.
    fn within(
        &self,
        patience: Duration,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let topic = format!("{DEVICE}/{what}");
        loop {
            let (on, body) = self
                .lines
                .recv_timeout(patience)
                .with_context(|| format!("nothing on {topic}"))?;
            if on == topic && wanted(&body) {
                return Ok(body);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn publish(port: u16, what: &str, body: &str) -> anyhow::Result<()> {
    let mut command = Command::new("mosquitto_pub");
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-q",
        "1",
        "-t",
        &format!("{DEVICE}/{what}"),
        "-m",
        body,
    ]);
    run(&mut command)?.success().map(drop)
}

fn opening(port: u16, event: &str, value: &str) -> anyhow::Result<()> {
    let body = json!({"event_id": event, "timestamp": 0, "twin": {"opening": {"actual": {"value": value}}}});
    publish(port, "twin/update", &body.to_string())
}

fn until_reported(rig: &Rig, value: &str) -> anyhow::Result<()> {
    rig.cloud.kubectl.until_reported("valve", "opening", value)
}

/// Every topic, payload in and payload out.
fn talk(port: u16) -> anyhow::Result<()> {
    let listener = Listener::start(port)?;
    let by = |event: &'static str| move |body: &Value| body["event_id"] == event;
    until("the device is here", || {
        publish(port, "twin/get", r#"{"event_id":"here","timestamp":1}"#)?;
        let answer = listener.until("twin/get/result", by("here"))?;
        ensure!(
            answer["twin"]["opening"]["expected"]["value"].is_string(),
            "{answer}"
        );
        Ok(())
    })?;
    opening(port, "x1", "7")?;
    let result = listener.until("twin/update/result", by("x1"))?;
    let stamp = &result["twin"]["opening"]["actual"]["metadata"]["timestamp"];
    ensure!(
        result["twin"]
            == json!({"opening": {"actual": {"value": "7", "metadata": {"timestamp": stamp}}, "optional": true, "metadata": {"type": "int"}}}),
        "{result}"
    );
    let document = listener.until("twin/update/document", by("x1"))?;
    ensure!(
        document["twin"]["opening"]["current"]["actual"]["value"] == "7",
        "{document}"
    );
    let delta = listener.until("twin/update/delta", |body| {
        body["twin"]["opening"]["actual"]["value"] == "7"
    })?;
    ensure!(delta["delta"]["opening"].is_string(), "{delta}");
    publish(
        port,
        "state/update",
        r#"{"event_id":"x2","timestamp":1,"state":"online"}"#,
    )?;
    let state = listener.until("state/update/result", by("x2"))?;
    ensure!(
        state["device"]["name"] == "valve" && state["device"]["lastOnlineTime"].is_string(),
        "{state}"
    );
    for (event, value, why) in [
        ("x3", "101", "at most 100"),
        ("x4", "wide", "is of type int"),
    ] {
        opening(port, event, value)?;
        let refused = listener.until("twin/update/result", by(event))?;
        ensure!(
            refused["code"] == 400
                && refused["reason"]
                    .as_str()
                    .is_some_and(|said| said.contains(why)),
            "{refused}"
        );
    }
    publish(port, "twin/update", "{")?;
    let refused = listener.until("twin/update/result", |body| body["reason"].is_string())?;
    ensure!(refused["code"] == 400, "{refused}");
    Ok(())
}

#[test]
fn a_device_over_mqtt() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let (inside, beside) = (ports.api, ports.https);
    let mut broker = mosquitto(directory.path(), beside)?;
    let mut rig = Rig::with_brokers(directory, ports)?;
    rig.cloud.kubectl.apply(MANIFESTS)?;
    for port in [inside, beside] {
        talk(port)?;
    }
    until_reported(&rig, "7")?;
    let listener = Listener::start(beside)?;
    rig.cloud
        .kubectl
        .apply(&MANIFESTS.replace("'10'", "'20'"))?;
    listener.until("twin/update/delta", |delta| {
        delta["delta"]["opening"] == "20"
    })?;
    drop(listener);

    // a broker that is killed: the agent is there again as soon as it is
    for round in 0..5 {
        broker.kill()?;
        broker.start_again()?;
        broker.wait_for(" running")?;
        let value = (30 + round).to_string();
        let listener = Listener::start(beside)?;
        // what is published before the agent is there again waits for it only where the broker had written its session
        until("the agent answers again", || {
            opening(beside, &value, &value)?;
            listener.within(Duration::from_secs(1), "twin/update/result", |body| {
                body["event_id"] == value.as_str()
            })
        })?;
        until_reported(&rig, &value)?;
    }

    // an agent that is killed: what was published meanwhile waits at the broker
    rig.node.process.kill()?;
    opening(beside, "while-away", "44")?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("edge-agent started")?;
    until_reported(&rig, "44")?;

    // a link that is cut: what is reported meanwhile is told when it is mended, and what is wanted meanwhile arrives
    let listener = Listener::start(beside)?;
    rig.cloud.faults(&["cut", NODE])?;
    opening(beside, "while-cut", "55")?;
    listener.until("twin/update/result", |body| body["event_id"] == "while-cut")?;
    rig.cloud
        .kubectl
        .apply(&MANIFESTS.replace("'10'", "'60'"))?;
    let reported = rig.cloud.kubectl.reported_value("valve", "opening")?;
    ensure!(reported == "44", "the link is not cut: {reported}");
    rig.cloud.faults(&["restore", NODE])?;
    until_reported(&rig, "55")?;
    listener
        .until("twin/update/delta", |delta| {
            delta["delta"]["opening"] == "60"
        })
        .map(drop)
}
