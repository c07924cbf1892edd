//! The API on a socket, over TLS with client certificates: what `kubectl` does with it, and who gets in.
#![allow(clippy::unwrap_used, clippy::panic, clippy::too_many_lines)]

mod commands;
mod crowd;
mod definitions;
mod kinds;
mod pki;
mod program;
mod socket;
mod streams;
mod world;
