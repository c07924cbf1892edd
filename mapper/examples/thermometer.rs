//! The mapper of a simulated thermometer: `temperature` moves towards `target`, which can be set.
//!
//! `DMI_SOCKET=/etc/kubeedge/dmi.sock MAPPER_SOCKET=/etc/kubeedge/thermometer.sock cargo run -p mapper --example thermometer`

use mapper::{Config, Mapper, Result, thermometer::Virtual};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<()> {
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone().drop_guard();
    tokio::spawn(async move { drop((tokio::signal::ctrl_c().await, stop)) });
    Mapper::bind(Config::new("thermometer", "virtual"), Virtual)?
        .run(shutdown)
        .await?;
    Ok(())
}
