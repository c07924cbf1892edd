//! Strangers' datagrams at the relay's server, and how many of them are answered.

use std::{
    net::{Ipv4Addr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use objectstore::MemoryStore;
use quinn::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, ServerConfig, TokioRuntime,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls::RootCertStore;
use testkit::{forged_udp, in_network_namespace, ip, within, within_timeout};
use tokio_util::sync::CancellationToken;
use wire::relay::ALPN;

use super::*;
use crate::{
    controllers::namespace_defaults,
    faults::Faults,
    hub::Limits,
    kinds,
    listeners::bind_udp,
    pki::{NodeCertificates, Pki, Trust, rejection_reports},
    relay::{RelayServer, Relays},
};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Sources that are forged.
const NEIGHBOURS: u8 = 60;
/// Datagrams at a time, each of another connection.
const AT_A_TIME: usize = 300;

/// A client without a certificate that trusts nobody.
fn stranger() -> ClientConfig {
    let mut tls = rustls::ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
}

/// The first datagrams of connections, as clients send them.
async fn first_datagrams(count: usize) -> Vec<Vec<u8>> {
    let recorder = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let client = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let mut all = Vec::new();
    while all.len() < count {
        let connecting = client
            .connect_with(stranger(), recorder.local_addr().unwrap(), "cloud")
            .unwrap();
        let mut datagram = vec![0; 2000];
        let length = within("a datagram", recorder.recv(&mut datagram))
            .await
            .unwrap();
        datagram.truncate(length);
        all.push(datagram);
        drop(connecting);
    }
    all
}

/// The keys of a cloud.
async fn trust(faults: &Faults) -> Trust {
    let api = apiserver::builder(MemoryStore::new()).registry(kinds::registry());
    let client = api.build().client("default");
    namespace_defaults::ensure_initial(&client).await.unwrap();
    let names = ["cloud".to_owned()];
    let pki = Pki::ensure(&client, &names).await.unwrap();
    let certificates = NodeCertificates::new(MemoryStore::new());
    Trust::new(
        &pki,
        &names,
        Duration::ZERO,
        rejection_reports().0,
        faults,
        certificates,
    )
    .unwrap()
}

/// A machine of the cloud's own network forges its neighbours' addresses: the answers wait for ARP.
#[test]
fn answers_for_neighbours_that_nobody_is_keep_no_node_out() {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        ip(&["link", "add", "lan", "type", "veth", "peer", "name", "far"]);
        ip(&["addr", "add", "10.99.0.1/24", "dev", "lan"]);
        ip(&["link", "set", "lan", "up"]);
        ip(&["link", "set", "far", "up"]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let faults = Faults::new(0);
            let (trust, limits) = (trust(&faults).await, Limits::default());
            let server = RelayServer::bind(
                (SERVER, 0).into(),
                trust,
                limits.listener(),
                Relays::default(),
                &faults,
            )
            .unwrap();
            let (address, stop) = (server.local_addr(), CancellationToken::new());
            let _serving = tokio::spawn(server.run(stop.clone()));
            let _stop = stop.drop_guard();
            let forged: Vec<UdpSocket> = (0..NEIGHBOURS)
                .map(|number| forged_udp(Ipv4Addr::new(10, 99, 0, 30 + number)))
                .collect();
            let node = Endpoint::client((SERVER, 0).into()).unwrap();
            for round in 0..4 {
                let datagrams = first_datagrams(AT_A_TIME).await;
                for (datagram, source) in datagrams.iter().zip(forged.iter().cycle()) {
                    source.send_to(datagram, address).unwrap();
                }
                // ARP gives an address up after three seconds
                let connecting = node.connect_with(stranger(), address, "cloud").unwrap();
                let what = format!("an answer in round {round}");
                let answered = within_timeout(Duration::from_secs(2), &what, connecting).await;
                // it has seen the server's certificate, which it does not trust
                assert!(
                    matches!(answered, Err(ConnectionError::TransportError(_))),
                    "{answered:?}"
                );
            }
        });
    });
}

#[tokio::test]
async fn more_strangers_than_are_asked_for_their_address_get_no_answer() {
    const BURST: u32 = 8;
    const ALL: usize = 40;
    let tls = (*trust(&Faults::new(0)).await.hub()).clone();
    let server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let socket = bind_udp(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let endpoint = Endpoint::new(
        EndpointConfig::default(),
        Some(server),
        socket,
        Arc::new(TokioRuntime),
    )
    .unwrap();
    let mut validation = AddressValidation {
        retries: Rate::new(1, BURST, Instant::now()),
    };
    let strangers: Vec<_> = (0..ALL)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    for (datagram, stranger) in first_datagrams(ALL).await.iter().zip(&strangers) {
        stranger.set_nonblocking(true).unwrap();
        stranger.send_to(datagram, address).unwrap();
        let incoming = within("a connection", endpoint.accept()).await.unwrap();
        assert!(validation.admit(incoming, MAX_UNVALIDATED).is_none());
    }
    endpoint.close(0_u8.into(), b"");
    within("the end of the endpoint", endpoint.wait_idle()).await;
    let is_answered = |stranger: &&UdpSocket| stranger.recv(&mut [0; 2000]).is_ok();
    let answered = strangers.iter().filter(is_answered).count();
    assert_eq!(u32::try_from(answered).unwrap(), BURST);
}
