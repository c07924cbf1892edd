//! Ports for a cloud that comes back on the same ones.

use std::{
    env,
    fs::{File, OpenOptions},
    net::{Ipv4Addr, TcpListener},
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
};

use anyhow::Context;

/// Below the range from which the kernel takes ports for outgoing connections: while a cloud is away, a client that tries
/// again and again could otherwise be given the cloud's port, and even connect to itself.
const FIRST: u16 = 20_000;
/// How many ports one test process has.
const SHARE: u16 = 40;
/// How many test processes have shares of their own.
const SHARES: u16 = 300;

/// This process' share, with its lock: while a cloud of it is away, no other process takes the cloud's ports.
static MINE: OnceLock<(u16, File)> = OnceLock::new();
/// The number of ports that this process has handed out or found busy.
static USED: AtomicU16 = AtomicU16::new(0);

/// Arguments of `cloudsim up` by which all its servers take ports that are free.
pub const ANY_PORTS: [&str; 8] =
    ["--api-port", "0", "--https-port", "0", "--ws-port", "0", "--tunnel-port", "0"];

/// A cloud's four ports, and its node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Of the API.
    pub api: u16,
    /// Of the enrolment endpoints.
    pub https: u16,
    /// Of CloudHub.
    pub ws: u16,
    /// Of nodes' stream tunnels.
    pub tunnel: u16,
    /// Of the node's health and metrics.
    pub node: u16,
}

impl Ports {
    /// Ports that nobody listens on.
    pub fn free() -> anyhow::Result<Self> {
        Ok(Self { api: free()?, https: free()?, ws: free()?, tunnel: free()?, node: free()? })
    }
}

/// The number of this process' share, which no other process has while this one lives.
pub(crate) fn mine() -> anyhow::Result<u16> {
    if MINE.get().is_none() {
        // of two threads that come first together, one lets its share go again
        let _ = MINE.set(share()?);
    }
    Ok(MINE.get().context("no share of the ports")?.0)
}

fn free() -> anyhow::Result<u16> {
    let share = mine()?;
    (0..SHARE)
        .map(|_| FIRST + share * SHARE + USED.fetch_add(1, Ordering::Relaxed) % SHARE)
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .context("this process' share of ports is busy")
}

/// A share that no other process has, for as long as the file is open.
fn share() -> anyhow::Result<(u16, File)> {
    let first = u16::try_from(std::process::id() % u32::from(SHARES))?;
    for offset in 0..SHARES {
        let share = (first + offset) % SHARES;
        let path = env::temp_dir().join(format!("outrigger-ports-{share}"));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        // another user's
        let Ok(file) = file else { continue };
        if file.try_lock().is_ok() {
            return Ok((share, file));
        }
    }
    anyhow::bail!("all {SHARES} shares of ports are taken by other test processes")
}
