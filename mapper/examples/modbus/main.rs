//! Modbus over TCP. Settings of the protocol: `ip`, `port`, `slaveID`; of a property: `register` (`CoilRegister`,
//! `DiscreteInputRegister`, `HoldingRegister`, `InputRegister`), `offset`, `scale`, as in KubeEdge's own examples.
//!
//! `cargo run -p mapper --example modbus` serves devices; with `--simulate 127.0.0.1:5502` it is the device itself.

mod modbus;
mod protocol;
mod slave;

use mapper::{Config, Mapper, Result};
use tokio_util::sync::CancellationToken;

use self::{protocol::Modbus, slave::Slave};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    if let (Some("--simulate"), Some(address)) = (arguments.next().as_deref(), arguments.next()) {
        return Ok(Slave::bind(&address).await?.run().await?);
    }
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    Mapper::bind(Config::new("modbus", "modbus"), Modbus)?
        .run(shutdown)
        .await?;
    Ok(())
}
