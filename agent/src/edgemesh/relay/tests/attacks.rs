//! Endpoints, clients and relays that keep what they do not need, or say what is not so.

use super::*;

#[tokio::test]
async fn an_endpoint_that_does_not_end_keeps_no_node_off_the_relay() {
    let cloud = Cloud::start();
    // it reads nothing, and does not end when its client does
    let listener = TcpListener::bind((own(), 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let mut stream = one
        .relay
        .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
        .await
        .unwrap();
    let (mut server, _): (TcpStream, _) = listener.accept().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut read = [0; 2];
    assert_eq!(within("a byte", server.read(&mut read)).await.unwrap(), 1);
    assert_eq!(
        within("the end", server.read(&mut read)).await.unwrap(),
        0,
        "its client has ended"
    );
    let connection = cloud.inner.nodes.lock().get("edge-2").cloned().unwrap();
    let before = connection.stable_id();
    connection.close(quinn::VarInt::from_u32(0), b"a newer certificate");
    until("the node has dialled the relay again", || {
        cloud
            .inner
            .nodes
            .lock()
            .get("edge-2")
            .is_some_and(|now| now.stable_id() != before)
    })
    .await;
    within(
        "a connection to the relay",
        two.relay.link.clone().wait_for(Option::is_some),
    )
    .await
    .unwrap();
    // the endpoint learns that the connection broke off
    let error = eventually("the end of the endpoint's connection", async || {
        server.write_all(b"y").await.err().ok_or("it takes bytes")
    })
    .await;
    assert!(
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        ),
        "{error}"
    );
}

#[tokio::test]
async fn one_client_leaves_room_for_others() {
    let (cloud, at) = (Cloud::start(), echo().await);
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let _two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let mut held = Vec::new();
    let refused = loop {
        match one
            .relay
            .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
            .await
        {
            Ok(stream) => held.push(stream),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, RelayDialError::Full), "{refused}");
    assert_eq!(held.len(), MAX_STREAMS as usize / 8);
    let other = IpAddr::from([10, 88, 0, 10]);
    assert!(
        one.relay
            .dial(other, "edge-2", &request(at, Protocol::Tcp))
            .await
            .is_ok()
    );
    drop(held);
    assert!(
        one.relay
            .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_stream_that_the_other_node_has_given_up_leaves_its_endpoint() {
    let cloud = Cloud::start();
    let listener = TcpListener::bind((own(), 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let _two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let mut stream = one
        .relay
        .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
        .await
        .unwrap();
    let (mut server, _): (TcpStream, _) = listener.accept().await.unwrap();
    stream.shutdown().await.unwrap();
    let mut read = [0; 2];
    assert_eq!(
        within("the end", server.read(&mut read)).await.unwrap(),
        0,
        "its client has ended"
    );
    // the relay hands on that nobody reads its answer any more
    drop(stream);
    let broken = timeout(WAIT_TIMEOUT, server.ready(tokio::io::Interest::ERROR)).await;
    assert!(
        broken.is_ok(),
        "the endpoint, which says nothing, learns that nobody is there"
    );
}
