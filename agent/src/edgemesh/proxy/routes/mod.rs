//! Routes by which a Service's addresses are delivered to this machine: `local ADDRESS dev lo` in the table `local`, where the kernel has
//! its own. No interface gets an address, and no packet filter is needed.

mod message;

use std::{collections::BTreeSet, net::IpAddr};

use nix::{errno::Errno, net::if_::if_nametoindex};

use crate::netlink::Kernel;

/// The kernel's routes that are this program's.
#[derive(Debug)]
pub(super) struct Routes {
    kernel: Kernel,
    loopback: u32,
}

impl Routes {
    pub(super) fn open() -> Result<Self, Errno> {
        Ok(Self {
            kernel: Kernel::open()?,
            loopback: if_nametoindex("lo")?,
        })
    }

    /// All routes that any process of this program has created.
    pub(super) fn list(&self) -> Result<BTreeSet<IpAddr>, Errno> {
        let mut all = BTreeSet::new();
        for is_ipv4 in [true, false] {
            let question = message::question(is_ipv4);
            match self.kernel.list(message::GET, message::ROUTE, &question) {
                Ok(routes) => all.extend(routes.iter().filter_map(|route| message::ours(route))),
                // a kernel without IPv6
                Err(Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP) if !is_ipv4 => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(all)
    }

    /// Has the address delivered here.
    pub(super) fn add(&self, address: IpAddr) -> Result<(), Errno> {
        match self.kernel.execute(&message::add(address, self.loopback)) {
            Err(Errno::EEXIST) => Ok(()),
            other => other,
        }
    }

    /// The address is no longer delivered here; a route that is not this program's stays.
    pub(super) fn remove(&self, address: IpAddr) -> Result<(), Errno> {
        match self
            .kernel
            .execute(&message::remove(address, self.loopback))
        {
            Err(Errno::ESRCH) => Ok(()),
            other => other,
        }
    }
}

/// Removes all that this program has added, as after it was killed; how many there were.
pub(in crate::edgemesh) fn remove_all() -> Result<usize, Errno> {
    let routes = Routes::open()?;
    let all = routes.list()?;
    for address in &all {
        routes.remove(*address)?;
    }
    Ok(all.len())
}

#[cfg(test)]
mod tests;
