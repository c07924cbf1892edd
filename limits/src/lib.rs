//! Bounds that servers share, so that nobody from outside can take all of a process: how many connections there are and which of them
//! ends when a new one comes ([`ConnectionLimiter`]), how much of what all share is one client's ([`Shares`]), how often a line of the log is
//! written ([`Repeated`], [`LogThrottle`]), how many files may be open ([`raise_open_files`]), how much of an input the error about it repeats
//! ([`excerpt()`]).

mod connections;
mod excerpt;
mod log_throttle;
mod open_files;
mod repeated;
mod shares;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::panic)]
pub mod testing;

pub use connections::{ActiveRequest, ConnectionLimiter, ConnectionLimits, ConnectionSlot, Full};
pub use excerpt::excerpt;
pub use log_throttle::LogThrottle;
pub use open_files::raise_open_files;
pub use repeated::Repeated;
pub use shares::{NoShare, Share, ShareLimits, Shares};
