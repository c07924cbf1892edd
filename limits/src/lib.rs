//! Limits that servers share, so that no outside client can exhaust a process: the number of connections and which of them ends when a new
//! one arrives ([`ConnectionLimiter`]), each client's share of a common resource ([`Shares`]), how often something happens
//! ([`Rate`]) or a log line is written ([`Repeated`], [`LogThrottle`]), the number of open files ([`raise_open_files`]), what the kernel
//! keeps of a UDP server's packets ([`enlarge_send_buffer`]), and how much of an input an error message repeats ([`excerpt()`]).

mod connections;
mod excerpt;
mod log_throttle;
mod open_files;
mod rate;
mod repeated;
mod send_buffer;
mod shares;

pub use connections::{ActiveRequest, ConnectionLimiter, ConnectionLimits, ConnectionSlot, Full};
pub use excerpt::excerpt;
pub use log_throttle::LogThrottle;
pub use open_files::raise_open_files;
pub use rate::Rate;
pub use repeated::Repeated;
pub use send_buffer::enlarge_send_buffer;
pub use shares::{NoShare, Share, ShareLimits, Shares};
