//! Parses the kernel's notices as far as they are relevant. Pure.
//!
//! Source: netlink(7), rtnetlink(7), `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`.

use std::collections::BTreeMap;

/// `struct nlmsghdr`: length (4 bytes), type (2), flags (2), sequence (4), port (4), in the machine's byte order.
const NLMSGHDR_LENGTH: usize = 16;
/// The alignment of messages, and of attributes within them.
const ALIGN: usize = 4;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;

/// The offsets of `rtm_dst_len` and `rtm_table` in `struct rtmsg`.
const RTM_DST_LEN_OFFSET: usize = 1;
const RTM_TABLE_OFFSET: usize = 4;
/// `RT_TABLE_MAIN`: the table for the machine's own traffic.
const RT_TABLE_MAIN: u8 = 254;
/// The offset of `ifa_scope` in `struct ifaddrmsg`.
const IFA_SCOPE_OFFSET: usize = 3;
/// `RT_SCOPE_UNIVERSE`: only such addresses lead to a cloud.
const RT_SCOPE_UNIVERSE: u8 = 0;
/// The offsets of `ifi_index` and `ifi_flags` in `struct ifinfomsg`, and its length.
const IFI_INDEX_OFFSET: usize = 4;
const IFI_FLAGS_OFFSET: usize = 8;
const IFINFOMSG_LENGTH: usize = 16;
/// The relevant flags: up, running, lower up.
const CARRIER_FLAGS: u32 = 0x1 | 0x40 | 0x1_0000;
/// `struct rtattr`: length (2 bytes), type (2).
const RTATTR_LENGTH: usize = 4;
/// `IFLA_IFNAME`.
const IFLA_IFNAME: u16 = 3;
/// The prefixes of the names of links to pods: those of CNI's plugins and of Docker, of Calico, of Cilium. In a container the
/// link to the cloud is such a link, too, but has another name.
const POD_LINK_PREFIXES: [&str; 3] = ["veth", "cali", "lxc"];

/// The known links. Notices do not say what has changed: `ifi_change` is 0 both where a cable was plugged or unplugged, and
/// where nothing relevant happened.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// The relevant flags by index.
    links: BTreeMap<u32, u32>,
}

impl Notices {
    /// Reports whether a notice in a datagram may concern the route to the cloud. Networks of containers come and go all the
    /// time; they change no default route and, mostly, no address of the node.
    pub(super) fn is_relevant(&mut self, mut datagram: &[u8]) -> bool {
        let mut matters = false;
        while let Some(header) = datagram.get(..NLMSGHDR_LENGTH) {
            let length = u32_at(header, 0).unwrap_or_default() as usize;
            // a cut datagram ends with a message that is longer than the rest of it
            let end = length.clamp(NLMSGHDR_LENGTH, datagram.len());
            // all notices are parsed: each may have the state of a link
            matters |= self.is_notice_relevant(
                u16_at(header, 4).unwrap_or_default(),
                &datagram[NLMSGHDR_LENGTH..end],
            );
            datagram = datagram
                .get(end.next_multiple_of(ALIGN)..)
                .unwrap_or_default();
        }
        matters
    }

    /// Forgets the links after notices were dropped.
    pub(super) fn forget(&mut self) {
        self.links.clear();
    }

    fn is_notice_relevant(&mut self, kind: u16, body: &[u8]) -> bool {
        let byte = |at: usize| body.get(at).copied();
        match kind {
            RTM_NEWADDR | RTM_DELADDR => byte(IFA_SCOPE_OFFSET) == Some(RT_SCOPE_UNIVERSE),
            RTM_NEWROUTE | RTM_DELROUTE => {
                byte(RTM_DST_LEN_OFFSET) == Some(0) && byte(RTM_TABLE_OFFSET) == Some(RT_TABLE_MAIN)
            }
            RTM_NEWLINK | RTM_DELLINK => self.is_link_relevant(kind, body),
            _ => false,
        }
    }

    fn is_link_relevant(&mut self, kind: u16, body: &[u8]) -> bool {
        let (Some(index), Some(flags)) = (
            u32_at(body, IFI_INDEX_OFFSET),
            u32_at(body, IFI_FLAGS_OFFSET),
        ) else {
            return false;
        };
        if is_of_pod(body) {
            return false;
        }
        let (before, now) = match kind {
            RTM_DELLINK => (self.links.remove(&index), 0),
            _ => (
                self.links.insert(index, flags & CARRIER_FLAGS),
                flags & CARRIER_FLAGS,
            ),
        };
        // an unknown link may have had any flags until now
        before != Some(now)
    }
}

/// Reports whether the notice is of a link between the node and a pod.
fn is_of_pod(body: &[u8]) -> bool {
    let mut rest = body.get(IFINFOMSG_LENGTH..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let end = usize::from(length).clamp(RTATTR_LENGTH, rest.len());
        if kind == IFLA_IFNAME {
            let name = &rest[RTATTR_LENGTH..end];
            return POD_LINK_PREFIXES
                .iter()
                .any(|start| name.starts_with(start.as_bytes()));
        }
        rest = rest.get(end.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    false
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: u32 = 0x1;
    const RUNNING: u32 = CARRIER_FLAGS;

    fn notice(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(NLMSGHDR_LENGTH + body.len()).unwrap();
        let mut bytes = [
            &length.to_ne_bytes()[..],
            &kind.to_ne_bytes(),
            &[0; 10],
            body,
        ]
        .concat();
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    /// Builds a notice of a link, which never says what has changed.
    fn link(kind: u16, index: u32, name: &str, flags: u32) -> Vec<u8> {
        let mut body = [
            &[0; 4][..],
            &index.to_ne_bytes(),
            &flags.to_ne_bytes(),
            &[0; 4],
        ]
        .concat();
        for (kind, value) in [(13_u16, "1234"), (IFLA_IFNAME, name)] {
            body.extend((u16::try_from(RTATTR_LENGTH + value.len() + 1).unwrap()).to_ne_bytes());
            body.extend([&kind.to_ne_bytes()[..], value.as_bytes(), &[0]].concat());
            body.resize(body.len().next_multiple_of(ALIGN), 0);
        }
        notice(kind, &body)
    }

    #[test]
    fn default_routes_and_global_addresses_matter() {
        let address = |scope| notice(RTM_NEWADDR, &[2, 24, 0, scope, 1, 0, 0, 0]);
        let route = |length, table| notice(RTM_DELROUTE, &[2, length, 0, 0, table, 0, 0, 0]);
        for (datagram, expected) in [
            (address(0), true),
            (address(253), false),
            (route(0, 254), true),
            (route(24, 254), false),
            (route(0, 255), false),
            (notice(28, &[0; 8]), false),
            ([route(24, 254), address(0)].concat(), true),
            (Vec::new(), false),
        ] {
            assert_eq!(
                Notices::default().is_relevant(&datagram),
                expected,
                "{datagram:?}"
            );
        }
    }

    #[test]
    fn a_link_is_relevant_when_its_carrier_changes() {
        let mut notices = Notices::default();
        let mut eth0 = |kind, flags| notices.is_relevant(&link(kind, 2, "eth0", flags | 0x1000));
        assert!(eth0(RTM_NEWLINK, RUNNING), "it may have been down");
        assert!(
            !eth0(RTM_NEWLINK, RUNNING),
            "something else of it has changed"
        );
        assert!(eth0(RTM_NEWLINK, UP), "the cable is pulled");
        assert!(eth0(RTM_NEWLINK, RUNNING), "and plugged in again");
        assert!(eth0(RTM_NEWLINK, 0));
        assert!(!eth0(RTM_DELLINK, 0), "it was down");
        assert!(eth0(RTM_NEWLINK, 0), "another one");
        assert!(!notices.is_relevant(&link(RTM_NEWLINK, 2, "eth0", 0)));
        notices.forget();
        assert!(notices.is_relevant(&link(RTM_NEWLINK, 2, "eth0", 0)));
        assert_eq!(notices.links.len(), 1);
        notices.is_relevant(&link(RTM_DELLINK, 2, "eth0", 0));
        assert!(notices.links.is_empty());
    }

    #[test]
    fn links_of_pods_do_not_matter() {
        let mut notices = Notices::default();
        for (kind, flags) in [
            (RTM_NEWLINK, 0),
            (RTM_NEWLINK, UP),
            (RTM_NEWLINK, RUNNING),
            (RTM_DELLINK, 0),
        ] {
            for name in ["veth1a2b3c4d", "cali12345678901", "lxc_health"] {
                assert!(!notices.is_relevant(&link(kind, 7, name, flags)), "{name}");
            }
        }
        assert!(notices.links.is_empty());
    }

    #[test]
    fn no_datagram_is_too_strange() {
        let whole = [
            notice(RTM_NEWROUTE, &[2, 24, 0, 0, 254]),
            link(RTM_NEWLINK, 1, "eth0", UP),
        ]
        .concat();
        for end in 0..whole.len() {
            Notices::default().is_relevant(&whole[..end]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 3, 15, 17, u8::MAX] {
                let mut strange = whole.clone();
                strange[at] = byte;
                Notices::default().is_relevant(&strange);
            }
        }
    }
}
