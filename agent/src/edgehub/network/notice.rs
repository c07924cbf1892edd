//! What the kernel's notices say, as far as it matters. Pure.
//!
//! Source: netlink(7), rtnetlink(7), `linux/rtnetlink.h`, `linux/if_link.h`, `linux/if_addr.h`.

use std::collections::BTreeMap;

/// `struct nlmsghdr`: length (4 bytes), type (2), flags (2), sequence (4), port (4), in the machine's byte order.
const HEADER: usize = 16;
/// Messages begin at multiples of this, and attributes within them.
const ALIGN: usize = 4;

const NEW_LINK: u16 = 16;
const DELETED_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DELETED_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const DELETED_ROUTE: u16 = 25;

/// Position of `rtm_dst_len` in `struct rtmsg`, and of `rtm_table`.
const DESTINATION_LENGTH: usize = 1;
const TABLE: usize = 4;
/// The table that the machine's own traffic looks into.
const MAIN_TABLE: u8 = 254;
/// Position of `ifa_scope` in `struct ifaddrmsg`.
const SCOPE: usize = 3;
/// Addresses that are good on the whole network; those of a link or of the machine lead to no cloud.
const GLOBAL: u8 = 0;
/// Position of `ifi_index` in `struct ifinfomsg`, and of `ifi_flags`; its length.
const INDEX: usize = 4;
const FLAGS: usize = 8;
const LINK: usize = 16;
/// The flags that matter: up, running, lower up.
const CARRIER: u32 = 0x1 | 0x40 | 0x1_0000;
/// `struct rtattr`: length (2 bytes), type (2).
const ATTRIBUTE: usize = 4;
/// `IFLA_IFNAME`.
const NAME: u16 = 3;
/// What the names of links to pods begin with: those of CNI's plugins and of Docker, of Calico, of Cilium. In a container the way
/// to the cloud is such a link too, but is named otherwise.
const OF_PODS: [&str; 3] = ["veth", "cali", "lxc"];

/// What is known of the links. Their notices do not say what has changed: `ifi_change` is 0 where a cable was pulled or plugged
/// in, and where nothing did that matters here.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// By index: those of the flags that matter.
    links: BTreeMap<u32, u32>,
}

impl Notices {
    /// Whether one of the notices in a datagram may concern the way to the cloud. Networks of containers come and go all the
    /// time; what they change is neither a default route nor, mostly, an address of the node.
    pub(super) fn matter(&mut self, mut datagram: &[u8]) -> bool {
        let mut matters = false;
        while let Some(header) = datagram.get(..HEADER) {
            let length = u32_at(header, 0).unwrap_or_default() as usize;
            // a cut datagram ends with a message that is longer than what there is of it
            let end = length.clamp(HEADER, datagram.len());
            // all are looked at: each may say what a link is
            matters |= self.one_matters(u16_at(header, 4).unwrap_or_default(), &datagram[HEADER..end]);
            datagram = datagram.get(end.next_multiple_of(ALIGN)..).unwrap_or_default();
        }
        matters
    }

    /// Some were lost.
    pub(super) fn missed(&mut self) {
        self.links.clear();
    }

    fn one_matters(&mut self, kind: u16, body: &[u8]) -> bool {
        let byte = |at: usize| body.get(at).copied();
        match kind {
            NEW_ADDRESS | DELETED_ADDRESS => byte(SCOPE) == Some(GLOBAL),
            NEW_ROUTE | DELETED_ROUTE => {
                byte(DESTINATION_LENGTH) == Some(0) && byte(TABLE) == Some(MAIN_TABLE)
            }
            NEW_LINK | DELETED_LINK => self.link_matters(kind, body),
            _ => false,
        }
    }

    fn link_matters(&mut self, kind: u16, body: &[u8]) -> bool {
        let (Some(index), Some(flags)) = (u32_at(body, INDEX), u32_at(body, FLAGS)) else { return false };
        if is_of_pod(body) {
            return false;
        }
        let (before, now) = match kind {
            DELETED_LINK => (self.links.remove(&index), 0),
            _ => (self.links.insert(index, flags & CARRIER), flags & CARRIER),
        };
        // one that was not known may have been anything until now
        before != Some(now)
    }
}

/// Whether the notice is of a link between the node and a pod.
fn is_of_pod(body: &[u8]) -> bool {
    let mut rest = body.get(LINK..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let end = usize::from(length).clamp(ATTRIBUTE, rest.len());
        if kind == NAME {
            let name = &rest[ATTRIBUTE..end];
            return OF_PODS.iter().any(|start| name.starts_with(start.as_bytes()));
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
    const RUNNING: u32 = CARRIER;

    fn notice(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat();
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    /// A notice of a link, which never says what of it has changed.
    fn link(kind: u16, index: u32, name: &str, flags: u32) -> Vec<u8> {
        let mut body = [&[0; 4][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat();
        for (kind, value) in [(13_u16, "1234"), (NAME, name)] {
            body.extend((u16::try_from(ATTRIBUTE + value.len() + 1).unwrap()).to_ne_bytes());
            body.extend([&kind.to_ne_bytes()[..], value.as_bytes(), &[0]].concat());
            body.resize(body.len().next_multiple_of(ALIGN), 0);
        }
        notice(kind, &body)
    }

    #[test]
    fn default_routes_and_global_addresses_matter() {
        let address = |scope| notice(NEW_ADDRESS, &[2, 24, 0, scope, 1, 0, 0, 0]);
        let route = |length, table| notice(DELETED_ROUTE, &[2, length, 0, 0, table, 0, 0, 0]);
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
            assert_eq!(Notices::default().matter(&datagram), expected, "{datagram:?}");
        }
    }

    #[test]
    fn a_link_matters_when_its_carrier_comes_or_goes() {
        let mut notices = Notices::default();
        let mut eth0 = |kind, flags| notices.matter(&link(kind, 2, "eth0", flags | 0x1000));
        assert!(eth0(NEW_LINK, RUNNING), "it may have been down");
        assert!(!eth0(NEW_LINK, RUNNING), "something else of it has changed");
        assert!(eth0(NEW_LINK, UP), "the cable is pulled");
        assert!(eth0(NEW_LINK, RUNNING), "and plugged in again");
        assert!(eth0(NEW_LINK, 0));
        assert!(!eth0(DELETED_LINK, 0), "it was down");
        assert!(eth0(NEW_LINK, 0), "another one");
        assert!(!notices.matter(&link(NEW_LINK, 2, "eth0", 0)));
        notices.missed();
        assert!(notices.matter(&link(NEW_LINK, 2, "eth0", 0)));
        assert_eq!(notices.links.len(), 1);
        notices.matter(&link(DELETED_LINK, 2, "eth0", 0));
        assert!(notices.links.is_empty());
    }

    #[test]
    fn links_of_pods_do_not_matter() {
        let mut notices = Notices::default();
        for (kind, flags) in [(NEW_LINK, 0), (NEW_LINK, UP), (NEW_LINK, RUNNING), (DELETED_LINK, 0)] {
            for name in ["veth1a2b3c4d", "cali12345678901", "lxc_health"] {
                assert!(!notices.matter(&link(kind, 7, name, flags)), "{name}");
            }
        }
        assert!(notices.links.is_empty());
    }

    #[test]
    fn no_datagram_is_too_strange() {
        let whole = [notice(NEW_ROUTE, &[2, 24, 0, 0, 254]), link(NEW_LINK, 1, "eth0", UP)].concat();
        for end in 0..whole.len() {
            Notices::default().matter(&whole[..end]);
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 3, 15, 17, u8::MAX] {
                let mut strange = whole.clone();
                strange[at] = byte;
                Notices::default().matter(&strange);
            }
        }
    }
}
