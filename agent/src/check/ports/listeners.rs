//! Finds the processes that listen on a port, in the files of /proc (proc(5)).

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// The state of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// The process id.
    pub(super) process: u32,
    /// The process name.
    pub(super) name: String,
}

/// What is known of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortUse {
    /// Nothing listens.
    Free,
    /// These processes listen; empty if this user may not see them.
    By(Vec<Listener>),
}

/// Returns the processes that listen on the address, or on all addresses, at its port.
pub(super) fn listeners(proc: &Path, address: SocketAddr) -> io::Result<PortUse> {
    let mut sockets = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        // a kernel without IPv6 has only one of them
        let text = fs::read_to_string(proc.join(table)).unwrap_or_default();
        sockets.extend(
            text.lines()
                .filter_map(|line| listening_socket(line, address)),
        );
    }
    if sockets.is_empty() {
        return Ok(PortUse::Free);
    }
    let links: Vec<PathBuf> = sockets
        .iter()
        .map(|inode| PathBuf::from(format!("socket:[{inode}]")))
        .collect();
    let mut found = Vec::new();
    for entry in fs::read_dir(proc)?.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // it has ended, or belongs to another user
        let Ok(files) = fs::read_dir(entry.path().join("fd")) else {
            continue;
        };
        let is_listener = |file: fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| links.contains(&target))
        };
        if files.flatten().any(is_listener) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(Listener {
                process,
                name: name.trim().to_owned(),
            });
        }
    }
    Ok(PortUse::By(found))
}

/// Returns the inode of a line's socket, if it listens at the port.
fn listening_socket(line: &str, address: SocketAddr) -> Option<u64> {
    let mut words = line.split_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    let state = words.nth(1)?;
    let inode = words.nth(5)?;
    let is_same = u16::from_str_radix(port, 16).ok()? == address.port();
    (is_same && state == LISTEN)
        .then(|| inode.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn own_listener_is_found_and_a_closed_port_is_free() {
        let proc = Path::new("/proc");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let PortUse::By(found) = listeners(proc, address).unwrap() else {
            panic!("the port is in use")
        };
        let own = std::process::id();
        assert!(found.iter().any(|one| one.process == own), "{found:?}");
        drop(listener);
        assert_eq!(listeners(proc, address).unwrap(), PortUse::Free);
    }
}
