//! The interface with the address at which pods reach MetaServer. It is created where no interface of this machine has the
//! address, and stays when the agent ends, because connections outlive the agent.
//!
//! Source: EdgeCore's MetaServer, which calls it `edge-dummy0`; rtnetlink(7).

mod message;

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
};

use componentbase::addresses::{self, all_of_interface};
use nix::{errno::Errno, net::if_::if_nametoindex};
use tracing::info;

use crate::netlink::Kernel;

/// The name of the interface.
const INTERFACE_NAME: &str = "edge-dummy0";
/// The kinds of interface to try, in this order. Nothing is sent through either; both carry an address.
const INTERFACE_KINDS: [&str; 2] = ["dummy", "bridge"];
/// Why no interface has the address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterfaceError {
    /// The permission is missing.
    #[error(
        "cannot create the interface {INTERFACE_NAME} for {0} without CAP_NET_ADMIN; run the agent as root, or create the interface: ip \
         link add {INTERFACE_NAME} type dummy && ip address add {0} dev {INTERFACE_NAME} && ip link set {INTERFACE_NAME} up"
    )]
    NotAllowed(IpAddr),
    /// The kernel refuses.
    #[error(
        "the interface {INTERFACE_NAME} cannot {step}; create the interface, or add {address} to another interface"
    )]
    Failed {
        /// The step that failed.
        step: &'static str,
        /// The address.
        address: IpAddr,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// Ensures that an interface has the address. An interface that has it already is not changed.
pub(crate) fn ensure(address: IpAddr) -> Result<(), InterfaceError> {
    let failed = |step: &'static str| move |errno: Errno| system_error(step, address, errno);
    if address.is_loopback()
        || address.is_unspecified()
        || has_address(address).map_err(failed("be looked for"))?
    {
        return Ok(());
    }
    let kernel = Kernel::open().map_err(failed("be asked for"))?;
    let index = match if_nametoindex(INTERFACE_NAME) {
        Ok(index) => index,
        Err(_) => {
            create_interface(&kernel).map_err(failed("be made"))?;
            if_nametoindex(INTERFACE_NAME).map_err(failed("be found after its creation"))?
        }
    };
    kernel
        .execute(&message::set_link_up(index))
        .map_err(failed("be set up"))?;
    match kernel.execute(&message::add_address(index, address)) {
        // another program has created it meanwhile
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(failed("get its address")(errno)),
    }
    info!(interface = INTERFACE_NAME, %address, "address for pods added to this machine");
    Ok(())
}

/// Removes these addresses from the interface that [`ensure`] creates, and the interface if it has no others. Other interfaces
/// keep theirs.
pub(crate) fn remove(addresses: &[IpAddr]) -> Result<(), InterfaceError> {
    let Ok(index) = if_nametoindex(INTERFACE_NAME) else {
        return Ok(());
    };
    let asked = addresses
        .first()
        .copied()
        .unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let failed = |step: &'static str| move |errno: Errno| system_error(step, asked, errno);
    let kernel = Kernel::open().map_err(failed("be asked for"))?;
    for address in addresses {
        match kernel.execute(&message::remove_address(index, *address)) {
            Ok(()) | Err(Errno::EADDRNOTAVAIL) => {}
            Err(errno) => return Err(failed("lose its address")(errno)),
        }
    }
    // link-local addresses, which the kernel gives to each interface, do not count
    let is_own =
        |address: &IpAddr| matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    if all_of_interface(INTERFACE_NAME)
        .map_err(failed("be looked at"))?
        .iter()
        .all(is_own)
    {
        kernel
            .execute(&message::remove_link(index))
            .map_err(failed("be removed"))?;
    }
    Ok(())
}

fn system_error(step: &'static str, address: IpAddr, errno: Errno) -> InterfaceError {
    match errno {
        Errno::EPERM | Errno::EACCES => InterfaceError::NotAllowed(address),
        errno => InterfaceError::Failed {
            step,
            address,
            source: errno.into(),
        },
    }
}

/// Reports whether an interface of this machine has the address.
fn has_address(address: IpAddr) -> Result<bool, Errno> {
    Ok(addresses::own()?.contains(&address))
}

fn create_interface(kernel: &Kernel) -> Result<(), Errno> {
    let mut last = Errno::EOPNOTSUPP;
    for kind in INTERFACE_KINDS {
        match kernel.execute(&message::create_link(INTERFACE_NAME, kind)) {
            Ok(()) | Err(Errno::EEXIST) => return Ok(()),
            Err(Errno::EOPNOTSUPP) => {}
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests;
