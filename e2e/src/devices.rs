//! Devices as the cloud and the node have them, and mappers as programs.

use std::process::Command;

use anyhow::ensure;
use serde_json::Value;

use crate::{AGENT, Kubectl, Node, Process, Rig, binary, mapper_example, run, until};

impl Kubectl {
    /// Returns the reported value of a property in the device's status in the cloud.
    pub fn reported_value(&self, device: &str, property: &str) -> anyhow::Result<String> {
        let twin = format!("{{.status.twins[?(@.propertyName==\"{property}\")].reported.value}}");
        self.run(&[
            "get",
            "devicestatus",
            device,
            "-o",
            &format!("jsonpath={twin}"),
        ])
    }

    /// Waits until the reported value is `value`.
    pub fn until_reported(&self, device: &str, property: &str, value: &str) -> anyhow::Result<()> {
        until(
            &format!("{property} of {device} is reported as {value}"),
            || {
                let found = self.reported_value(device, property)?;
                ensure!(found == value, "it is {found}");
                Ok(())
            },
        )
    }
}

impl Node {
    /// Returns a property of a device as the node has it on disk.
    pub fn stored_value(&self, device: &str, property: &str) -> anyhow::Result<Option<String>> {
        let mut command = Command::new(binary(AGENT)?);
        let text = run(command.args(["db", "dump", "--config"]).arg(&self.config))?
            .success()?
            .text();
        let objects = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut devices =
            objects.filter(|object| object["resource"] == "devices.twins.outrigger.dev");
        let found = devices.find(|object| object["name"] == device);
        let place = format!("/object/device/twins/{property}/actual/value");
        Ok(found.and_then(|object| object.pointer(&place)?.as_str().map(str::to_owned)))
    }
}

impl Rig {
    /// Starts the mapper library's example of this name as a mapper of the node.
    pub fn mapper(&self, name: &str) -> anyhow::Result<Process> {
        let sockets = self.directory.path().join("node");
        let mut command = Command::new(mapper_example(name)?);
        command.env("DMI_SOCKET", sockets.join("dmi.sock"));
        command.env("MAPPER_SOCKET", sockets.join(format!("{name}.sock")));
        Process::start(name, command, self.directory.path())
    }
}
