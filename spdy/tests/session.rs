//! Tests of streams over a connection in memory, with this crate at both ends.
#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{io, time::Duration};

use bytes::BytesMut;
use spdy::{
    Headers, Role, Status,
    session::{self, Incoming, Session, Stream},
};
use testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
    time::timeout,
};

type Run = JoinHandle<io::Result<()>>;

fn start(io: DuplexStream, role: Role) -> (Session, Incoming, Run) {
    let (session, incoming, driver) = session::new(io, role);
    (session, incoming, tokio::spawn(driver.run()))
}

fn pair() -> ((Session, Incoming, Run), (Session, Incoming, Run)) {
    let (client, server) = duplex(4096);
    (start(client, Role::Client), start(server, Role::Server))
}

/// Opens one stream and returns both ends of it.
async fn stream(client: &Session, server: &mut Incoming) -> (Stream, Stream) {
    let open = client.open(Headers::new().with("streamtype", "data"), false);
    let accept = async { server.next().await.unwrap().accept().await };
    let (opened, accepted) = within("a stream", async { tokio::join!(open, accept) }).await;
    (opened.unwrap(), accepted.unwrap())
}

async fn read_all(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    within("the end of a stream", stream.read_to_end(&mut bytes)).await?;
    Ok(bytes)
}

#[tokio::test]
async fn each_half_of_a_stream_ends_by_itself() {
    let ((client, _, _), (_server, mut incoming, _)) = pair();
    let (mut ours, mut theirs) = stream(&client, &mut incoming).await;
    ours.write_all(b"in").await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(read_all(&mut theirs).await.unwrap(), b"in");
    theirs.write_all(b"out").await.unwrap();
    theirs.shutdown().await.unwrap();
    assert_eq!(read_all(&mut ours).await.unwrap(), b"out");
    assert_eq!(
        ours.write(b"x").await.unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
}

#[tokio::test]
async fn a_megabyte_goes_both_ways_unchanged() {
    let ((client, _, _), (_server, mut incoming, _)) = pair();
    let (ours, theirs) = stream(&client, &mut incoming).await;
    let sent: Vec<u8> = (0..1024 * 1024_u32)
        .map(|number| (number * 7 % 251) as u8)
        .collect();
    let (mut reads, mut writes) = tokio::io::split(ours);
    let (mut echo_reads, mut echo_writes) = tokio::io::split(theirs);
    let echo = tokio::spawn(async move {
        tokio::io::copy(&mut echo_reads, &mut echo_writes)
            .await
            .unwrap();
        echo_writes.shutdown().await.unwrap();
    });
    let expected = sent.clone();
    let write = async {
        writes.write_all(&sent).await.unwrap();
        writes.shutdown().await.unwrap();
    };
    let mut came = Vec::new();
    let both = async { tokio::join!(write, reads.read_to_end(&mut came)) };
    within("the mebibytes and back", both).await.1.unwrap();
    assert!(came == expected);
    echo.await.unwrap();
}

#[tokio::test]
async fn a_reset_after_data_is_an_end_and_a_broken_connection_is_an_error() {
    let ((client, _, client_run), (server, mut incoming, server_run)) = pair();
    let (mut ours, mut theirs) = stream(&client, &mut incoming).await;
    theirs.write_all(b"data").await.unwrap();
    theirs.reset(Status::Cancel).await;
    assert_eq!(read_all(&mut ours).await.unwrap(), b"data");
    let (mut cut, _kept) = stream(&client, &mut incoming).await;
    server_run.abort();
    assert_eq!(
        read_all(&mut cut).await.unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
    assert!(client_run.await.unwrap().is_err());
    drop(server);
}

#[tokio::test]
async fn who_closes_ends_all_streams() {
    let ((client, _, client_run), (server, mut incoming, server_run)) = pair();
    let (mut ours, mut theirs) = stream(&client, &mut incoming).await;
    theirs.write_all(b"last").await.unwrap();
    server.close().await;
    assert_eq!(read_all(&mut ours).await.unwrap(), b"last");
    within("the end of the client", client_run)
        .await
        .unwrap()
        .unwrap();
    within("the end of the server", server_run)
        .await
        .unwrap()
        .unwrap();
    assert!(client.open(Headers::new(), false).await.is_err());
    assert!(read_all(&mut theirs).await.unwrap().is_empty());
}

/// A command ends without reading its input: its output and its status must not be lost because of the unread input.
#[tokio::test]
async fn what_a_peer_said_before_it_left_is_read_though_it_takes_nothing_more() {
    for _ in 0..20 {
        let ((client, _, _), (server, mut incoming, server_run)) = pair();
        let (ours, mut theirs) = stream(&client, &mut incoming).await;
        let (mut reader, mut writer) = tokio::io::split(ours);
        let writing =
            tokio::spawn(async move { while writer.write_all(&[7; 1000]).await.is_ok() {} });
        theirs.write_all(b"status").await.unwrap();
        server.close().await;
        within("the end of the server", server_run)
            .await
            .unwrap()
            .unwrap();
        let mut said = Vec::new();
        within("the rest of the stream", reader.read_to_end(&mut said))
            .await
            .unwrap();
        assert_eq!(said, b"status");
        within("the end of the writer", writing).await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_reset_at_the_other_end() {
    let ((client, _, _), (_server, mut incoming, _)) = pair();
    let (ours, mut theirs) = stream(&client, &mut incoming).await;
    drop(ours);
    assert_eq!(read_all(&mut theirs).await.unwrap(), b"");
    let refused = async { drop(incoming.next().await.unwrap()) };
    let (opened, ()) = tokio::join!(client.open(Headers::new(), false), refused);
    assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    within("the answer to a ping", client.ping()).await.unwrap();
}

/// kubectl opens the two streams of each connection of a port-forward without waiting for others.
#[tokio::test]
async fn burst_of_streams_waits_and_none_is_refused() {
    let ((client, _, _), (_server, mut incoming, _)) = pair();
    let burst = 300;
    let opening = (0..burst).map(|number: usize| {
        let (client, headers) = (
            client.clone(),
            Headers::new().with("number", number.to_string()),
        );
        tokio::spawn(async move { client.open(headers, false).await })
    });
    let opening: Vec<_> = opening.collect();
    let mut accepted = Vec::new();
    while accepted.len() < burst {
        let request = within("a stream", incoming.next()).await.unwrap();
        accepted.push(request.accept().await.unwrap());
    }
    for opened in opening {
        within("an answer", opened).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn streams_that_nobody_accepts_are_refused() {
    let ((client, _, _), (_server, incoming, _)) = pair();
    let opening: Vec<_> = (0..40)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.open(Headers::new(), false).await })
        })
        .collect();
    drop(incoming);
    for opened in opening {
        let error = within("an answer", opened).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}

#[tokio::test]
async fn the_driver_ends_when_nobody_holds_the_connection() {
    let ((client, incoming, client_run), (_server, _theirs, server_run)) = pair();
    drop((client, incoming));
    within("the end of the client", client_run)
        .await
        .unwrap()
        .unwrap();
    within("the end of the server", server_run)
        .await
        .unwrap()
        .unwrap();
}

/// Writes until nothing more is accepted, and returns the number of bytes written.
async fn fill(stream: &mut Stream) -> usize {
    let chunk = [7; 4096];
    let mut written = 0;
    // virtual time passes only while no task can continue
    while let Ok(wrote) = timeout(Duration::from_secs(1), stream.write(&chunk)).await {
        written += wrote.unwrap();
        assert!(written < 16 * 1024 * 1024, "nothing holds back who writes");
    }
    written
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_holds_back_who_writes() {
    let ((client, _, _), (_server, mut incoming, _)) = pair();
    let (mut ours, mut theirs) = stream(&client, &mut incoming).await;
    let written = fill(&mut ours).await;
    assert!(written < 1024 * 1024, "{written} bytes are held");
    let (ended, read) = tokio::join!(ours.shutdown(), read_all(&mut theirs));
    ended.unwrap();
    assert_eq!(read.unwrap().len(), written);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_stream_whose_owner_goes_frees_the_others() {
    let ((client, _, _), (_server, mut incoming, _)) = pair();
    let (mut stuck, unread) = stream(&client, &mut incoming).await;
    let (mut other, mut other_end) = stream(&client, &mut incoming).await;
    fill(&mut stuck).await;
    drop(unread);
    other.write_all(b"through").await.unwrap();
    other.shutdown().await.unwrap();
    assert_eq!(read_all(&mut other_end).await.unwrap(), b"through");
}

#[tokio::test]
async fn a_flood_of_pings_that_nobody_reads_the_answers_of_is_bounded() {
    let (mut peer, server) = duplex(4096);
    let (_session, _incoming, run) = start(server, Role::Server);
    let pings = [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1].repeat(300);
    let flood = async {
        let mut sent = 0_usize;
        while sent < 64 * 1024 * 1024 {
            let wrote = timeout(
                Duration::from_millis(500),
                peer.write(&pings[sent % pings.len()..]),
            )
            .await;
            let Ok(wrote) = wrote else { break };
            sent += wrote.unwrap();
        }
        sent
    };
    let sent = flood.await;
    assert!(sent < 1024 * 1024, "{sent} bytes of pings were taken");
    drop(peer);
    // it may or may not report that its last answers were not read
    let _ = within("the end of the session", run).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_speak_the_protocol_ends_the_connection() {
    let (mut peer, server) = duplex(4096);
    let (_session, mut incoming, run) = start(server, Role::Server);
    peer.write_all(&[0x80, 3, 0, 10, 0, 0, 0, 0]).await.unwrap();
    let error = within("the end of the session", run)
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(incoming.next().await.is_none());
    let mut rest = BytesMut::new();
    assert_eq!(peer.read_buf(&mut rest).await.unwrap(), 0);
}
