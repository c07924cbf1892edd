//! Messages to the kernel about interfaces and addresses, and its answers: pure.
//!
//! Source: netlink(7), rtnetlink(7), `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`. Numbers are in the machine's byte
//! order; messages and attributes begin at multiples of four.

use std::net::IpAddr;

use nix::errno::Errno;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLM_F_REQUEST`, `NLM_F_ACK`; and for what is new `NLM_F_EXCL`, `NLM_F_CREATE`.
const ASK: u16 = 0x1 | 0x4;
const NEW: u16 = 0x200 | 0x400;
/// Types: `NLMSG_ERROR`, which also says that all went well, `RTM_NEWLINK`, `RTM_NEWADDR`.
const OUTCOME: u16 = 2;
const LINK: u16 = 16;
const ADDRESS: u16 = 20;
/// Attributes: `IFLA_IFNAME`, `IFLA_LINKINFO` and in it `IFLA_INFO_KIND`; `IFA_ADDRESS`, `IFA_LOCAL`.
const IFLA_NAME: u16 = 3;
const IFLA_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `IFF_UP`.
const UP: u32 = 1;
/// Families: `AF_INET`, `AF_INET6`.
const INET: u8 = 2;
const INET6: u8 = 10;
/// `IFA_F_NODAD`: nobody else can have it on this link.
const NO_DUPLICATES: u8 = 2;
/// `RT_SCOPE_LINK`: no traffic to elsewhere has this address as its source.
const OF_LINK: u8 = 253;

/// A new interface of this kind, up from the beginning.
pub(super) fn link(name: &str, kind: &str) -> Vec<u8> {
    let kind = attribute(INFO_KIND, kind.as_bytes());
    let name = [name.as_bytes(), &[0]].concat();
    let body = [interface(0), attribute(IFLA_NAME, &name), attribute(IFLA_INFO, &kind)].concat();
    message(LINK, ASK | NEW, &body)
}

/// The interface of this number is to be up.
pub(super) fn up(index: u32) -> Vec<u8> {
    message(LINK, ASK, &interface(index))
}

/// The interface of this number gets an address of its own, with no network around it.
pub(super) fn address(index: u32, address: IpAddr) -> Vec<u8> {
    let (family, flags, bytes) = match address {
        IpAddr::V4(address) => (INET, 0, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, NO_DUPLICATES, address.octets().to_vec()),
    };
    let bits = if family == INET { 32 } else { 128 };
    let head = [[family, bits, flags, OF_LINK], index.to_ne_bytes()].concat();
    let body = [head, attribute(IFA_LOCAL, &bytes), attribute(IFA_ADDRESS, &bytes)].concat();
    message(ADDRESS, ASK | NEW, &body)
}

/// What the kernel answers to a message.
pub(super) fn outcome(answer: &[u8]) -> Result<(), Errno> {
    let number = |at: usize| -> Option<[u8; 4]> { answer.get(at..at + 4)?.try_into().ok() };
    let kind = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    match (kind, number(HEADER).map(i32::from_ne_bytes)) {
        (Some(OUTCOME), Some(0)) => Ok(()),
        (Some(OUTCOME), Some(errno)) => Err(Errno::from_raw(errno.saturating_neg())),
        _ => Err(Errno::EPROTO),
    }
}

/// `struct ifinfomsg` that sets the interface up.
fn interface(index: u32) -> Vec<u8> {
    let (unspecified, kind) = ([0, 0], [0, 0]);
    let head = [unspecified, kind].concat();
    [head, index.to_ne_bytes().to_vec(), UP.to_ne_bytes().to_vec(), UP.to_ne_bytes().to_vec()].concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    // what is told here is some bytes long
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    padded([&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat())
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    // sequence and port: there is one message at a time, and the kernel knows who asks
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat()
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_they_say() {
        let messages = [
            link("edge-dummy0", "dummy"),
            up(7),
            address(7, [169, 254, 30, 10].into()),
            address(7, "fd00::1".parse().unwrap()),
        ];
        for (message, size) in messages.iter().zip([64, 32, 40, 64]) {
            assert_eq!(message.len(), size);
            assert_eq!(u32::from_ne_bytes(message[..4].try_into().unwrap()) as usize, size);
        }
        assert!(messages[0].windows(12).any(|bytes| bytes == b"edge-dummy0\0"));
        assert_eq!(messages[2][16..20], [INET, 32, 0, OF_LINK]);
    }

    #[test]
    fn answers_are_understood() {
        let answer = |kind: u16, number: i32| message(kind, 0, &number.to_ne_bytes());
        assert_eq!(outcome(&answer(OUTCOME, 0)), Ok(()));
        assert_eq!(outcome(&answer(OUTCOME, -1)), Err(Errno::EPERM));
        assert_eq!(outcome(&answer(OUTCOME, i32::MIN)), Err(Errno::UnknownErrno));
        for strange in [answer(LINK, 0), Vec::new(), vec![0; 17]] {
            assert_eq!(outcome(&strange), Err(Errno::EPROTO));
        }
    }
}
