//! Encodes and decodes netlink messages about interfaces, addresses and routes.
//!
//! Only [`Kernel`], [`own_networks`] and [`routes`] call the system; all other functions are pure.
//!
//! Source: netlink(7), rtnetlink(7), `linux/netlink.h`. Numbers are in the machine's byte order; messages and attributes begin at
//! multiples of four.

pub(crate) mod routes;

use std::os::fd::{AsRawFd, OwnedFd};

use componentbase::addresses::ip;
use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    sys::{
        socket::{
            AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
            setsockopt, socket, sockopt::ReceiveTimeout,
        },
        time::{TimeVal, TimeValLike},
    },
};

use crate::config::Network;

/// The length of `struct nlmsghdr`.
const NLMSGHDR_LENGTH: usize = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`: a request that is acknowledged.
pub(crate) const REQUEST_ACK: u16 = 0x1 | 0x4;
/// `NLM_F_EXCL | NLM_F_CREATE`: creates something that must not exist.
pub(crate) const CREATE_EXCL: u16 = 0x200 | 0x400;
/// `NLM_F_REQUEST | NLM_F_DUMP`: requests all entries.
const REQUEST_DUMP: u16 = 0x1 | 0x300;
/// Message types: `NLMSG_ERROR`, which also reports success, and `NLMSG_DONE`.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// How long the kernel may take to answer, which it does at once.
const TIMEOUT_SECONDS: i64 = 5;
/// The largest answer of the kernel.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The most answers to one request.
const MAX_MESSAGES: usize = 100_000;

/// A netlink socket. Each call waits for the kernel's answer, which comes at once.
#[derive(Debug)]
pub(crate) struct Kernel(OwnedFd);

impl Kernel {
    pub(crate) fn open() -> Result<Self, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let kernel = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            flags,
            SockProtocol::NetlinkRoute,
        )?;
        setsockopt(&kernel, ReceiveTimeout, &TimeVal::seconds(TIMEOUT_SECONDS))?;
        Ok(Self(kernel))
    }

    /// Sends a request with [`REQUEST_ACK`] flags, and returns its result.
    pub(crate) fn execute(&self, message: &[u8]) -> Result<(), Errno> {
        self.send(message)?;
        let mut answer = vec![0; MAX_ANSWER_BYTES];
        let size = recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        outcome(answer.get(..size).unwrap_or_default())
    }

    /// Returns the bodies of all messages of type `kind` in the answer to a dump request of type `question`.
    pub(crate) fn list(
        &self,
        question: u16,
        kind: u16,
        body: &[u8],
    ) -> Result<Vec<Vec<u8>>, Errno> {
        self.send(&message(question, REQUEST_DUMP, body))?;
        let (mut all, mut answer) = (Vec::new(), vec![0; MAX_ANSWER_BYTES]);
        for _ in 0..MAX_MESSAGES {
            let size = recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            if !parse_part(answer.get(..size).unwrap_or_default(), kind, &mut all)? {
                return Ok(all);
            }
        }
        Err(Errno::EPROTO)
    }

    fn send(&self, message: &[u8]) -> Result<(), Errno> {
        sendto(
            self.0.as_raw_fd(),
            message,
            &NetlinkAddr::new(0, 0),
            MsgFlags::empty(),
        )
        .map(drop)
    }
}

/// Returns the networks of this machine's addresses.
pub(crate) fn own_networks() -> Result<Vec<Network>, Errno> {
    let networks = getifaddrs()?.filter_map(|interface| {
        let (address, mask) = (
            ip(interface.address.as_ref()?)?,
            ip(interface.netmask.as_ref()?)?,
        );
        Network::masked(address, mask)
    });
    Ok(networks.collect())
}

/// Parses one answer into `all`; returns whether more answers follow.
fn parse_part(mut answer: &[u8], kind: u16, all: &mut Vec<Vec<u8>>) -> Result<bool, Errno> {
    while !answer.is_empty() {
        let length = number(answer, 0)
            .map(|length| u32::from_ne_bytes(length) as usize)
            .ok_or(Errno::EPROTO)?;
        let one = answer
            .get(..length)
            .filter(|_| length >= NLMSGHDR_LENGTH)
            .ok_or(Errno::EPROTO)?;
        match one
            .get(4..6)
            .map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]))
        {
            Some(NLMSG_DONE) => return Ok(false),
            Some(NLMSG_ERROR) => return outcome(one).map(|()| false),
            Some(other) if other == kind => all.push(one[NLMSGHDR_LENGTH..].to_vec()),
            _ => {}
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Parses the result of a request.
pub(crate) fn outcome(answer: &[u8]) -> Result<(), Errno> {
    let kind = answer
        .get(4..6)
        .map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    match (
        kind,
        number(answer, NLMSGHDR_LENGTH).map(i32::from_ne_bytes),
    ) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(errno)) => Err(Errno::from_raw(errno.saturating_neg())),
        _ => Err(Errno::EPROTO),
    }
}

fn number(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

/// Encodes an attribute of a message.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    // the values here are short
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    pad([&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat())
}

/// Parses the attributes in `bytes`.
pub(crate) fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let Some(&[a, b, c, d]) = bytes.get(..4) {
        let (length, kind) = (
            usize::from(u16::from_ne_bytes([a, b])),
            u16::from_ne_bytes([c, d]),
        );
        let Some(value) = bytes.get(4..length) else {
            break;
        };
        all.push((kind, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// Encodes a message of this type.
pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(NLMSGHDR_LENGTH + body.len()).unwrap_or(u32::MAX);
    // sequence and port are 0: there is one request at a time
    [
        &length.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &[0; 8],
        body,
    ]
    .concat()
}

fn pad(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        let answer = |kind: u16, number: i32| message(kind, 0, &number.to_ne_bytes());
        assert_eq!(outcome(&answer(NLMSG_ERROR, 0)), Ok(()));
        assert_eq!(outcome(&answer(NLMSG_ERROR, -1)), Err(Errno::EPERM));
        assert_eq!(
            outcome(&answer(NLMSG_ERROR, i32::MIN)),
            Err(Errno::UnknownErrno)
        );
        for strange in [answer(16, 0), Vec::new(), vec![0; 17]] {
            assert_eq!(outcome(&strange), Err(Errno::EPROTO));
        }
    }

    #[test]
    fn parts_of_a_list_are_taken_until_its_end() {
        let two = [
            message(24, 0, &[1; 4]),
            message(20, 0, &[2; 4]),
            message(24, 0, &[3; 4]),
        ]
        .concat();
        let mut all = Vec::new();
        assert_eq!(parse_part(&two, 24, &mut all), Ok(true));
        assert_eq!(
            parse_part(&message(NLMSG_DONE, 0, &[0; 4]), 24, &mut all),
            Ok(false)
        );
        assert_eq!(all, [vec![1; 4], vec![3; 4]]);
        assert_eq!(
            parse_part(
                &message(NLMSG_ERROR, 0, &(-1i32).to_ne_bytes()),
                24,
                &mut all
            ),
            Err(Errno::EPERM)
        );
        for broken in [&[1, 2][..], &[0; 16], &two[..30]] {
            assert_eq!(
                parse_part(broken, 24, &mut Vec::new()),
                Err(Errno::EPROTO),
                "{broken:?}"
            );
        }
    }

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let bytes = [
            attribute(1, b"abc"),
            attribute(7, b""),
            attribute(2, b"12345678"),
        ]
        .concat();
        assert_eq!(
            attributes(&bytes),
            [(1, &b"abc"[..]), (7, b""), (2, b"12345678")]
        );
        assert_eq!(attributes(&[9, 0, 1, 0, 5]), []);
        assert_eq!(attributes(&[0; 8]), []);
    }
}
