//! The mapper of a simulated thermometer.

use mapper::{Config, Mapper, RunError, thermometer::Virtual};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fleet::HollowNode;

/// The protocol that the examples name.
const PROTOCOL: &str = "virtual";

/// The mapper, which ends when this is dropped.
pub(super) struct Running {
    _ends: DropGuard,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    /// Starts the mapper on a node.
    pub(super) fn on(node: &HollowNode) -> Result<Self, RunError> {
        let config = Config {
            socket: node.directory().join("thermometer.sock"),
            agent: node.directory().join("dmi.sock"),
            ..Config::new("thermometer", PROTOCOL)
        };
        let shutdown = CancellationToken::new();
        let mapper = Mapper::bind(config, Virtual)?;
        let task = tokio::spawn(mapper.run(shutdown.clone()));
        Ok(Self {
            _ends: shutdown.drop_guard(),
            task,
        })
    }

    /// Waits until the mapper fails, and returns why.
    pub(super) async fn wait_failed(&mut self) -> String {
        match (&mut self.task).await {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => "it has ended".to_owned(),
            Err(error) => format!("it has ended: {error}"),
        }
    }
}
