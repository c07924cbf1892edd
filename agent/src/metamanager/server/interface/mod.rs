//! The interface that has the address at which pods find MetaServer. Where nothing of this machine has it, it is made, and
//! stays: connections outlive this program.
//!
//! Source: EdgeCore's MetaServer, which calls it `edge-dummy0`; rtnetlink(7).

mod message;

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
};

use nix::{errno::Errno, net::if_::if_nametoindex};
use tracing::info;

use crate::netlink::{Kernel, addresses_of, own_addresses};

/// Its name.
const NAME: &str = "edge-dummy0";
/// What it is made of, the first kind that this kernel has. Nothing goes through either; both carry an address.
const KINDS: [&str; 2] = ["dummy", "bridge"];
/// Why nothing has the address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterfaceError {
    /// Not allowed.
    #[error(
        "the interface {NAME} for {0} cannot be made without the capability CAP_NET_ADMIN; run the agent as root, or make it by \
         hand: ip link add {NAME} type dummy && ip address add {0} dev {NAME} && ip link set {NAME} up"
    )]
    NotAllowed(IpAddr),
    /// The kernel says no.
    #[error("the interface {NAME} cannot {step}; make it by hand, or give {address} to another interface")]
    Failed {
        /// What was to be done.
        step: &'static str,
        /// For which address.
        address: IpAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Sees to it that an interface has the address. One that has it is left alone.
pub(crate) fn ensure(address: IpAddr) -> Result<(), InterfaceError> {
    let failed = |step: &'static str| move |errno: Errno| failed(step, address, errno);
    if address.is_loopback()
        || address.is_unspecified()
        || is_here(address).map_err(failed("be looked for"))?
    {
        return Ok(());
    }
    let kernel = Kernel::open().map_err(failed("be asked for"))?;
    let index = match if_nametoindex(NAME) {
        Ok(index) => index,
        Err(_) => {
            make(&kernel).map_err(failed("be made"))?;
            if_nametoindex(NAME).map_err(failed("be found after it was made"))?
        }
    };
    kernel.tell(&message::up(index)).map_err(failed("be set up"))?;
    match kernel.tell(&message::address(index, address)) {
        // somebody was faster
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(failed("be given its address")(errno)),
    }
    info!(interface = NAME, %address, "the address for pods is this machine's now");
    Ok(())
}

/// Takes these addresses from the interface that [`ensure`] makes, and removes it where it has no others; other interfaces keep theirs.
pub(crate) fn remove(addresses: &[IpAddr]) -> Result<(), InterfaceError> {
    let Ok(index) = if_nametoindex(NAME) else { return Ok(()) };
    let asked = addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let failed = |step: &'static str| move |errno: Errno| failed(step, asked, errno);
    let kernel = Kernel::open().map_err(failed("be asked for"))?;
    for address in addresses {
        match kernel.tell(&message::remove_address(index, *address)) {
            Ok(()) | Err(Errno::EADDRNOTAVAIL) => {}
            Err(errno) => return Err(failed("lose its address")(errno)),
        }
    }
    // what the kernel itself gives to each interface is no reason to keep it
    let is_own = |address: &IpAddr| matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    if addresses_of(NAME).map_err(failed("be looked at"))?.iter().all(is_own) {
        kernel.tell(&message::remove_link(index)).map_err(failed("be removed"))?;
    }
    Ok(())
}

fn failed(step: &'static str, address: IpAddr, errno: Errno) -> InterfaceError {
    match errno {
        Errno::EPERM | Errno::EACCES => InterfaceError::NotAllowed(address),
        errno => InterfaceError::Failed { step, address, source: errno.into() },
    }
}

/// Whether an interface has the address.
fn is_here(address: IpAddr) -> Result<bool, Errno> {
    Ok(own_addresses()?.contains(&address))
}

fn make(kernel: &Kernel) -> Result<(), Errno> {
    let mut last = Errno::EOPNOTSUPP;
    for kind in KINDS {
        match kernel.tell(&message::link(NAME, kind)) {
            Ok(()) | Err(Errno::EEXIST) => return Ok(()),
            Err(Errno::EOPNOTSUPP) => {}
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests;
