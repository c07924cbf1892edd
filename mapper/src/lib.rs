//! A library for mappers: it reports the state of devices to the agent of a KubeEdge node, and writes desired values to the devices.
//!
//! Implement [`Protocol`] (how to connect to a device) and [`Link`] (how to read and write a property), and run a [`Mapper`]. The library
//! does the rest: registration, added, changed and removed devices, cycles of reading and reporting, failed connections, and an unavailable
//! agent. It speaks DMI v1beta1 over unix sockets, so the agent may be `edge-agent` or `EdgeCore`.
//!
//! ```no_run
//! use mapper::{Config, Device, Link, Mapper, Property, Protocol, Result};
//!
//! struct Dice;
//!
//! impl Protocol for Dice {
//!     type Link = Self;
//!     async fn open(&self, _: &Device) -> Result<Self> {
//!         Ok(Self)
//!     }
//! }
//!
//! impl Link for Dice {
//!     async fn read(&mut self, _: &Property) -> Result<String> {
//!         Ok("4".to_owned())
//!     }
//! }
//!
//! # async fn run() -> Result<()> {
//! Mapper::bind(Config::new("dice", "dice"), Dice)?.run(tokio_util::sync::CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```

mod agent;
mod device;
mod keeper;
mod mapper;
mod server;
mod task;
pub mod thermometer;
mod work;

pub use self::{
    device::{Device, Kind, Property, SettingError, Settings},
    mapper::{Config, Mapper, RunError},
};

/// Any error of a device; its text is logged.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of a protocol's own code.
pub type Result<T> = std::result::Result<T, Error>;

/// The protocol by which devices are reached.
pub trait Protocol: Send + Sync + 'static {
    /// The connection to one device.
    type Link: Link;

    /// Connects to a device. It is called again, with growing pauses, when it or the link has failed, and when the device's settings have
    /// changed.
    fn open(&self, device: &Device) -> impl Future<Output = Result<Self::Link>> + Send;
}

/// The connection to one device. It is dropped when the device is removed or its settings change.
///
/// A call that takes longer than ten seconds is dropped together with the link, because the link might still deliver the answer to that
/// call. If a link is still usable after such a silence, or to end a call sooner, its own code must return an error in time.
pub trait Link: Send + 'static {
    /// Reads a property as text of its type. An error ends the connection; the device is offline until it has been opened and read again.
    fn read(&mut self, property: &Property) -> impl Future<Output = Result<String>> + Send;

    /// Writes a property. It is called when the desired value changes, and once for each new connection. An error is logged, and the write
    /// is repeated with the next reading; the connection stays.
    fn write(
        &mut self,
        property: &Property,
        value: &str,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = value;
        let why = format!("{} cannot be written", property.name);
        async move { Err(why.into()) }
    }
}
