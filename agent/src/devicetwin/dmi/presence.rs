//! Watches whether a mapper serves its socket. Otherwise the state of its devices is `unknown`.
//!
//! EdgeCore keeps the last state that a mapper reported.

use std::{io, time::Duration};

use tokio::{io::AsyncReadExt, net::UnixStream, time::sleep};
use tracing::{info, warn};

use super::mapper::Mapper;
use crate::devicetwin::{DeviceTwin, RequestError};

/// The wait between two attempts to connect.
const INTERVAL: Duration = Duration::from_secs(1);
/// The failed attempts after which a mapper counts as ended; fewer are a restart.
const MAX_FAILURES: u32 = 5;
/// The state of devices whose mapper does not run.
const UNKNOWN: &str = "unknown";
/// The states that only a running mapper can know.
const OBSERVED_STATES: [&str; 3] = ["online", "ok", "unhealthy"];

/// Runs until it is dropped. A mapper that is back reports the states itself.
pub(super) async fn watch(mapper: Mapper, twin: DeviceTwin) {
    let mut failures = 0_u32;
    loop {
        match UnixStream::connect(&mapper.socket).await {
            Ok(stream) => {
                if failures >= MAX_FAILURES {
                    info!(mapper = mapper.name, "mapper running again");
                }
                failures = 0;
                wait_for_end(stream).await;
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures == MAX_FAILURES {
                    warn!(
                        mapper = mapper.name,
                        protocol = mapper.protocol,
                        socket = %mapper.socket.display(),
                        %error,
                        "mapper not running; its devices have the state unknown"
                    );
                    if let Err(error) = set_unknown(&mapper.protocol, &twin).await {
                        warn!(%error, "failed to set the state of devices without a mapper");
                    }
                }
            }
        }
        sleep(INTERVAL).await;
    }
}

/// Reads until the mapper closes the connection, as its end does. What it sends is of no interest.
async fn wait_for_end(mut stream: UnixStream) {
    let mut buffer = [0; 256];
    loop {
        let read: io::Result<usize> = stream.read(&mut buffer).await;
        if matches!(read, Ok(0) | Err(_)) {
            return;
        }
    }
}

/// Sets the state of the protocol's devices whose mapper has reported one.
async fn set_unknown(protocol: &str, twin: &DeviceTwin) -> Result<(), RequestError> {
    let Some(catalogue) = twin.devices().now() else {
        return Ok(());
    };
    for member in twin.members().await? {
        let is_of_mapper = catalogue
            .devices
            .get(&member.id)
            .and_then(|entry| entry.protocol.as_deref());
        if is_of_mapper == Some(protocol) && OBSERVED_STATES.contains(&member.state.as_str()) {
            twin.report_state(&member.id, UNKNOWN).await?;
        }
    }
    Ok(())
}
