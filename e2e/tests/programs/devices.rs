//! A Device applied with kubectl reaches a mapper, a program beside the agent, and what that reports stands in
//! `kubectl get devicestatus`: also with the link cut, with the agent or the cloud killed, and with mappers that are killed in the
//! middle of a call.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{Kubectl, NODE, Ports, Process, Rig, at, mapper_example, until};

/// A tank behind Modbus: its level is what it is, its valve can be set.
const TANK: &str = "
apiVersion: devices.kubeedge.io/v1beta1
kind: DeviceModel
metadata: {name: tank}
spec:
  protocol: modbus
  properties:
  - {name: level, type: INT, accessMode: ReadOnly}
  - {name: valve, type: INT, accessMode: ReadWrite, minimum: '0', maximum: '100', unit: percent}
---
apiVersion: devices.kubeedge.io/v1beta1
kind: Device
metadata: {name: tank}
spec:
  deviceModelRef: {name: tank}
  nodeName: edge-1
  protocol: {protocolName: modbus, configData: {ip: 127.0.0.1, port: PORT, slaveID: 1}}
  properties:
  - name: level
    visitors: {protocolName: modbus, configData: {register: HoldingRegister, offset: 3}}
    collectCycle: 50
    reportCycle: 50
    reportToCloud: true
  - name: valve
    desired: {value: 'WANTED'}
    visitors: {protocolName: modbus, configData: {register: HoldingRegister, offset: 4}}
    collectCycle: 50
    reportCycle: 50
    reportToCloud: true
";

/// The model of the devices of the example mapper.
pub(crate) const THERMOMETERS: &str = "
apiVersion: devices.kubeedge.io/v1beta1
kind: DeviceModel
metadata: {name: thermometer}
spec:
  protocol: virtual
  properties:
  - {name: target, type: FLOAT, accessMode: ReadWrite}
";

const LEVEL: u16 = 3;
const VALVE: u16 = 4;

/// A device of the example mapper with this desired value.
pub(crate) fn thermometer(name: &str, target: &str) -> String {
    format!(
        "
---
apiVersion: devices.kubeedge.io/v1beta1
kind: Device
metadata: {{name: {name}}}
spec:
  deviceModelRef: {{name: thermometer}}
  nodeName: edge-1
  protocol: {{protocolName: virtual}}
  properties:
  - {{name: target, desired: {{value: '{target}'}}, collectCycle: 50, reportCycle: 50, reportToCloud: true}}
"
    )
}

/// The tank and its mapper, each a program.
struct Tank {
    port: u16,
    mapper: Process,
    _slave: Process,
    kubectl: Kubectl,
}

impl Tank {
    fn start(rig: &Rig) -> anyhow::Result<Self> {
        let port = Ports::free()?.api;
        let mut command = Command::new(mapper_example("modbus")?);
        command.args(["--simulate", &format!("127.0.0.1:{port}")]);
        let slave = Process::start("tank", command, rig.directory.path())?;
        until("the tank", || TcpStream::connect(("127.0.0.1", port)))?;
        Ok(Self {
            port,
            mapper: rig.mapper("modbus")?,
            _slave: slave,
            kubectl: rig.cloud.kubectl.clone(),
        })
    }

    /// Asks it: a function, a register, and a number.
    fn ask(&self, function: u8, register: u16, number: u16) -> anyhow::Result<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let ([a, b], [c, d]) = (register.to_be_bytes(), number.to_be_bytes());
        stream.write_all(&[0, 1, 0, 0, 0, 6, 1, function, a, b, c, d])?;
        let mut header = [0; 6];
        stream.read_exact(&mut header)?;
        let mut answer = vec![0; usize::from(header[5])];
        stream.read_exact(&mut answer)?;
        ensure!(answer[1] == function, "the tank answers {answer:?}");
        // the number is last, in an answer to either
        Ok(u16::from_be_bytes([
            answer[answer.len() - 2],
            answer[answer.len() - 1],
        ]))
    }

    /// Its level changes by itself.
    fn rises_to(&self, level: u16) -> anyhow::Result<()> {
        self.ask(6, LEVEL, level).map(drop)
    }

    fn valve(&self) -> anyhow::Result<u16> {
        self.ask(3, VALVE, 1)
    }

    /// The cloud wants the valve so.
    fn shall_be(&self, valve: u16) -> anyhow::Result<()> {
        let manifests = TANK
            .replace("PORT", &self.port.to_string())
            .replace("WANTED", &valve.to_string());
        self.kubectl.apply(&manifests).map(drop)
    }

    fn until_valve(&self, valve: u16) -> anyhow::Result<()> {
        until(&format!("the valve is at {valve}"), || {
            let found = self.valve()?;
            ensure!(found == valve, "it is at {found}");
            Ok(())
        })
    }

    fn until_reported(&self, level: u16, valve: u16) -> anyhow::Result<()> {
        self.kubectl
            .until_reported("tank", "level", &level.to_string())?;
        self.kubectl
            .until_reported("tank", "valve", &valve.to_string())
    }
}

#[test]
fn a_device_over_dmi() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    let tank = Tank::start(&rig)?;
    tank.rises_to(7)?;
    tank.shall_be(10)?;
    tank.until_reported(7, 10)?;
    let yaml = tank
        .kubectl
        .run(&["get", "devicestatus", "tank", "-o", "yaml"])?;
    for line in ["state: online", "propertyName: level", "kind: Device"] {
        ensure!(yaml.contains(line), "no {line:?} in\n{yaml}");
    }
    let refused = format!(
        "{:#}",
        tank.shall_be(101).err().context("101 percent were taken")?
    );
    ensure!(
        refused.contains("spec.properties[1].desired.value")
            && refused.contains("maximum, 100 percent"),
        "{refused}"
    );

    rig.cloud.process.kill()?;
    tank.rises_to(8)?;
    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    tank.until_reported(8, 10)?;

    tank.kubectl.run(&["delete", "device", "tank"])?;
    until("the status goes with its device", || {
        let left = tank.kubectl.run(&["get", "devicestatus", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
}

#[test]
fn nothing_is_lost_while_the_link_is_cut() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let mut tank = Tank::start(&rig)?;
    tank.rises_to(11)?;
    tank.shall_be(10)?;
    tank.until_reported(11, 10)?;

    rig.cloud.faults(&["cut", NODE])?;
    tank.rises_to(22)?;
    tank.shall_be(20)?;
    until("the node knows the level", || {
        let kept = rig.node.stored_value("tank", "level")?;
        ensure!(kept.as_deref() == Some("22"), "it is {kept:?}");
        Ok(())
    })?;
    let reported = tank.kubectl.reported_value("tank", "level")?;
    ensure!(
        reported == "11" && tank.valve()? == 10,
        "the link is not cut: {reported}"
    );
    // from now on nobody but the agent knows
    tank.mapper.kill()?;
    rig.cloud.faults(&["restore", NODE])?;
    tank.kubectl.until_reported("tank", "level", "22")?;
    tank.mapper.start_again()?;
    tank.until_valve(20)?;
    tank.until_reported(22, 20)?;

    // with a mapper that is there all the time
    rig.cloud.faults(&["cut", NODE])?;
    tank.rises_to(33)?;
    tank.shall_be(30)?;
    rig.cloud.faults(&["restore", NODE])?;
    tank.until_valve(30)?;
    tank.until_reported(33, 30)
}

#[test]
fn nothing_is_lost_when_the_agent_is_killed() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    let tank = Tank::start(&rig)?;
    tank.shall_be(10)?;
    tank.until_reported(0, 10)?;
    // a change takes some tens of milliseconds from one end to the other
    for (round, after) in (1..).zip([0, 10, 20, 40, 80, 160].map(Duration::from_millis)) {
        let (before, meanwhile, valve) = (100 + round, 200 + round, 10 + round);
        tank.shall_be(valve)?;
        tank.rises_to(before)?;
        at(Instant::now() + after);
        rig.node.process.kill()?;
        tank.rises_to(meanwhile)?;
        rig.node.process.start_again()?;
        rig.node.process.wait_for("edge-agent started")?;
        tank.until_valve(valve)?;
        tank.until_reported(meanwhile, valve)?;
    }
    Ok(())
}

#[test]
fn a_mapper_that_is_killed_in_the_middle_of_calls_hears_again_and_holds_up_no_other()
-> anyhow::Result<()> {
    const TOLD: &str = "mapper not reachable";
    let mut rig = Rig::start()?;
    let tank = Tank::start(&rig)?;
    let mut mapper = rig.mapper("thermometer")?;
    let kubectl = rig.cloud.kubectl.clone();
    tank.shall_be(10)?;
    kubectl.apply(&format!("{THERMOMETERS}{}", thermometer("one", "20")))?;
    kubectl.until_reported("one", "target", "20")?;
    tank.until_reported(0, 10)?;

    // it does not answer any more: of another value for one device, and of another device
    mapper.freeze()?;
    let log = rig.node.process.log();
    ensure!(!log.contains(TOLD), "{log}");
    kubectl.apply(&[thermometer("one", "25"), thermometer("two", "15")].concat())?;
    tank.rises_to(5)?;
    tank.shall_be(20)?;
    tank.until_valve(20)?;
    tank.until_reported(5, 20)?;
    mapper.kill()?;
    rig.node.process.wait_for(TOLD)?;
    mapper.start_again()?;
    kubectl.until_reported("one", "target", "25")?;
    kubectl.until_reported("two", "target", "15")
}
