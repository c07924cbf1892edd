//! SRV records of the ports of a Service.

use hickory_resolver::proto::rr::{Name, RData, Record, rdata::SRV};

use super::{
    ENDPOINT_TTL, Outcome, Records, SERVICE_TTL, address_record,
    endpoints::{label, published_endpoints},
};
use crate::edgemesh::{
    dns::zone::Zone,
    snapshot::{Kind, Protocol, Service},
};

/// The weight that all targets of an answer share, as in CoreDNS.
const WEIGHT: usize = 100;

/// The DNS name of a Service.
pub(super) struct ServiceName<'a> {
    pub(super) zone: &'a Zone,
    /// The queried name, which owns the records.
    pub(super) owner: &'a Name,
    /// The Service's name, its namespace and `svc`.
    pub(super) labels: [&'a str; 3],
}

impl ServiceName<'_> {
    /// Returns the SRV records of the named port, or of all ports; `None` if there is no port of that name.
    pub(super) fn services(
        &self,
        service: &Service,
        asked: Option<(&str, Protocol)>,
    ) -> Option<Records> {
        let is_asked = |name: &str, protocol: Protocol| {
            asked.is_none_or(|asked| asked == (name, protocol) && !name.is_empty())
        };
        let [name, namespace, svc] = self.labels;
        let mut targets = Vec::new();
        match service.kind {
            Kind::Proxied => {
                let ports = service
                    .ports
                    .iter()
                    .filter(|port| is_asked(&port.name, port.protocol));
                for port in ports {
                    targets.push((
                        port.port,
                        self.zone.name(&self.labels)?,
                        service.cluster_ips.clone(),
                        SERVICE_TTL,
                    ));
                }
            }
            Kind::Headless => {
                for endpoint in published_endpoints(service) {
                    let target = self.zone.name(&[&label(endpoint), name, namespace, svc]);
                    let Some(target) = target else { continue };
                    let ports = endpoint
                        .ports
                        .iter()
                        .filter(|((name, protocol), _)| is_asked(name, *protocol));
                    targets.extend(ports.map(|(_, port)| {
                        (*port, target.clone(), vec![endpoint.address], ENDPOINT_TTL)
                    }));
                }
            }
            Kind::ExternalName(_) => {}
        }
        if targets.is_empty() {
            return None;
        }
        let weight = u16::try_from(WEIGHT / targets.len()).unwrap_or(1).max(1);
        let mut found = Records {
            outcome: Outcome::Data,
            ..Records::default()
        };
        let mut previous = None;
        for (port, target, addresses, ttl) in targets {
            // the ports of one target follow each other
            if previous.as_ref() != Some(&target) {
                let records = addresses
                    .into_iter()
                    .map(|address| address_record(&target, ttl, address));
                found.additionals.extend(records);
                previous = Some(target.clone());
            }
            let srv = SRV::new(0, weight, port, target);
            found
                .answers
                .push(Record::from_rdata(self.owner.clone(), ttl, RData::SRV(srv)));
        }
        Some(found)
    }
}
