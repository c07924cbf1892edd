//! Questions of a pod that forges their sources: addresses of its own network that nobody has. Their answers wait for ARP.

use testkit::{forged_udp, in_network_namespace, ip};

use super::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// Sources that are forged.
const NEIGHBOURS: u8 = 30;
/// Questions at a time: the server's socket takes so many.
const AT_A_TIME: usize = 200;
/// As often: their answers are more than the sockets of a machine have room for by default.
const ROUNDS: usize = 20;

#[test]
fn answers_for_neighbours_that_nobody_is_do_not_hold_up_others() {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        ip(&["link", "add", "pods", "type", "veth", "peer", "name", "far"]);
        ip(&["addr", "add", "10.99.0.1/24", "dev", "pods"]);
        ip(&["link", "set", "pods", "up"]);
        ip(&["link", "set", "far", "up"]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = start_at(SERVER, Vec::new(), "/nonexistent".into(), snapshot());
            let sources: Vec<_> = (0..NEIGHBOURS)
                .map(|number| forged_udp(Ipv4Addr::new(10, 99, 0, 30 + number)))
                .collect();
            let packet = question("web.shop.svc.cluster.local.", RecordType::A)
                .to_vec()
                .unwrap();
            for round in 0..ROUNDS {
                for source in sources.iter().cycle().take(AT_A_TIME) {
                    source.send_to(&packet, server.address).unwrap();
                }
                // ARP gives an address up after three seconds
                let asking = ask(server.address, "web.shop.svc.cluster.local.", RecordType::A);
                let reply = timeout(Duration::from_secs(2), asking).await;
                let reply = reply.unwrap_or_else(|_| panic!("no answer in round {round}"));
                assert_eq!(addresses(&reply), ["10.96.0.10"]);
            }
        });
    });
}
