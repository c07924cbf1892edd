//! The server over real sockets, with resolvers that are part of the test.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
};

use clock::Instant;
use hickory_resolver::proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata::A},
};
use parking_lot::Mutex;
use testkit::{WAIT_TIMEOUT, within};
use tokio::sync::watch;

use super::*;
use crate::edgemesh::{
    dns::{Zone, tests::snapshot},
    snapshot::Snapshot,
};

mod forged;
mod outside;

/// A server that runs until the test ends.
struct Running {
    address: SocketAddr,
    publish: watch::Sender<Arc<Snapshot>>,
    shutdown: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn start(upstreams: Vec<SocketAddr>) -> Running {
    start_with(upstreams, "/nonexistent".into(), snapshot()).await
}

async fn start_with(
    upstreams: Vec<SocketAddr>,
    resolv_conf: std::path::PathBuf,
    of: Snapshot,
) -> Running {
    start_at(Ipv4Addr::LOCALHOST, upstreams, resolv_conf, of)
}

fn start_at(
    address: Ipv4Addr,
    upstreams: Vec<SocketAddr>,
    resolv_conf: std::path::PathBuf,
    of: Snapshot,
) -> Running {
    let (publish, snapshots) = watch::channel(Arc::new(of));
    let listening = Listening::bind((address, 0).into(), |_| Ok::<_, Infallible>(())).unwrap();
    let address = listening.address().unwrap();
    let config = Config {
        domain: Zone::new("cluster.local").unwrap(),
        upstreams,
        resolv_conf,
    };
    let mut server = Server::new(config, listening, snapshots).unwrap();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move { server.run(Heartbeat::unmonitored(), stop).await });
    Running {
        address,
        publish,
        shutdown,
    }
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(clock::rng().random(), MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.metadata.recursion_desired = true;
    message
}

async fn ask(server: SocketAddr, name: &str, kind: RecordType) -> Message {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let question = question(name, kind);
    socket
        .send_to(&question.to_vec().unwrap(), server)
        .await
        .unwrap();
    let mut reply = [0; 4096];
    let (length, _) = within("an answer", socket.recv_from(&mut reply))
        .await
        .unwrap();
    let reply = Message::from_vec(&reply[..length]).unwrap();
    assert_eq!(reply.metadata.id, question.metadata.id);
    reply
}

async fn ask_over(stream: &mut TcpStream, name: &str, kind: RecordType) -> Message {
    let bytes = question(name, kind).to_vec().unwrap();
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    stream
        .write_all(&[&length[..], &bytes].concat())
        .await
        .unwrap();
    let length = within("an answer", stream.read_u16()).await.unwrap();
    let mut reply = vec![0; usize::from(length)];
    stream.read_exact(&mut reply).await.unwrap();
    Message::from_vec(&reply).unwrap()
}

fn addresses(reply: &Message) -> Vec<String> {
    let mut all: Vec<String> = reply
        .answers
        .iter()
        .map(|record| record.data.to_string())
        .collect();
    all.sort();
    all
}

/// A resolver that knows `www.example.com`, and which names it was asked for.
async fn resolver() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    tokio::spawn(async move {
        let mut packet = [0; 4096];
        while let Ok((length, client)) = socket.recv_from(&mut packet).await {
            let question = Message::from_vec(&packet[..length]).unwrap();
            let query = question.queries[0].clone();
            seen.lock().push(query.name().to_ascii());
            let mut reply = Message::response(question.metadata.id, OpCode::Query);
            reply.metadata.recursion_available = true;
            if query.name().to_ascii() == "www.example.com." && query.query_type() == RecordType::A
            {
                let address = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
                reply.add_answer(Record::from_rdata(query.name().clone(), 60, address));
            } else {
                reply.metadata.response_code = ResponseCode::NXDomain;
            }
            reply.add_query(query);
            let _ = socket.send_to(&reply.to_vec().unwrap(), client).await;
        }
    });
    (address, asked)
}

#[tokio::test]
async fn the_clusters_names_are_answered_and_never_asked_of_others() {
    let (upstream, asked) = resolver().await;
    let server = start(vec![upstream]).await;
    let web = ask(server.address, "web.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(addresses(&web), ["10.96.0.10"]);
    let none = ask(
        server.address,
        "none.shop.svc.cluster.local.",
        RecordType::A,
    )
    .await;
    assert_eq!(none.metadata.response_code, ResponseCode::NXDomain);
    let searched = ask(
        server.address,
        "www.example.com.shop.svc.cluster.local.",
        RecordType::A,
    )
    .await;
    assert_eq!(searched.metadata.response_code, ResponseCode::NXDomain);
    let external = ask(server.address, "ext.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(addresses(&external), ["192.0.2.1", "www.example.com."]);
    let asked: BTreeSet<String> = asked
        .lock()
        .iter()
        .filter(|name| !name.contains("probe"))
        .cloned()
        .collect();
    assert_eq!(asked, BTreeSet::from(["www.example.com.".to_owned()]));
}

#[tokio::test]
async fn other_names_are_asked_of_the_nodes_resolvers_once() {
    let (upstream, asked) = resolver().await;
    let server = start(vec![upstream]).await;
    for _ in 0..3 {
        let reply = ask(server.address, "www.example.com.", RecordType::A).await;
        assert_eq!(addresses(&reply), ["192.0.2.1"]);
        assert!(!reply.metadata.authoritative);
        let none = ask(server.address, "none.example.com.", RecordType::A).await;
        assert_eq!(none.metadata.response_code, ResponseCode::NXDomain);
    }
    let times = asked
        .lock()
        .iter()
        .filter(|name| *name == "www.example.com.")
        .count();
    assert_eq!(times, 1, "the first answer is kept");
}

#[tokio::test]
async fn silent_resolvers_do_not_leave_clients_waiting() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = start(vec![silent.local_addr().unwrap()]).await;
    let begun = Instant::now();
    let reply = ask(server.address, "www.example.com.", RecordType::A).await;
    assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    let web = ask(server.address, "web.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(
        addresses(&web),
        ["10.96.0.10"],
        "the cluster's names need no resolver"
    );
}

#[tokio::test]
async fn long_answers_come_over_a_connection() {
    let server = start(Vec::new()).await;
    let cut = ask(
        server.address,
        "many.shop.svc.cluster.local.",
        RecordType::A,
    )
    .await;
    assert!(cut.metadata.truncation);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..3 {
        let whole = ask_over(&mut stream, "many.shop.svc.cluster.local.", RecordType::A).await;
        assert_eq!(
            (whole.answers.len(), whole.metadata.truncation),
            (200, false)
        );
    }
    // what is too long for a question ends the connection
    stream.write_all(&[255; 64]).await.unwrap();
    let end = within("the end of the connection", stream.read(&mut [0; 1])).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

#[tokio::test]
async fn the_newest_snapshot_counts_and_before_it_nothing_is_denied() {
    let server = start_with(Vec::new(), "/nonexistent".into(), Snapshot::default()).await;
    let early = ask(server.address, "web.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(early.metadata.response_code, ResponseCode::ServFail);
    server.publish.send_replace(Arc::new(snapshot()));
    let web = ask(server.address, "web.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(addresses(&web), ["10.96.0.10"]);
}

#[tokio::test]
async fn bad_packets_leave_the_server_answering() {
    let server = start(Vec::new()).await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    for packet in [&b""[..], b"x", &[0; 12], &[255; 512], &[0xc0; 4096]] {
        socket.send_to(packet, server.address).await.unwrap();
    }
    let web = ask(server.address, "web.shop.svc.cluster.local.", RecordType::A).await;
    assert_eq!(addresses(&web), ["10.96.0.10"]);
}

#[tokio::test]
async fn resolvers_that_ask_this_server_are_found_out() {
    // one that passes all questions on to the server under test
    let relay = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
    let server = start(vec![relay.local_addr().unwrap()]).await;
    let to = server.address;
    tokio::spawn(async move {
        let mut packet = [0; 4096];
        while let Ok((length, client)) = relay.recv_from(&mut packet).await {
            let (relay, question) = (relay.clone(), packet[..length].to_vec());
            tokio::spawn(async move {
                let own = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                own.send_to(&question, to).await.unwrap();
                let mut reply = [0; 4096];
                if let Ok(Ok((length, _))) = timeout(WAIT_TIMEOUT, own.recv_from(&mut reply)).await
                {
                    let _ = relay.send_to(&reply[..length], client).await;
                }
            });
        }
    });
    // until the circle is found such a question takes its full time
    let begun = Instant::now();
    loop {
        let asked = Instant::now();
        let reply = ask(server.address, "www.example.com.", RecordType::A).await;
        assert_eq!(reply.metadata.response_code, ResponseCode::ServFail);
        if asked.elapsed() < Duration::from_secs(1) {
            break;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "the circle is not found");
    }
}

/// A resolver of a domain that an attacker has: `n200.evil.example` has 200 addresses, all of them over TCP alone.
async fn talkative_resolver() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).await.unwrap();
    tokio::spawn(async move {
        let mut packet = [0; 4096];
        while let Ok((length, client)) = udp.recv_from(&mut packet).await {
            let mut reply = Message::from_vec(&packet[..length]).unwrap();
            reply.metadata.message_type = MessageType::Response;
            reply.metadata.truncation = true;
            let _ = udp.send_to(&reply.to_vec().unwrap(), client).await;
        }
    });
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                while let Ok(Some(packet)) = receive(&mut stream).await {
                    let mut reply = Message::from_vec(&packet).unwrap();
                    reply.metadata.message_type = MessageType::Response;
                    let name = reply.queries[0].name().clone();
                    seen.lock().push(name.to_ascii());
                    let number = name.to_ascii()[1..]
                        .split('.')
                        .next()
                        .unwrap()
                        .parse()
                        .unwrap();
                    for last in 0..number {
                        let address = RData::A(A(Ipv4Addr::from(last)));
                        reply.add_answer(Record::from_rdata(name.clone(), 3600, address));
                    }
                    let bytes = reply.to_vec().unwrap();
                    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
                    stream
                        .write_all(&[&length[..], &bytes].concat())
                        .await
                        .unwrap();
                }
            });
        }
    });
    (address, asked)
}

#[tokio::test]
async fn long_answers_of_resolvers_are_handed_on_but_not_kept() {
    let (upstream, asked) = talkative_resolver().await;
    let server = start(vec![upstream]).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..2 {
        for (name, code, records) in [
            ("n4000.evil.example.", ResponseCode::ServFail, 0),
            ("n200.evil.example.", ResponseCode::NoError, 200),
            ("n20.evil.example.", ResponseCode::NoError, 20),
        ] {
            let reply = ask_over(&mut stream, name, RecordType::A).await;
            assert_eq!(
                (reply.metadata.response_code, reply.answers.len()),
                (code, records),
                "{name}"
            );
        }
    }
    let asked = asked.lock();
    let times = |wanted: &str| asked.iter().filter(|name| *name == wanted).count();
    assert_eq!(
        (times("n200.evil.example."), times("n20.evil.example.")),
        (2, 1)
    );
}
