//! A mapper in a few lines: it tells the agent of a KubeEdge node what devices are, and the devices what is wanted of them.
//!
//! Implement [`Protocol`] (how a device is reached) and [`Link`] (how a property is read and written), and run a [`Mapper`]. The
//! rest is here: registration, devices that come, change and go, cycles of reading and reporting, connections that fail, an agent
//! that is away. It speaks DMI v1beta1 over unix sockets, so the agent may be `edge-agent` or EdgeCore.
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

/// Whatever went wrong with a device; its text stands in the log.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Of a protocol's own code.
pub type Result<T> = std::result::Result<T, Error>;

/// How devices are reached.
pub trait Protocol: Send + Sync + 'static {
    /// The connection to one device.
    type Link: Link;

    /// Connects to a device. It is called again, with growing waits, when it or the link has failed, and when the device's
    /// settings have changed.
    fn open(&self, device: &Device) -> impl Future<Output = Result<Self::Link>> + Send;
}

/// The connection to one device. It is dropped when the device is gone or reached in another way.
///
/// A call that takes longer than ten seconds is dropped in its middle, and the link with it: nothing is asked of a link that may
/// still bring the answer to another question. Where a link is still good after so long a silence, or sooner, its own code ends
/// the call with an error.
pub trait Link: Send + 'static {
    /// Reads a property, as text of its type. An error ends the connection; the device is offline until it has been opened and read
    /// again.
    fn read(&mut self, property: &Property) -> impl Future<Output = Result<String>> + Send;

    /// Writes a property. It is called when another value is wanted, and once for each new connection. An error is told in the
    /// log, and it is called again with the next reading; the connection stays.
    fn write(&mut self, property: &Property, value: &str) -> impl Future<Output = Result<()>> + Send {
        let _ = value;
        let why = format!("{} cannot be written", property.name);
        async move { Err(why.into()) }
    }
}
