//! Sends requests over a real socket to a server that accepts only host names: they arrive unchanged except for the authority.

use std::{collections::BTreeMap, convert::Infallible, path::Path, time::Duration};

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use testkit::{WAIT_TIMEOUT, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{
    authority::tests::{OF_GO, OF_PYTHON},
    hpack::tests::{bytes, literal},
};

/// Returns the authority of a request and all its fields, one per line.
fn describe<B>(request: &Request<B>) -> String {
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    let authority = request.uri().authority().map(ToString::to_string);
    authority
        .into_iter()
        .chain(fields)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Starts a server on this socket that answers with the request's fields.
fn serve(path: &Path) {
    serve_all(Box::pin(connections(UnixListener::bind(path).unwrap())));
}

/// Starts the same server on these connections.
fn serve_all(mut connections: impl Stream<Item = io::Result<Connection>> + Send + Unpin + 'static) {
    tokio::spawn(async move {
        while let Some(connection) = connections.next().await {
            let service = service_fn(async |request: Request<Incoming>| {
                Ok::<_, Infallible>(Response::new(describe(&request)))
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let Ok(connection) = connection else { continue };
            tokio::spawn(builder.serve_connection(TokioIo::new(connection), service));
        }
    });
}

/// Sends bytes and returns the server's answers by stream number, for this number of requests. Panics if the server refuses one.
async fn answers(path: &Path, sent: &[u8], requests: usize) -> BTreeMap<u8, String> {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut answers = BTreeMap::<u8, String>::new();
    let mut ended = 0;
    while ended < requests {
        let mut head = [0; 9];
        within("the head of a frame", stream.read_exact(&mut head))
            .await
            .unwrap();
        let [_, high, low, kind, flags, _, _, _, number] = head;
        let mut carried = vec![0; usize::from(high) << 8 | usize::from(low)];
        within("a frame", stream.read_exact(&mut carried))
            .await
            .unwrap();
        match kind {
            0 => *answers.entry(number).or_default() += std::str::from_utf8(&carried).unwrap(),
            3 | 7 => panic!("the server refuses stream {number}: {carried:?}"),
            _ => {}
        }
        ended += usize::from(kind < 2 && flags & 1 != 0);
    }
    answers
}

/// Returns the preface, empty settings, and requests with these fields after `:method` and `:scheme`.
fn requests(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for (number, block) in (1..).step_by(2).zip(blocks) {
        let block = [&[0x82, 0x86, 0x84][..], block].concat();
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        // flags: the end of the fields and of the request
        sent.extend_from_slice(&[0, length[0], length[1], 1, 5, 0, 0, 0, number]);
        sent.extend_from_slice(&block);
    }
    sent
}

#[tokio::test]
async fn clients_of_all_grpc_libraries_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    serve(&path);
    for (sent, requests, length) in [(OF_PYTHON, 2, 18), (OF_GO, 1, 28)] {
        let mut sent = bytes(sent);
        // they acknowledge settings that another server sent
        let confirmation = [0, 0, 0, 4, 1, 0, 0, 0, 0];
        let at = sent
            .windows(confirmation.len())
            .position(|window| window == confirmation)
            .unwrap();
        sent.drain(at..at + confirmation.len());
        let answers = answers(&path, &sent, requests).await;
        let authority = "x".repeat(length);
        assert!(answers[&1].starts_with(&authority), "{answers:?}");
        assert!(
            answers
                .values()
                .all(|answer| answer.contains("content-type: application/grpc"))
        );
    }
}

#[tokio::test]
async fn no_authority_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    serve(&path);
    let strange = [
        "/tmp/m.sock",
        "%00abstract",
        "a b",
        "[",
        "a@b@c",
        "a:b:c",
        "\u{e4}\\\"",
        "localhost",
        "\n",
    ];
    for authority in strange {
        let by_number = |first: u8| {
            let mut field = literal(first, "", authority);
            field.remove(1);
            field
        };
        let twice = [literal(0x40, ":authority", authority), vec![0xbe]];
        let blocks = [
            &twice[..],
            &[
                literal(0, ":authority", authority),
                by_number(0x41),
                by_number(0x11),
            ],
        ];
        let answers = answers(&path, &requests(&blocks.concat()), 5).await;
        let expected = "x".repeat(authority.len());
        assert_eq!(
            answers.into_values().collect::<Vec<_>>(),
            vec![expected; 5],
            "{authority:?}"
        );
    }
}

#[tokio::test]
async fn fields_come_through_as_they_were_sent_whatever_has_left_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    serve(&path);
    let stream = UnixStream::connect(&path).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    for round in 0..300_usize {
        // repeated names, repeated and new values, of lengths that evict each other from the table
        let authority = format!("host-{}.{}", round % 7, "z".repeat(round % 50));
        let mut request = Request::get(format!("http://{authority}/{}", round % 3));
        for field in 0..round % 11 {
            let value =
                ["short", "Longer & with ~odd^ {signs}"][field % 2].repeat(round % 13 * field + 1);
            request = request.header(format!("field-{}", (round * field) % 17), value);
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let expected = describe(&request).replacen(&authority, &"x".repeat(authority.len()), 1);
        let answer = within("an answer", sender.send_request(request))
            .await
            .unwrap();
        let answer = answer.into_body().collect().await.unwrap().to_bytes();
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(
            sorted(std::str::from_utf8(&answer).unwrap()),
            sorted(&expected),
            "round {round}"
        );
    }
}

#[tokio::test]
async fn of_silent_connections_the_oldest_makes_room_and_none_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let limits = ConnectionLimits {
        established: 2,
        reserved: 0,
        pending: 2,
        per_address: usize::MAX,
    };
    for (first, crowd_ends) in [(WAIT_TIMEOUT, false), (Duration::from_millis(50), true)] {
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let incoming = Box::pin(limited_connections(listener, limits, first));
        serve_all(incoming);
        let mut crowd = testkit::silent_unix(&path, 20).await;
        testkit::closed(&mut crowd[0]).await;
        let answers = answers(
            &path,
            &requests(&[literal(0x40, ":authority", "localhost")]),
            1,
        )
        .await;
        assert_eq!(answers[&1], "xxxxxxxxx");
        if crowd_ends {
            testkit::closed(&mut crowd[19]).await;
        }
    }
}
