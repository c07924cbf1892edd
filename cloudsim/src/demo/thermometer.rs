//! A thermometer that is not there, with its mapper: its `temperature` creeps towards its `target`.

use mapper::{Config, Device, Link, Mapper, Property, Protocol, Result, RunError};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fleet::HollowNode;

/// What the examples name as its protocol.
const PROTOCOL: &str = "virtual";

/// The mapper, which ends when this is dropped.
pub(super) struct Running {
    _ends: DropGuard,
    task: JoinHandle<std::result::Result<(), RunError>>,
}

impl Running {
    /// Starts one on a node.
    pub(super) fn on(node: &HollowNode) -> std::result::Result<Self, RunError> {
        let config = Config {
            socket: node.directory().join("thermometer.sock"),
            agent: node.directory().join("dmi.sock"),
            ..Config::new("thermometer", PROTOCOL)
        };
        let shutdown = CancellationToken::new();
        let mapper = Mapper::bind(config, Virtual)?;
        let task = tokio::spawn(mapper.run(shutdown.clone()));
        Ok(Self { _ends: shutdown.drop_guard(), task })
    }

    /// Waits until it gives up: why.
    pub(super) async fn failed(&mut self) -> String {
        match (&mut self.task).await {
            Ok(Err(error)) => error.to_string(),
            ended => format!("it has ended: {ended:?}"),
        }
    }
}

struct Virtual;

struct Thermometer {
    temperature: f64,
    target: f64,
}

impl Protocol for Virtual {
    type Link = Thermometer;

    async fn open(&self, device: &Device) -> Result<Thermometer> {
        let temperature = device.settings.get_or("start", 20.0)?;
        Ok(Thermometer { temperature, target: temperature })
    }
}

impl Link for Thermometer {
    async fn read(&mut self, property: &Property) -> Result<String> {
        match property.name.as_str() {
            "temperature" => {
                self.temperature += (self.target - self.temperature) / 2.0;
                Ok(format!("{:.1}", self.temperature))
            }
            "target" => Ok(self.target.to_string()),
            other => Err(format!("a thermometer has no {other}").into()),
        }
    }

    async fn write(&mut self, property: &Property, value: &str) -> Result<()> {
        match property.name.as_str() {
            "target" => self.target = value.parse()?,
            other => return Err(format!("{other} cannot be set").into()),
        }
        Ok(())
    }
}
