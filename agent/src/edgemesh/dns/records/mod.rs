//! The answers for the cluster's names; pure.
//!
//! Source: "Kubernetes DNS-Based Service Discovery" 1.1.0; CoreDNS where that leaves it open: names of endpoints without a hostname,
//! `a-b-c-d.<ns>.pod`, SRV of a Service's own name, SOA. A node knows only the namespaces that have a Service; so names of pods by address
//! are answered whatever their namespace.

mod endpoints;
mod ports;

use std::net::IpAddr;

use hickory_resolver::proto::rr::{
    Name, RData, Record, RecordType,
    rdata::{A, AAAA, CNAME, PTR, TXT},
};

use self::{
    endpoints::{label, published_endpoints},
    ports::ServiceName,
};
use super::zone::Zone;
use crate::edgemesh::snapshot::{Kind, Protocol, Service, Snapshot};

/// The TTL of a Service's own addresses, seconds: kubeadm's setting of CoreDNS.
const SERVICE_TTL: u32 = 30;
/// The TTL of an endpoint's address, seconds: CoreDNS's default.
const ENDPOINT_TTL: u32 = 5;
/// The version of the specification.
const VERSION: &str = "1.1.0";
/// How many ExternalNames may point to each other; more count as a loop.
const MAX_ALIASES: usize = 8;

/// How a query is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// With these records.
    Authoritative(Records),
    /// By the node's resolvers: the name is not the cluster's.
    Forward,
    /// Not yet: the name is the cluster's, but Services are not known yet.
    NotSynced,
}

/// The records of an answer, and its outcome.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The answers.
    pub(super) answers: Vec<Record>,
    /// The addresses of names in the answers.
    pub(super) additionals: Vec<Record>,
    /// The outcome.
    pub(super) outcome: Outcome,
}

/// The outcome of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The queried records exist.
    Data,
    /// The name exists, but has no records of the type (NODATA).
    NoData,
    /// The name does not exist (NXDOMAIN).
    #[default]
    NoName,
    /// The name is an alias of this one, which the node's resolvers have to resolve.
    Alias(Name),
}

/// Answers a query for the records of a name of this type.
pub(super) fn answer(snapshot: &Snapshot, zone: &Zone, name: &Name, kind: RecordType) -> Answer {
    let lookup = Lookup {
        snapshot,
        zone,
        kind,
    };
    match zone.labels(name) {
        Some(_) if !snapshot.synced => Answer::NotSynced,
        Some(labels) => Answer::Authoritative(lookup.forward(name, &labels)),
        None => lookup
            .reverse(name)
            .map_or(Answer::Forward, Answer::Authoritative),
    }
}

/// A query without its name.
struct Lookup<'a> {
    snapshot: &'a Snapshot,
    zone: &'a Zone,
    kind: RecordType,
}

impl Lookup<'_> {
    /// Answers for a name in the cluster domain, following aliases within the domain.
    fn forward(&self, name: &Name, labels: &[String]) -> Records {
        let (mut owner, mut labels) = (name.clone(), labels.to_vec());
        let mut aliases = Vec::new();
        loop {
            let mut found = self.of_labels(&owner, &labels);
            let target = match &found.outcome {
                Outcome::Alias(target) => target.clone(),
                _ => {
                    aliases.append(&mut found.answers);
                    return Records {
                        answers: aliases,
                        ..found
                    };
                }
            };
            aliases.append(&mut found.answers);
            match self.zone.labels(&target) {
                Some(next) if aliases.len() < MAX_ALIASES => (owner, labels) = (target, next),
                Some(_) => {
                    return Records {
                        answers: aliases,
                        outcome: Outcome::NoName,
                        ..found
                    };
                }
                None => {
                    return Records {
                        answers: aliases,
                        ..found
                    };
                }
            }
        }
    }

    fn of_labels(&self, owner: &Name, labels: &[String]) -> Records {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        match labels.as_slice() {
            [] if self.kind == RecordType::SOA => Records {
                answers: self.zone.soa().into_iter().collect(),
                outcome: Outcome::Data,
                ..Records::default()
            },
            // names that exist only since others are below them
            [] | ["svc" | "pod"] | [_, "pod"] => no_data(),
            ["dns-version"] => self.if_kind(RecordType::TXT, owner, || {
                RData::TXT(TXT::new(vec![VERSION.into()]))
            }),
            [namespace, "svc"] => {
                let first = ((*namespace).to_owned(), String::new());
                let mut services = self.snapshot.services.range(first..);
                let is_there = services
                    .next()
                    .is_some_and(|((other, _), _)| other == namespace);
                if is_there {
                    no_data()
                } else {
                    Records::default()
                }
            }
            [address, _, "pod"] => match pod_address(address) {
                Some(address) => self.addresses(owner, ENDPOINT_TTL, &[address]),
                None => Records::default(),
            },
            [own @ .., name, namespace, "svc"] => {
                let key = ((*namespace).to_owned(), (*name).to_owned());
                let service_name = ServiceName {
                    zone: self.zone,
                    owner,
                    labels: [*name, *namespace, "svc"],
                };
                match (self.snapshot.services.get(&key), own) {
                    (Some(service), []) => self.of_service(&service_name, service),
                    (Some(service), own) => self.below_service(&service_name, service, own),
                    (None, _) => Records::default(),
                }
            }
            _ => Records::default(),
        }
    }

    fn of_service(&self, service_name: &ServiceName<'_>, service: &Service) -> Records {
        match &service.kind {
            Kind::ExternalName(target) => self.alias(service_name.owner, target),
            _ if self.kind == RecordType::SRV => {
                service_name.services(service, None).unwrap_or_else(no_data)
            }
            Kind::Proxied => self.addresses(service_name.owner, SERVICE_TTL, &service.cluster_ips),
            Kind::Headless => {
                let mut all: Vec<IpAddr> = published_endpoints(service)
                    .map(|endpoint| endpoint.address)
                    .collect();
                // the endpoints are sorted by address, and pods of two nodes may have the same address
                all.dedup();
                if all.is_empty() {
                    Records::default()
                } else {
                    self.addresses(service_name.owner, ENDPOINT_TTL, &all)
                }
            }
        }
    }

    /// Answers for `_port._protocol`, `_protocol`, or an endpoint of a headless Service.
    fn below_service(
        &self,
        service_name: &ServiceName<'_>,
        service: &Service,
        own: &[&str],
    ) -> Records {
        match own {
            [port, protocol] => {
                let (Some(port), Some(protocol)) = (port.strip_prefix('_'), protocol_of(protocol))
                else {
                    return Records::default();
                };
                match service_name.services(service, Some((port, protocol))) {
                    Some(found) if self.kind == RecordType::SRV => found,
                    Some(_) => no_data(),
                    None => Records::default(),
                }
            }
            [protocol] if protocol.starts_with('_') => {
                let Some(protocol) = protocol_of(protocol) else {
                    return Records::default();
                };
                let named = |port: &crate::edgemesh::snapshot::Port| {
                    port.protocol == protocol && !port.name.is_empty()
                };
                if service.ports.iter().any(named) {
                    no_data()
                } else {
                    Records::default()
                }
            }
            [hostname] if service.kind == Kind::Headless => {
                let named =
                    published_endpoints(service).filter(|endpoint| label(endpoint) == *hostname);
                let all: Vec<IpAddr> = named.map(|endpoint| endpoint.address).collect();
                if all.is_empty() {
                    Records::default()
                } else {
                    self.addresses(service_name.owner, ENDPOINT_TTL, &all)
                }
            }
            _ => Records::default(),
        }
    }

    /// Answers for a reverse name (`…in-addr.arpa`); `None` if it is not of a Service or of its endpoints.
    fn reverse(&self, name: &Name) -> Option<Records> {
        let network = name.parse_arpa_name().ok()?;
        let address = network.addr();
        if network.prefix_len() != network.max_prefix_len() {
            return None;
        }
        let mut targets = Vec::new();
        for ((namespace, service_name), service) in &self.snapshot.services {
            let names = [service_name.as_str(), namespace.as_str(), "svc"];
            if service.cluster_ips.contains(&address) {
                targets = self
                    .zone
                    .name(&names)
                    .map(|target| (target, SERVICE_TTL))
                    .into_iter()
                    .collect();
                break;
            }
            if service.kind == Kind::Headless {
                let own =
                    published_endpoints(service).filter(|endpoint| endpoint.address == address);
                let named = own.filter_map(|endpoint| {
                    self.zone
                        .name(&[&label(endpoint), names[0], names[1], names[2]])
                });
                targets.extend(named.map(|target| (target, ENDPOINT_TTL)));
            }
        }
        match self.kind {
            _ if targets.is_empty() => None,
            RecordType::PTR => {
                let record =
                    |(target, ttl)| Record::from_rdata(name.clone(), ttl, RData::PTR(PTR(target)));
                Some(data(targets.into_iter().map(record).collect()))
            }
            _ => Some(no_data()),
        }
    }

    fn alias(&self, owner: &Name, target: &str) -> Records {
        let Ok(mut target) = Name::from_ascii(target) else {
            return no_data();
        };
        target.set_fqdn(true);
        let answers = vec![Record::from_rdata(
            owner.clone(),
            SERVICE_TTL,
            RData::CNAME(CNAME(target.clone())),
        )];
        let outcome = if self.kind == RecordType::CNAME {
            Outcome::Data
        } else {
            Outcome::Alias(target)
        };
        Records {
            answers,
            outcome,
            ..Records::default()
        }
    }

    /// Answers with the addresses of the queried family.
    fn addresses(&self, owner: &Name, ttl: u32, all: &[IpAddr]) -> Records {
        let asked = all
            .iter()
            .map(|address| address_record(owner, ttl, *address));
        data(
            asked
                .filter(|record| record.record_type() == self.kind)
                .collect(),
        )
    }

    fn if_kind(&self, kind: RecordType, owner: &Name, make: impl FnOnce() -> RData) -> Records {
        if self.kind != kind {
            return no_data();
        }
        data(vec![Record::from_rdata(owner.clone(), SERVICE_TTL, make())])
    }
}

/// No records, of a name that exists.
fn no_data() -> Records {
    Records {
        outcome: Outcome::NoData,
        ..Records::default()
    }
}

fn data(answers: Vec<Record>) -> Records {
    let outcome = if answers.is_empty() {
        Outcome::NoData
    } else {
        Outcome::Data
    };
    Records {
        answers,
        outcome,
        ..Records::default()
    }
}

fn address_record(owner: &Name, ttl: u32, address: IpAddr) -> Record {
    let address = match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    };
    Record::from_rdata(owner.clone(), ttl, address)
}

/// Parses the address in the first label of a pod's name.
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
