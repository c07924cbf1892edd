//! What there is to give out. Pure.

use std::net::Ipv4Addr;

/// The addresses of services, `10.96.0.0/16`: kubeadm's default.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const PREFIX: u32 = 16;
/// The first addresses are given out last: they are for those who ask for one (KEP-3070).
const STATIC_ADDRESSES: u32 = 256;
/// The ports that services get on nodes: the default of `--service-node-port-range`.
const PORTS: (u16, u16) = (30_000, 32_767);
/// As with addresses (KEP-3668).
const STATIC_PORTS: u16 = 86;

/// Something of which there is only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    Address(Ipv4Addr),
    Port(u16),
}

/// How many addresses follow the network's own.
const MAX_OFFSET: u32 = (1 << (32 - PREFIX)) - 1;

fn nth(offset: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK.to_bits() + offset)
}

/// Why this address cannot be allocated: it is the network's own or its broadcast address.
pub(super) fn refuses_address(text: &str) -> Option<String> {
    let offset = text
        .parse::<Ipv4Addr>()
        .ok()
        .and_then(|ip| ip.to_bits().checked_sub(NETWORK.to_bits()));
    let fits = offset.is_some_and(|offset| offset > 0 && offset < MAX_OFFSET);
    (!fits).then(|| {
        format!(
            "the provided IP ({text}) is not in the valid range. The range of valid IPs is {NETWORK}/{PREFIX}"
        )
    })
}

/// The same for a port.
pub(super) fn refuses_port(port: i64) -> Option<String> {
    let (first, last) = PORTS;
    let fits = (i64::from(first)..=i64::from(last)).contains(&port);
    (!fits).then(|| {
        format!(
            "provided port is not in the valid range. The range of valid ports is {first}-{last}"
        )
    })
}

/// Any address of those that nobody asks for.
pub(super) fn any_address() -> Claim {
    Claim::Address(nth(clock::rng().random_range(STATIC_ADDRESSES..MAX_OFFSET)))
}

/// Any port of those that nobody asks for.
pub(super) fn any_port() -> Claim {
    Claim::Port(clock::rng().random_range(PORTS.0 + STATIC_PORTS..=PORTS.1))
}

/// All addresses, those that nobody asks for first.
pub(super) fn addresses() -> impl Iterator<Item = Claim> {
    (STATIC_ADDRESSES..MAX_OFFSET)
        .chain(1..STATIC_ADDRESSES)
        .map(|offset| Claim::Address(nth(offset)))
}

/// All ports, those that nobody asks for first.
pub(super) fn ports() -> impl Iterator<Item = Claim> {
    let (first, last) = PORTS;
    (first + STATIC_PORTS..=last)
        .chain(first..first + STATIC_PORTS)
        .map(Claim::Port)
}
