//! A window shows the latest lines without secrets, and a slow reader finds a gap.

use std::collections::BTreeMap;

use serde_json::json;
use testkit::within;
use wire::tunnel;

use super::*;
use crate::{Recorder, Transport, tests::message};

fn recorder() -> (Window, Recorder) {
    let window = Window::new("test 1", Side::Cloud);
    (window.clone(), Recorder::default().with_window(window))
}

async fn next(reader: &mut WindowReader) -> Vec<Line> {
    let lines = within("lines", reader.next()).await.unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Returns the type of each line, and the content of each message.
fn texts(lines: &[Line]) -> Vec<String> {
    let line = |line: &Line| match line {
        Line::Frame(frame) => match &frame.body {
            Body::Message(message) => message.content.to_string(),
            body => format!("{body:?}"),
        },
        line => serde_json::to_value(line).unwrap()["type"].to_string(),
    };
    lines.iter().map(line).collect()
}

#[tokio::test]
async fn reader_gets_the_lines_so_far_and_new_ones_without_secrets() {
    let (window, recorder) = recorder();
    let connection = recorder.connect(Transport::WebSocket, "edge-1", "", BTreeMap::new());
    connection.message(Side::Cloud, &message("default/pod/a", json!({"a": 1})), 7);
    let mut reader = window.reader();
    let begin = [r#""recording""#, r#""connection""#, r#"{"a":1}"#];
    assert_eq!(texts(&next(&mut reader).await), begin);
    let secret = json!({"kind": "Secret", "data": {"password": "Y2FuYXJ5LTc="}});
    connection.message(Side::Cloud, &message("default/secret/s", secret), 60);
    let lines = texts(&next(&mut reader).await);
    assert!(
        lines[0].contains("Kioq") && !lines[0].contains("Y2FuYXJ5"),
        "{lines:?}"
    );
    drop(connection);
    assert_eq!(texts(&next(&mut reader).await), [r#""end""#]);
}

#[tokio::test]
async fn stream_data_and_large_contents_are_not_stored() {
    let (window, recorder) = recorder();
    let connection = recorder.connect(Transport::Tunnel, "edge-1", "", BTreeMap::new());
    let frame = tunnel::Frame {
        id: 1,
        kind: tunnel::Kind::Data,
        data: "hello".into(),
    };
    connection.tunnel(Side::Edge, &frame);
    let large = "x".repeat(MAX_MESSAGE_BYTES);
    let message = message("default/configmap/c", json!({ "data": large }));
    connection.message(Side::Cloud, &message, MAX_MESSAGE_BYTES + 1);
    let lines = next(&mut window.reader()).await;
    assert_eq!(texts(&lines)[2..], ["null"]);
}

#[tokio::test]
async fn slow_reader_finds_a_gap_and_the_open_connections() {
    let (window, recorder) = recorder();
    let connection = recorder.connect(Transport::WebSocket, "edge-1", "", BTreeMap::new());
    let mut slow = window.reader();
    next(&mut slow).await;
    let sent = MAX_LINES + 10;
    for number in 0..sent {
        let message = message("default/pod/a", json!(number));
        connection.message(Side::Cloud, &message, 1);
    }
    let lines = next(&mut slow).await;
    let Line::Gap(gap) = &lines[0] else {
        panic!("{:?}", lines[0]);
    };
    assert!(matches!(&lines[1], Line::Connection(open) if open.node == "edge-1"));
    let first: u64 = texts(&lines)[2].parse().unwrap();
    assert_eq!(first, gap.frames);
    // each line is shown once, up to the last
    let mut expected = first + lines.len() as u64 - 2;
    while expected < sent as u64 {
        let lines = texts(&next(&mut slow).await);
        assert_eq!(lines[0], expected.to_string());
        expected += lines.len() as u64;
    }
    let (stored, bytes) = {
        let stored = window.0.stored.lock();
        (stored.lines.len(), stored.bytes)
    };
    assert!(
        stored <= MAX_LINES && bytes <= MAX_BYTES,
        "{stored} {bytes}"
    );
}
