//! Check `mappers`: each device has a registered mapper, and registered mappers listen.

use std::{collections::BTreeMap, io, path::Path, time::Duration};

use tokio::{net::UnixStream, time::timeout};
use wire::text::count;

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::status::{DeviceState, MapperState, StatusReport};

/// How long a mapper may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) async fn check(inputs: &Inputs<'_>) -> Finding {
    if inputs.config.device_twin.is_none() {
        let why = "modules.deviceTwin is disabled";
        return CheckResult::NotApplicable(why.into()).into();
    }
    match inputs.agent_status().await {
        Ok(status) => judge(status).await,
        Err(result) => result.into(),
    }
}

async fn judge(status: &StatusReport) -> Finding {
    let mut parts = without_mapper(&status.devices);
    for mapper in &status.mappers {
        let connected = timeout(CONNECT_TIMEOUT, UnixStream::connect(&mapper.socket)).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        parts.push(judge_mapper(mapper, connected.map(drop)));
    }
    let none = CheckResult::Passed("no devices and no mappers on this node".into());
    Finding::combine(parts, none)
}

/// Returns a warning for each protocol without a mapper.
fn without_mapper(devices: &[DeviceState]) -> Vec<CheckResult> {
    let mut protocols = BTreeMap::<&str, usize>::new();
    for device in devices.iter().filter(|device| !device.mapper) {
        *protocols.entry(&device.protocol).or_default() += 1;
    }
    let warning = |(protocol, devices): (&str, usize)| {
        CheckResult::warning(
            format!(
                "no mapper for protocol {protocol:?} is registered: {} without values",
                count(devices, "device")
            ),
            "start the mapper of this protocol; it registers at the socket dmi.sock in modules.deviceTwin.dmiSockPath",
        )
    };
    protocols.into_iter().map(warning).collect()
}

fn judge_mapper(mapper: &MapperState, connected: io::Result<()>) -> CheckResult {
    let MapperState {
        name,
        protocol,
        socket,
        ..
    } = mapper;
    match connected {
        Ok(()) => CheckResult::Passed(format!("mapper {name} for {protocol} responds")),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => CheckResult::Remark(
            format!("mapper {name} is registered; only root can connect to {socket}"),
        ),
        Err(error) => {
            let directory = Path::new(socket).parent().unwrap_or(Path::new("/"));
            CheckResult::warning(
                format!("mapper {name} for {protocol} does not respond at {socket}: {error}"),
                format!(
                    "start the mapper again; a mapper in a pod needs {} as a hostPath volume",
                    directory.display()
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn device_without_mapper_and_mapper_that_has_ended_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("mapper.sock");
        let mut status = StatusReport::default();
        let none = judge(&status).await.result;
        assert!(matches!(none, CheckResult::Passed(_)), "{none:?}");
        let device = |mapper| DeviceState {
            name: "default/pump".into(),
            protocol: "modbus".into(),
            mapper,
            ..DeviceState::default()
        };
        status.devices = vec![device(false), device(false)];
        let found = judge(&status).await.result;
        let part = "no mapper for protocol \"modbus\" is registered: 2 devices";
        assert!(found.texts().0.contains(part), "{found:?}");
        status.devices = vec![device(true)];
        status.mappers = vec![MapperState {
            name: "plc".into(),
            protocol: "modbus".into(),
            socket: socket.display().to_string(),
            ..MapperState::default()
        }];
        let listener = UnixListener::bind(&socket).unwrap();
        let found = judge(&status).await.result;
        assert!(matches!(found, CheckResult::Passed(_)), "{found:?}");
        drop(listener);
        let found = judge(&status).await.result;
        assert!(found.texts().0.contains("does not respond"), "{found:?}");
    }
}
