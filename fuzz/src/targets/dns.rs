//! DNS: packets of clients, answered for a small cluster.

use std::sync::LazyLock;

use agent::edgemesh::{
    dns::{Zone, answer},
    snapshot::{Kind, Service, Snapshot},
};

/// The longest response in a datagram, in bytes.
const LONGEST: usize = 1232;

static CLUSTER: LazyLock<(Snapshot, Zone)> = LazyLock::new(|| {
    let web = Service {
        cluster_ips: vec![[10, 96, 0, 10].into()],
        ..Service::default()
    };
    let external = Service {
        kind: Kind::ExternalName("web.shop.svc.cluster.local".into()),
        ..Service::default()
    };
    let services = [("web", web), ("ext", external)];
    let services = services.map(|(name, service)| (("shop".to_owned(), name.to_owned()), service));
    (
        Snapshot {
            services: services.into(),
            synced: true,
        },
        Zone::new("cluster.local").expect("a domain"),
    )
});

pub(super) fn packet(bytes: &[u8]) {
    let (snapshot, zone) = &*CLUSTER;
    if let Some(reply) = answer(snapshot, zone, bytes) {
        assert!(reply.len() <= LONGEST, "{} bytes", reply.len());
        assert_eq!(reply.get(..2), bytes.get(..2), "another question's id");
        assert!(reply[2] & 0x80 != 0, "a question is no answer");
    }
}

pub(super) fn packets() -> Vec<Vec<u8>> {
    let question = |name: &str, kind: u8| {
        let mut packet = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            packet.push(u8::try_from(label.len()).expect("a short label"));
            packet.extend(label.as_bytes());
        }
        packet.extend([0, 0, kind, 0, 1]);
        packet
    };
    let mut edns = question("web.shop.svc.cluster.local", 1);
    edns[11] = 1;
    edns.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    vec![
        edns,
        question("web.shop.svc.cluster.local", 28),
        question("ext.shop.svc.cluster.local", 1),
        question("_http._tcp.web.shop.svc.cluster.local", 33),
        question("10.0.96.10.in-addr.arpa", 12),
        question("cluster.local", 6),
        question("www.example.com", 255),
    ]
}
