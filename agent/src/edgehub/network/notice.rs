//! What the kernel's notices say, as far as it matters. Pure.
//!
//! Source: netlink(7), rtnetlink(7), `linux/rtnetlink.h`, `linux/if_addr.h`.

/// `struct nlmsghdr`: length (4 bytes), type (2), flags (2), sequence (4), port (4), in the machine's byte order.
const HEADER: usize = 16;
/// Messages begin at multiples of this.
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
/// Position of `ifi_change` in `struct ifinfomsg`, and the flags of which a change matters: up, running, lower up.
const CHANGE: usize = 12;
const CARRIER: u32 = 0x1 | 0x40 | 0x1_0000;

/// Whether one of the notices in a datagram may concern the way to the cloud. Networks of containers come and go all the
/// time; what they change is neither a default route nor, mostly, an address of the node.
pub(super) fn matters(mut datagram: &[u8]) -> bool {
    while let Some(header) = datagram.get(..HEADER) {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        // a cut datagram ends with a message that is longer than what there is of it
        let end = length.clamp(HEADER, datagram.len());
        if one_matters(kind, &datagram[HEADER..end]) {
            return true;
        }
        datagram = datagram.get(end.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    false
}

fn one_matters(kind: u16, body: &[u8]) -> bool {
    let byte = |at: usize| body.get(at).copied();
    match kind {
        NEW_ADDRESS | DELETED_ADDRESS => byte(SCOPE) == Some(GLOBAL),
        NEW_ROUTE | DELETED_ROUTE => byte(DESTINATION_LENGTH) == Some(0) && byte(TABLE) == Some(MAIN_TABLE),
        NEW_LINK | DELETED_LINK => {
            let change = body
                .get(CHANGE..CHANGE + 4)
                .map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            change.is_some_and(|change| change & CARRIER != 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat();
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    fn link(change: u32) -> Vec<u8> {
        notice(NEW_LINK, &[&[0; 12][..], &change.to_ne_bytes()].concat())
    }

    #[test]
    fn default_routes_global_addresses_and_carriers_matter() {
        let address = |scope| notice(NEW_ADDRESS, &[2, 24, 0, scope, 1, 0, 0, 0]);
        let route = |length, table| notice(DELETED_ROUTE, &[2, length, 0, 0, table, 0, 0, 0]);
        for (datagram, expected) in [
            (address(0), true),
            (address(253), false),
            (route(0, 254), true),
            (route(24, 254), false),
            (route(0, 255), false),
            (link(0x1), true),
            (link(0x100), false),
            (notice(28, &[0; 8]), false),
            ([route(24, 254), address(0)].concat(), true),
            (Vec::new(), false),
        ] {
            assert_eq!(matters(&datagram), expected, "{datagram:?}");
        }
    }

    #[test]
    fn no_datagram_is_too_strange() {
        let whole = [notice(NEW_ROUTE, &[2, 24, 0, 0, 254]), link(0x100)].concat();
        for end in 0..whole.len() {
            matters(&whole[..end]);
        }
        for length in [0_u32, 1, 15, 17, u32::MAX] {
            let mut strange = whole.clone();
            strange[..4].copy_from_slice(&length.to_ne_bytes());
            matters(&strange);
        }
    }
}
