//! Replays the stream tunnel between KubeEdge's own `CloudCore` and `EdgeCore`: every recorded frame is decoded and encoded back unchanged.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::Value;
use wire::tunnel::{Connect, Frame, Kind};

fn frames() -> Vec<(bool, Vec<u8>)> {
    let lines = include_str!("../fixtures/tunnel/edgecore-cloudcore-1.23.jsonl").lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let frame = |line: Value| {
        Some((
            line["dir"] == "c2e",
            STANDARD.decode(line["frame"].as_str()?).unwrap(),
        ))
    };
    lines.filter_map(frame).collect()
}

#[test]
fn every_recorded_frame_is_read_and_written_as_it_was() {
    let mut kinds = Vec::new();
    for (from_cloud, bytes) in frames() {
        let frame = Frame::decode(Bytes::from(bytes.clone())).unwrap();
        assert_eq!(frame.encode(), bytes);
        kinds.push((from_cloud, frame.kind));
    }
    for kind in [Kind::Logs, Kind::Exec, Kind::Data, Kind::RemoveConnect] {
        assert!(kinds.contains(&(true, kind)), "{kind:?}");
    }
    assert!(kinds.contains(&(false, Kind::Data)) && kinds.contains(&(false, Kind::RemoveConnect)));
}

#[test]
fn recorded_requests_are_read_and_written_with_the_same_values() {
    let mut paths = Vec::new();
    for (_, bytes) in frames() {
        let frame = Frame::decode(Bytes::from(bytes)).unwrap();
        if !matches!(frame.kind, Kind::Logs | Kind::Exec) {
            continue;
        }
        let connect = Connect::decode(&frame.data).unwrap();
        assert_eq!(connect.id, frame.id);
        let recorded: Value = serde_json::from_slice(&frame.data).unwrap();
        assert_eq!(serde_json::to_value(&connect).unwrap(), recorded);
        paths.push(format!(
            "{} {}?{}",
            connect.method.unwrap_or_default(),
            connect.url.path,
            connect.url.raw_query
        ));
    }
    assert_eq!(
        paths,
        [
            " /containerLogs/default/cap/c?tailLines=3",
            " /containerLogs/default/cap/c?follow=true&tailLines=1",
            " /containerLogs/default/cap/c?previous=true",
            "POST /exec/default/cap/c?command=%2Fbin%2Fecho&command=hi&error=1&output=1",
        ]
    );
    let made = Connect::new(1, "/containerLogs/default/cap/c", "tailLines=3")
        .header("Accept-Encoding", "gzip")
        .header("User-Agent", "Go-http-client/2.0");
    let frame = Frame::decode(Bytes::from(frames()[0].1.clone())).unwrap();
    assert_eq!(made, Connect::decode(&frame.data).unwrap());
}
