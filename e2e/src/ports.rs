//! Allocates ports for a cloud that is restarted on the same ones.

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

/// The first port, below the range of outgoing connections: while a cloud is away, a client that retries could otherwise be given the
/// cloud's port, and even connect to itself.
const FIRST: u16 = 20_000;
/// The number of ports of one test process.
const SHARE: u16 = 40;
/// The number of test processes that have shares of their own.
const SHARES: u16 = 300;

/// This process's share, with its lock: while a cloud of it is away, no other process takes the cloud's ports.
static MINE: OnceLock<(u16, File)> = OnceLock::new();
/// The number of ports that this process has handed out or found busy.
static USED: AtomicU16 = AtomicU16::new(0);

/// Arguments of `cloudsim up` with which all its servers use free ports.
pub const ANY_PORTS: [&str; 8] = [
    "--api-port",
    "0",
    "--https-port",
    "0",
    "--ws-port",
    "0",
    "--tunnel-port",
    "0",
];

/// The four ports of a cloud, and the port of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port of the API.
    pub api: u16,
    /// The port of the enrolment server.
    pub https: u16,
    /// The port of CloudHub.
    pub ws: u16,
    /// The port of nodes' stream tunnels.
    pub tunnel: u16,
    /// The port of the node's health and metrics.
    pub node: u16,
}

impl Ports {
    /// Returns free ports.
    pub fn free() -> anyhow::Result<Self> {
        Ok(Self {
            api: free()?,
            https: free()?,
            ws: free()?,
            tunnel: free()?,
            node: free()?,
        })
    }
}

/// Returns the number of this process's share, which no other process has while this one lives.
pub(crate) fn mine() -> anyhow::Result<u16> {
    if MINE.get().is_none() {
        // If two threads come first together, one of them releases its share again.
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

/// Takes a share that no other process has, for as long as the file is open.
fn share() -> anyhow::Result<(u16, File)> {
    let first = u16::try_from(std::process::id() % u32::from(SHARES))?;
    for offset in 0..SHARES {
        let share = (first + offset) % SHARES;
        let path = env::temp_dir().join(format!("outrigger-ports-{share}"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        // The file belongs to another user.
        let Ok(file) = file else { continue };
        if file.try_lock().is_ok() {
            return Ok((share, file));
        }
    }
    anyhow::bail!("all {SHARES} shares of ports are taken by other test processes")
}
