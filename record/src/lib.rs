//! Recordings of a node's connections with its cloud: sessions, stream tunnels and enrolment.
//!
//! A program writes with a [`Recorder`], which never waits: a thread of its own replaces secrets, compresses and writes. [`Reader`] reads a
//! recording and names what is wrong with a damaged one. `docs/record.md` describes the format: a sequence of [`block`]s of [`Line`]s.

pub mod block;
mod file;
mod line;
mod reader;
mod recorder;
pub mod redact;
mod redact_frame;
mod window;

pub use self::{
    file::Limits,
    line::{Body, Connection, End, Frame, Gap, Header, Line, Side, Transport, VERSION},
    reader::{Fault, ReadError, Reader},
    recorder::{
        ConnectionRecorder, MALFORMED, Options, PING, PONG, Recorder, Recording, StartError,
        headers, kind_of, kinds,
    },
    redact_frame::CLOSE,
    window::{Window, WindowReader},
};

#[cfg(test)]
mod tests;
