//! Ports for a cloud that comes back on the same ones.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::Context;

/// Below the range from which the kernel takes ports for outgoing connections: while a cloud is away, a client that tries
/// again and again could otherwise be given the cloud's port, and even connect to itself.
const FIRST: u16 = 20_000;
/// How many ports one test process has.
const SHARE: u16 = 40;
/// How many test processes have shares of their own.
const SHARES: u32 = 300;

/// The number of ports that this process has handed out or found busy.
static USED: AtomicU16 = AtomicU16::new(0);

/// A cloud's three ports, and its node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Of the API.
    pub api: u16,
    /// Of the enrolment endpoints.
    pub https: u16,
    /// Of CloudHub.
    pub ws: u16,
    /// Of the node's health and metrics.
    pub node: u16,
}

impl Ports {
    /// Ports that nobody listens on.
    pub fn free() -> anyhow::Result<Self> {
        Ok(Self { api: free()?, https: free()?, ws: free()?, node: free()? })
    }
}

fn free() -> anyhow::Result<u16> {
    let share = u16::try_from(std::process::id() % SHARES)?;
    (0..SHARE)
        .map(|_| FIRST + share * SHARE + USED.fetch_add(1, Ordering::Relaxed) % SHARE)
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .context("this process' share of ports is busy")
}
