//! Flows over real sockets of the loopback interface.

use std::{sync::Arc, time::Duration};

use testkit::within;
use tokio::{sync::watch, time::timeout};

use super::*;
use crate::edgemesh::{
    dialer::Dialer,
    proxy::{budget::Budget, plan::Target},
};

fn to(endpoints: &[SocketAddr]) -> Arc<Target> {
    let all: Vec<_> = endpoints.iter().copied().map(Into::into).collect();
    Arc::new(Target {
        for_local: all.clone(),
        for_others: all.clone(),
        serving: all,
        ..Target::default()
    })
}

/// A socket that is served, and what tells it its endpoints.
fn front(endpoints: &[SocketAddr]) -> (SocketAddr, watch::Sender<Arc<Target>>) {
    let socket = listen((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let (target, targets) = watch::channel(to(endpoints));
    tokio::spawn(serve(
        socket,
        Backend::new(
            targets,
            Budget::of_process(Arc::default()),
            None,
            Dialer::default(),
        ),
    ));
    (address, target)
}

/// Answers every datagram with its name and the datagram.
async fn echo(name: u8) -> (SocketAddr, JoinHandle<()>) {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let address = socket.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut datagram = vec![0; MAX_DATAGRAM];
        while let Ok((size, client)) = socket.recv_from(&mut datagram[1..]).await {
            datagram[0] = name;
            socket.send_to(&datagram[..=size], client).await.unwrap();
        }
    });
    (address, serving)
}

async fn client(front: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    socket.connect(front).await.unwrap();
    socket
}

/// Asks until there is an answer: a datagram may be lost while an endpoint goes.
async fn ask(socket: &UdpSocket, what: &[u8]) -> Vec<u8> {
    let asked = async {
        let mut answer = vec![0; MAX_DATAGRAM];
        loop {
            // an endpoint that has gone is told of as an error of the next call
            if socket.send(what).await.is_err() {
                continue;
            }
            if let Ok(Ok(size)) =
                timeout(Duration::from_millis(200), socket.recv(&mut answer)).await
            {
                answer.truncate(size);
                return answer;
            }
        }
    };
    within("an answer", asked).await
}

#[tokio::test]
async fn clients_get_their_own_answers() {
    let (front, _target) = front(&[echo(b'a').await.0]);
    let (one, two) = (client(front).await, client(front).await);
    for number in 0..10u8 {
        assert_eq!(ask(&one, &[number]).await, [b'a', number]);
        assert_eq!(ask(&two, &[100 + number]).await, [b'a', 100 + number]);
    }
    let large = vec![7; 9000];
    assert_eq!(ask(&one, &large).await.len(), 9001);
}

#[tokio::test]
async fn a_client_goes_on_with_another_endpoint_where_its_own_serves_no_more() {
    let ((first, _), (second, _)) = (echo(b'1').await, echo(b'2').await);
    let (front, target) = front(&[first]);
    let socket = client(front).await;
    assert_eq!(ask(&socket, b"x").await, b"1x");
    // row 48: one that ends and still serves keeps its clients
    let mut ending = (*to(&[second])).clone();
    ending.serving = vec![first.into(), second.into()];
    target.send_replace(Arc::new(ending));
    assert_eq!(ask(&client(front).await, b"x").await, b"2x");
    assert_eq!(ask(&socket, b"x").await, b"1x");
    // row 46
    target.send_replace(to(&[second]));
    let moved = async { while ask(&socket, b"x").await != b"2x" {} };
    within("an answer of the other endpoint", moved).await;
}

#[tokio::test]
async fn an_endpoint_that_does_not_listen_is_left() {
    let ((first, serving), (second, _)) = (echo(b'1').await, echo(b'2').await);
    let (front, target) = front(&[first]);
    let socket = client(front).await;
    assert_eq!(ask(&socket, b"x").await, b"1x");
    let mut both = (*to(&[second])).clone();
    both.serving = vec![first.into(), second.into()];
    target.send_replace(Arc::new(both));
    serving.abort();
    assert_eq!(
        ask(&socket, b"x").await,
        b"2x",
        "its flow has ended with the answer that nobody listens"
    );
}

#[tokio::test]
async fn flows_are_bounded() {
    let (front, _target) = front(&[echo(b'a').await.0]);
    let first = client(front).await;
    assert_eq!(ask(&first, b"x").await, b"ax");
    for _ in 0..MAX_FLOWS + 10 {
        let socket = client(front).await;
        assert_eq!(ask(&socket, b"y").await, b"ay");
    }
    assert_eq!(ask(&first, b"x").await, b"ax", "it begins anew");
}
