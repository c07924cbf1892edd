//! What is answered of the cluster's names: pure.
//!
//! Source: "Kubernetes DNS-Based Service Discovery" 1.1.0; CoreDNS where that leaves it open: names of endpoints without a hostname,
//! `a-b-c-d.<ns>.pod`, SRV of a Service's own name, SOA. Namespaces are those that have a Service, since a node is told of no others; so
//! names of pods by address are answered whatever their namespace is called.

mod endpoints;
mod ports;

use std::net::IpAddr;

use hickory_resolver::proto::rr::{
    Name, RData, Record, RecordType,
    rdata::{A, AAAA, CNAME, PTR, TXT},
};

use self::{
    endpoints::{label, published},
    ports::Place,
};
use super::zone::Zone;
use crate::edgemesh::snapshot::{Kind, Protocol, Service, Snapshot};

/// How long a Service's own addresses count, seconds: kubeadm's setting of CoreDNS.
const SERVICE_TTL: u32 = 30;
/// How long an endpoint's address counts, seconds: they come and go. CoreDNS's own default.
const ENDPOINT_TTL: u32 = 5;
/// The version of the specification.
const VERSION: &str = "1.1.0";
/// As many ExternalNames may lead to each other; more are a circle.
const MAX_ALIASES: usize = 8;

/// What is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// This is known here.
    Own(Found),
    /// It is no name of the cluster's.
    Elsewhere,
    /// It is one, but Services have not been read yet.
    Unready,
}

/// Records, and what they mean.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The answers.
    pub(super) answers: Vec<Record>,
    /// Addresses of what the answers name.
    pub(super) additionals: Vec<Record>,
    /// What the answers end with.
    pub(super) end: End,
}

/// What answers end with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// With what was asked for.
    Data,
    /// The name has nothing of this type.
    NoData,
    /// There is no such name.
    #[default]
    NoName,
    /// With another name, which the node's resolvers know.
    Alias(Name),
}

/// What is answered when somebody asks for records of this type of a name.
pub(super) fn answer(snapshot: &Snapshot, zone: &Zone, name: &Name, kind: RecordType) -> Answer {
    let asked = Asked { snapshot, zone, kind };
    match zone.labels(name) {
        Some(_) if !snapshot.synced => Answer::Unready,
        Some(labels) => Answer::Own(asked.forward(name, &labels)),
        None => asked.reverse(name).map_or(Answer::Elsewhere, Answer::Own),
    }
}

/// A question without its name.
struct Asked<'a> {
    snapshot: &'a Snapshot,
    zone: &'a Zone,
    kind: RecordType,
}

impl Asked<'_> {
    /// Of a name in the cluster domain, and of the names there that it leads to.
    fn forward(&self, name: &Name, labels: &[String]) -> Found {
        let (mut owner, mut labels) = (name.clone(), labels.to_vec());
        let mut aliases = Vec::new();
        loop {
            let mut found = self.of_labels(&owner, &labels);
            let target = match &found.end {
                End::Alias(target) => target.clone(),
                _ => {
                    aliases.append(&mut found.answers);
                    return Found { answers: aliases, ..found };
                }
            };
            aliases.append(&mut found.answers);
            match self.zone.labels(&target) {
                Some(next) if aliases.len() < MAX_ALIASES => (owner, labels) = (target, next),
                Some(_) => return Found { answers: aliases, end: End::NoName, ..found },
                None => return Found { answers: aliases, ..found },
            }
        }
    }

    fn of_labels(&self, owner: &Name, labels: &[String]) -> Found {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        match labels.as_slice() {
            [] if self.kind == RecordType::SOA => {
                Found { answers: self.zone.soa().into_iter().collect(), end: End::Data, ..Found::default() }
            }
            // names that have others below them
            [] | ["svc" | "pod"] | [_, "pod"] => nothing(),
            ["dns-version"] => {
                self.if_kind(RecordType::TXT, owner, || RData::TXT(TXT::new(vec![VERSION.into()])))
            }
            [namespace, "svc"] => {
                let first = ((*namespace).to_owned(), String::new());
                let mut services = self.snapshot.services.range(first..);
                let is_there = services.next().is_some_and(|((other, _), _)| other == namespace);
                if is_there { nothing() } else { Found::default() }
            }
            [address, _, "pod"] => match pod_address(address) {
                Some(address) => self.addresses(owner, ENDPOINT_TTL, &[address]),
                None => Found::default(),
            },
            [own @ .., name, namespace, "svc"] => {
                let key = ((*namespace).to_owned(), (*name).to_owned());
                let place = Place { zone: self.zone, owner, names: [*name, *namespace, "svc"] };
                match (self.snapshot.services.get(&key), own) {
                    (Some(service), []) => self.of_service(&place, service),
                    (Some(service), own) => self.below_service(&place, service, own),
                    (None, _) => Found::default(),
                }
            }
            _ => Found::default(),
        }
    }

    fn of_service(&self, place: &Place<'_>, service: &Service) -> Found {
        match &service.kind {
            Kind::ExternalName(target) => self.alias(place.owner, target),
            _ if self.kind == RecordType::SRV => place.services(service, None).unwrap_or_else(nothing),
            Kind::Proxied => self.addresses(place.owner, SERVICE_TTL, &service.cluster_ips),
            Kind::Headless => {
                let mut all: Vec<IpAddr> = published(service).map(|endpoint| endpoint.address).collect();
                // they stand by their addresses, of which two nodes may have the same
                all.dedup();
                if all.is_empty() {
                    Found::default()
                } else {
                    self.addresses(place.owner, ENDPOINT_TTL, &all)
                }
            }
        }
    }

    /// `_port._protocol`, `_protocol`, or an endpoint of a headless Service.
    fn below_service(&self, place: &Place<'_>, service: &Service, own: &[&str]) -> Found {
        match own {
            [port, protocol] => {
                let (Some(port), Some(protocol)) = (port.strip_prefix('_'), protocol_of(protocol)) else {
                    return Found::default();
                };
                match place.services(service, Some((port, protocol))) {
                    Some(found) if self.kind == RecordType::SRV => found,
                    Some(_) => nothing(),
                    None => Found::default(),
                }
            }
            [protocol] if protocol.starts_with('_') => {
                let Some(protocol) = protocol_of(protocol) else { return Found::default() };
                let named = |port: &crate::edgemesh::snapshot::Port| {
                    port.protocol == protocol && !port.name.is_empty()
                };
                if service.ports.iter().any(named) { nothing() } else { Found::default() }
            }
            [hostname] if service.kind == Kind::Headless => {
                let named = published(service).filter(|endpoint| label(endpoint) == *hostname);
                let all: Vec<IpAddr> = named.map(|endpoint| endpoint.address).collect();
                if all.is_empty() {
                    Found::default()
                } else {
                    self.addresses(place.owner, ENDPOINT_TTL, &all)
                }
            }
            _ => Found::default(),
        }
    }

    /// A name of addresses backwards; `None` where it is none that belongs to a Service.
    fn reverse(&self, name: &Name) -> Option<Found> {
        let network = name.parse_arpa_name().ok()?;
        let address = network.addr();
        if network.prefix_len() != network.max_prefix_len() {
            return None;
        }
        let mut targets = Vec::new();
        for ((namespace, service_name), service) in &self.snapshot.services {
            let names = [service_name.as_str(), namespace.as_str(), "svc"];
            if service.cluster_ips.contains(&address) {
                targets = self.zone.name(&names).map(|target| (target, SERVICE_TTL)).into_iter().collect();
                break;
            }
            if service.kind == Kind::Headless {
                let own = published(service).filter(|endpoint| endpoint.address == address);
                let named = own
                    .filter_map(|endpoint| self.zone.name(&[&label(endpoint), names[0], names[1], names[2]]));
                targets.extend(named.map(|target| (target, ENDPOINT_TTL)));
            }
        }
        match self.kind {
            _ if targets.is_empty() => None,
            RecordType::PTR => {
                let record = |(target, ttl)| Record::from_rdata(name.clone(), ttl, RData::PTR(PTR(target)));
                Some(data(targets.into_iter().map(record).collect()))
            }
            _ => Some(nothing()),
        }
    }

    fn alias(&self, owner: &Name, target: &str) -> Found {
        let Ok(mut target) = Name::from_ascii(target) else { return nothing() };
        target.set_fqdn(true);
        let answers =
            vec![Record::from_rdata(owner.clone(), SERVICE_TTL, RData::CNAME(CNAME(target.clone())))];
        let end = if self.kind == RecordType::CNAME { End::Data } else { End::Alias(target) };
        Found { answers, end, ..Found::default() }
    }

    /// Those of the family that is asked for.
    fn addresses(&self, owner: &Name, ttl: u32, all: &[IpAddr]) -> Found {
        let asked = all.iter().map(|address| address_record(owner, ttl, *address));
        data(asked.filter(|record| record.record_type() == self.kind).collect())
    }

    fn if_kind(&self, kind: RecordType, owner: &Name, make: impl FnOnce() -> RData) -> Found {
        if self.kind != kind {
            return nothing();
        }
        data(vec![Record::from_rdata(owner.clone(), SERVICE_TTL, make())])
    }
}

fn nothing() -> Found {
    Found { end: End::NoData, ..Found::default() }
}

fn data(answers: Vec<Record>) -> Found {
    let end = if answers.is_empty() { End::NoData } else { End::Data };
    Found { answers, end, ..Found::default() }
}

fn address_record(owner: &Name, ttl: u32, address: IpAddr) -> Record {
    let address = match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    };
    Record::from_rdata(owner.clone(), ttl, address)
}

/// The address that a name of a pod spells.
fn pod_address(label: &str) -> Option<IpAddr> {
    let is_v4 = label.bytes().filter(|byte| *byte == b'-').count() == 3 && !label.contains("--");
    if is_v4 && let Ok(address) = label.replace('-', ".").parse() {
        return Some(IpAddr::V4(address));
    }
    label.replace('-', ":").parse().ok().map(IpAddr::V6)
}

fn protocol_of(label: &str) -> Option<Protocol> {
    match label {
        "_tcp" => Some(Protocol::Tcp),
        "_udp" => Some(Protocol::Udp),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
