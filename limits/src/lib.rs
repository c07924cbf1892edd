//! Limits that servers share, so that no outside client can exhaust a process: the number of connections and which of them ends when a
//! new one arrives ([`ConnectionLimiter`]), each client's share of a common resource ([`Shares`]), how often something happens
//! ([`Rate`]) or a log line is written ([`Repeated`], [`LogThrottle`]), which events of Kubernetes are written ([`EventCorrelator`]),
//! the number of open files ([`raise_open_files`]), what the kernel keeps of a UDP server's packets ([`enlarge_send_buffer`]), how much
//! of an input an error message repeats ([`excerpt()`]) or a program reads of a file ([`read_regular_file`]), how long others may take,
//! without the periods in which this process stood still ([`timeout_unless_stalled`], [`RunClock`]), and whether the other end of a
//! connection is still there ([`set_keepalive`]).

mod connections;
mod event_correlator;
mod excerpt;
mod log_throttle;
mod open_files;
mod rate;
mod regular_file;
mod repeated;
mod send_buffer;
mod shares;
mod stall;
mod tcp_keepalive;

pub use connections::{ActiveRequest, ConnectionLimiter, ConnectionLimits, ConnectionSlot, Full};
pub use event_correlator::{CorrelatedEvent, EventCorrelator, EventIdentity, object_event_rate};
pub use excerpt::excerpt;
pub use log_throttle::LogThrottle;
pub use open_files::raise_open_files;
pub use rate::Rate;
pub use regular_file::{open_regular_file, read_regular_file, read_regular_text};
pub use repeated::Repeated;
pub use send_buffer::enlarge_send_buffer;
pub use shares::{NoShare, Share, ShareLimits, Shares};
pub use stall::{RunClock, STALL_TOLERANCE, is_stalled, timeout_unless_stalled};
pub use tcp_keepalive::{KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, set_keepalive};
