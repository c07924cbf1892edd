//! Connections over real sockets of the loopback interface.

use std::{net::Ipv4Addr, sync::Arc};

use testkit::{eventually, until, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::watch,
};

use super::*;
use crate::edgemesh::{
    dialer::Dialer,
    proxy::{budget::Budget, plan::Target},
};

/// What listens, and what it is told.
struct Front {
    address: SocketAddr,
    target: watch::Sender<Arc<Target>>,
    serving: tokio::task::JoinHandle<()>,
    connections: Connections,
    budget: Budget,
}

fn to(endpoints: &[SocketAddr]) -> Arc<Target> {
    let all: Vec<_> = endpoints.iter().copied().map(Into::into).collect();
    Arc::new(Target {
        for_local: all.clone(),
        for_others: all,
        ..Target::default()
    })
}

fn front(endpoints: &[SocketAddr], share: usize) -> Front {
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let (target, targets) = watch::channel(to(endpoints));
    let mut budget = Budget::new(400, 1, Arc::default());
    budget.port_share = share;
    let connections = Connections {
        tracker: TaskTracker::new(),
        shutdown: CancellationToken::new(),
    };
    let backend = Backend::new(targets, budget.clone(), None, Dialer::default());
    let serving = tokio::spawn(serve(listener, backend, connections.clone()));
    Front {
        address,
        target,
        serving,
        connections,
        budget,
    }
}

/// Says its name, and then everything that it is told.
async fn echo(name: u8) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(&[name]).await.unwrap();
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// Nobody listens there.
async fn nobody() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}

/// A connection, and who is at its other end.
async fn connect(front: &Front) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    let name = within("the name of an endpoint", stream.read_u8())
        .await
        .unwrap();
    (stream, name)
}

#[tokio::test]
async fn bytes_go_both_ways_and_an_end_is_handed_on() {
    let front = front(&[echo(b'a').await], 10);
    let (mut stream, name) = connect(&front).await;
    assert_eq!(name, b'a');
    let sent: Vec<u8> = (0..1_000_000u32)
        .map(|number| number.to_le_bytes()[1])
        .collect();
    let (mut read, mut write) = stream.split();
    let send = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, size) = within("both directions", async {
        tokio::join!(send, read.read_to_end(&mut received))
    })
    .await;
    assert_eq!(size.unwrap(), sent.len());
    assert!(received == sent);
}

#[tokio::test]
async fn another_endpoint_is_tried_where_one_is_not_reached() {
    let (dead, alive) = (nobody().await, echo(b'b').await);
    for endpoints in [[dead, alive], [alive, dead]] {
        let front = front(&endpoints, 100);
        for _ in 0..20 {
            assert_eq!(connect(&front).await.1, b'b');
        }
    }
}

#[tokio::test]
async fn a_connection_that_reaches_nobody_is_reset() {
    let front = front(&[nobody().await], 10);
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    let error = within("the end of the connection", stream.read_u8())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_connection_outlives_its_endpoints_place_and_its_socket() {
    let (first, second) = (echo(b'1').await, echo(b'2').await);
    let front = front(&[first], 10);
    let (mut old, name) = connect(&front).await;
    assert_eq!(name, b'1');
    front.target.send_replace(to(&[second]));
    assert_eq!(
        connect(&front).await.1,
        b'2',
        "new ones go where endpoints are"
    );
    front.serving.abort();
    until("the end of the socket", || front.serving.is_finished()).await;
    let refused = TcpStream::connect(front.address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    old.write_all(b"x").await.unwrap();
    assert_eq!(within("a byte", old.read_u8()).await.unwrap(), b'x');
    front.connections.shutdown.cancel();
    assert!(
        within("the end of the connection", old.read_u8())
            .await
            .is_err(),
        "it ends with the room"
    );
}

#[tokio::test]
async fn one_service_has_its_share_and_not_more() {
    let front = front(&[echo(b'a').await], 3);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(connect(&front).await.0);
    }
    let mut surplus = TcpStream::connect(front.address).await.unwrap();
    let error = within("the end of the connection", surplus.read_u8())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    held.pop();
    // its end is heard of a moment later
    let again = async {
        loop {
            let mut stream = TcpStream::connect(front.address).await.unwrap();
            if stream.read_u8().await.is_ok() {
                return stream;
            }
        }
    };
    held.push(within("another connection", again).await);
    assert_eq!(front.budget.connection_count(), 3, "none is lost");
}

#[tokio::test]
async fn one_client_has_its_share_and_not_more() {
    let front = front(&[echo(b'a').await], 400);
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(connect(&front).await.0);
    }
    let mut surplus = TcpStream::connect(front.address).await.unwrap();
    let error = within("the end of the connection", surplus.read_u8())
        .await
        .unwrap_err();
    assert_eq!(
        error.kind(),
        io::ErrorKind::ConnectionReset,
        "a quarter of all is one client's"
    );
    let other = TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(front.address).await.unwrap();
    assert_eq!(
        within("the name of an endpoint", other.read_u8())
            .await
            .unwrap(),
        b'a'
    );
}

#[tokio::test]
async fn a_client_that_has_ended_and_is_gone_keeps_no_place() {
    // it reads nothing and never ends
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let front = front(&[listener.local_addr().unwrap()], 10);
    let mut client = TcpStream::connect(front.address).await.unwrap();
    let (mut server, _) = within("a connection", listener.accept()).await.unwrap();
    client.shutdown().await.unwrap();
    assert!(
        within("the end of the client", server.read_u8())
            .await
            .is_err(),
        "its end was handed on"
    );
    server.write_all(b"x").await.unwrap();
    assert_eq!(
        within("a byte", client.read_u8()).await.unwrap(),
        b'x',
        "half of it goes on"
    );
    assert_eq!(front.budget.connection_count(), 1);
    client.set_zero_linger().unwrap();
    drop(client);
    until("its place is free", || front.budget.connection_count() == 0).await;
    let error = within("the end of the connection", server.read_u8()).await;
    assert!(error.is_err());
}

/// An endpoint that takes a byte, and ends without a word, as one does whose process or machine was reset.
async fn dies() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.read_u8().await.unwrap();
            stream.set_zero_linger().unwrap();
        }
    });
    address
}

#[tokio::test]
async fn an_endpoint_that_dies_in_the_middle_resets_its_client() {
    let front = front(&[dies().await], 10);
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    stream.write_all(b"x").await.unwrap();
    let ended = within("the end of the connection", stream.read_u8())
        .await
        .unwrap_err();
    assert_eq!(
        ended.kind(),
        io::ErrorKind::ConnectionReset,
        "it must not look like an end"
    );
}

/// Files that this process has open.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn ten_thousand_connections_leave_nothing_behind() {
    const AT_ONCE: usize = 100;
    let front = front(&[echo(b'a').await, echo(b'b').await], AT_ONCE);
    connect(&front).await;
    let until_all = async || {
        until("all places are free", || {
            front.budget.connection_count() == 0
        })
        .await
    };
    until_all().await;
    let before = open_files();
    for _ in 0..10_000 / AT_ONCE {
        let streams = (0..AT_ONCE).map(|_| async {
            let (mut stream, _) = connect(&front).await;
            stream.write_all(b"x").await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            stream
        });
        let streams = futures::future::join_all(streams).await;
        assert_eq!(
            front.budget.connection_count(),
            AT_ONCE,
            "all are held at once"
        );
        drop(streams);
        until_all().await;
    }
    // the endpoints' own ends are closed a moment later
    eventually(
        "no more open files than before",
        async || match open_files() {
            now if now <= before => Ok(()),
            now => Err((now, before)),
        },
    )
    .await;
}
