//! Recordings are read as they were written; damaged ones are named; secrets are nowhere.

use std::{collections::BTreeMap, fs, io::Cursor, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::{Message, Route, tunnel};

use crate::{
    Body, Connection, End, Fault, Gap, Header, Limits, Line, Options, ReadError, Reader, Recording,
    Side, Transport, VERSION,
    block::{self, BlockError, INDEX_BYTES, Index},
    file::Files,
    line::FORMAT,
};

fn options(path: &Path) -> Options {
    Options {
        path: path.to_owned(),
        limits: Limits::default(),
        program: "test 1".to_owned(),
        side: Side::Cloud,
        redact: true,
    }
}

pub(crate) fn message(resource: &str, content: Value) -> Message {
    let route = Route {
        source: "edgecontroller".to_owned().into(),
        group: "resource".to_owned().into(),
        operation: "update".to_owned().into(),
        resource: resource.into(),
        destination: String::new(),
    };
    Message::new(route, content, 1)
}

/// Records messages, and returns the file.
fn recording_of(messages: &[Message]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let recording = Recording::start(options(&path)).unwrap();
    let connection = recording.recorder().connect(
        Transport::WebSocket,
        "edge-1",
        "127.0.0.1:1",
        BTreeMap::new(),
    );
    for message in messages {
        connection.message(Side::Cloud, message, 10);
    }
    drop(connection);
    recording.finish();
    fs::read(path).unwrap()
}

fn lines(bytes: &[u8]) -> Vec<Result<Line, ReadError>> {
    Reader::new(Cursor::new(bytes)).collect()
}

fn errors(bytes: &[u8]) -> Vec<ReadError> {
    lines(bytes).into_iter().filter_map(Result::err).collect()
}

fn pods(count: usize) -> Vec<Message> {
    (0..count)
        .map(|number| {
            message(
                &format!("default/pod/p{number}"),
                json!({"metadata": {"name": format!("p{number}"), "fill": "x".repeat(1000)}}),
            )
        })
        .collect()
}

/// Returns the offsets of the blocks.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        found.push(at);
        let head = bytes[at..at + INDEX_BYTES].try_into().unwrap();
        at += INDEX_BYTES + Index::decode(head).unwrap().compressed as usize;
    }
    found
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let sent = pods(1000);
    let bytes = recording_of(&sent);
    let lines: Vec<Line> = lines(&bytes).into_iter().map(Result::unwrap).collect();
    let Some(Line::Recording(header)) = lines.first() else {
        panic!("no header");
    };
    assert_eq!(
        (header.program.as_str(), header.part, header.redacted),
        ("test 1", 1, true)
    );
    let read: Vec<&Message> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Frame(frame) => match &frame.body {
                Body::Message(message) => Some(message.as_ref()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert!(read.into_iter().eq(&sent));
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.connection == 1));
    let times: Vec<u64> = lines.iter().filter_map(Line::time).collect();
    assert!(times.is_sorted());
    assert!(offsets(&bytes).len() > 2, "several blocks");
}

#[test]
fn the_file_is_one_of_zstd() {
    let bytes = recording_of(&pods(3));
    let mut text = Vec::new();
    let mut rest = &bytes[..];
    // the index entries are skippable frames; a tool leaves them out
    while !rest.is_empty() {
        let index = Index::decode(rest[..INDEX_BYTES].try_into().unwrap()).unwrap();
        let end = INDEX_BYTES + index.compressed as usize;
        text.extend(index.decompress(&rest[INDEX_BYTES..end]).unwrap());
        rest = &rest[end..];
    }
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 6);
    assert_eq!(bytes[..4], [0x5b, 0x2a, 0x4d, 0x18]);
}

#[test]
fn a_truncated_recording_is_read_to_its_last_whole_block() {
    let bytes = recording_of(&pods(1000));
    let blocks = offsets(&bytes);
    let last = *blocks.last().unwrap();
    for cut in [
        last + 1,
        last + INDEX_BYTES,
        last + INDEX_BYTES + 1,
        bytes.len() - 1,
    ] {
        let read = lines(&bytes[..cut]);
        let (Some(Err(error)), before) = (read.last(), &read[..read.len() - 1]) else {
            panic!("no error");
        };
        assert!(matches!(error.fault, Fault::Truncated), "{error}");
        assert_eq!(error.offset, last as u64);
        assert!(before.len() > 500 && before.iter().all(Result::is_ok));
    }
    assert!(errors(&bytes[..last]).is_empty());
}

#[test]
fn a_damaged_block_is_named_and_the_others_are_read() {
    let bytes = recording_of(&pods(1000));
    let at = offsets(&bytes)[1];
    let mut damaged = bytes.clone();
    damaged[at + INDEX_BYTES + 10] ^= 1;
    let found = errors(&damaged);
    assert!(
        matches!(&found[..], [ReadError { offset, next, fault: Fault::Block(BlockError::Checksum) }]
            if *offset == at as u64 && *next == Some(offsets(&bytes)[2] as u64))
    );
    let read = lines(&damaged).len();
    assert!(read > 200 && read < lines(&bytes).len());
}

/// The begin and the end of what cannot be read.
type LostBytes = (u64, u64);

#[test]
fn bytes_without_an_index_entry_are_named_and_what_follows_is_read() {
    let bytes = recording_of(&pods(1000));
    let blocks = offsets(&bytes);
    let whole = lines(&bytes).len();
    let at = |block: usize| blocks[block] as u64;
    let mut inserted = bytes.clone();
    inserted.splice(blocks[2]..blocks[2], vec![0x5b; 200_000]);
    let flipped = |place: usize| {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        damaged
    };
    let last = *blocks.last().unwrap();
    for (damaged, lost) in [
        (flipped(blocks[1] + 9), (at(1), at(2))),
        (flipped(blocks[1]), (at(1), at(2))),
        // the header of the file is lost, too
        (flipped(9), (0, at(1))),
        (inserted, (at(2), at(2) + 200_000)),
        (flipped(last + 9), (last as u64, bytes.len() as u64)),
    ] {
        let read = lines(&damaged);
        let found: Vec<LostBytes> = read
            .iter()
            .filter_map(|line| match line {
                Err(error) => match error.fault {
                    Fault::Lost { end, .. } => Some((error.offset, end)),
                    _ => panic!("{error}"),
                },
                Ok(_) => None,
            })
            .collect();
        assert_eq!(found, [lost]);
        assert!(read.len() + 300 > whole, "{} of {whole}", read.len());
    }
}

#[test]
fn open_connections_are_repeated_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let header = Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        program: "test 1".to_owned(),
        kubeedge: String::new(),
        side: Side::Cloud,
        started: String::new(),
        part: 1,
        redacted: true,
    };
    let mut files = Files::create(&path, Limits::default(), header).unwrap();
    let connection = |id| {
        Line::Connection(Connection {
            id,
            time: 1,
            transport: Transport::WebSocket,
            node: format!("edge-{id}"),
            peer: String::new(),
            headers: BTreeMap::new(),
        })
    };
    let end = |connection| {
        Line::End(End {
            connection,
            time: 2,
        })
    };
    for line in [connection(1), connection(2), end(1)] {
        files.push(&line).unwrap();
    }
    for time in 3..100 {
        files.push(&Line::Gap(Gap { time, frames: 1 })).unwrap();
        files.flush().unwrap();
    }
    let read = lines(&fs::read(&path).unwrap());
    let of_node = |id| {
        let same = |line: &&Result<Line, ReadError>| {
            line.as_ref().is_ok_and(|line| *line == connection(id))
        };
        read.iter().filter(same).count()
    };
    assert_eq!((of_node(1), of_node(2)), (1, 4));
}

#[test]
fn missing_and_swapped_blocks_are_named() {
    let bytes = recording_of(&pods(1000));
    let blocks = offsets(&bytes);
    let missing = [&bytes[..blocks[1]], &bytes[blocks[2]..]].concat();
    let found = errors(&missing);
    assert!(
        matches!(
            &found[..],
            [ReadError {
                fault: Fault::Order(1, 2),
                ..
            }]
        ),
        "{found:?}"
    );
    let swapped = [
        &bytes[..blocks[1]],
        &bytes[blocks[2]..blocks[3]],
        &bytes[blocks[1]..blocks[2]],
        &bytes[blocks[3]..],
    ]
    .concat();
    assert_eq!(errors(&swapped).len(), 3);
}

#[test]
fn files_that_are_no_recording_are_refused() {
    for bytes in [
        &b""[..],
        b"a",
        b"{\"type\":\"recording\"}\n",
        &[0; 100],
        &[0x28, 0xb5, 0x2f, 0xfd],
    ] {
        let found = lines(bytes);
        assert!(
            matches!(
                &found[..],
                [Err(ReadError {
                    offset: 0,
                    next: None,
                    fault: Fault::NoRecording
                })]
            ),
            "{found:?}"
        );
    }
    let header = |version: u32| {
        let line = json!({"type": "recording", "format": "kubeedge-recording", "version": version, "program": "p", "kubeedge": "v1", "side": "edge", "started": "", "part": 1, "redacted": true});
        crate::block::encode(
            format!("{line}\n").as_bytes(),
            Index {
                lines: 1,
                ..Index::default()
            },
        )
    };
    assert!(lines(&header(1)).iter().all(Result::is_ok));
    let later = lines(&header(2));
    assert!(
        matches!(
            &later[..],
            [Err(ReadError {
                fault: Fault::Version(2),
                ..
            })]
        ),
        "{later:?}"
    );
}

#[test]
fn a_block_cannot_announce_more_than_it_may_have() {
    let lines = vec![b'x'; 1000];
    let block = crate::block::encode(&lines, Index::default());
    let head: [u8; INDEX_BYTES] = block[..INDEX_BYTES].try_into().unwrap();
    let index = Index::decode(&head).unwrap();
    // a bomb: the frame has more than the index entry says
    let small = Index { bytes: 10, ..index };
    assert_eq!(
        small.decompress(&block[INDEX_BYTES..]),
        Err(BlockError::Compression)
    );
    let large = Index {
        bytes: 2000,
        ..index
    };
    assert_eq!(
        large.decompress(&block[INDEX_BYTES..]),
        Err(BlockError::Size)
    );
    let mut head = head;
    head[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    let checksum = crc32fast::hash(&head[..44]).to_le_bytes();
    head[44..].copy_from_slice(&checksum);
    assert_eq!(Index::decode(&head), Err(BlockError::TooLarge(u32::MAX)));
}

#[test]
fn of_many_unreadable_lines_some_are_errors_and_the_next_block_is_read() {
    let line = |value: Value| format!("{value}\n").into_bytes();
    let header = line(
        json!({"type": "recording", "format": "kubeedge-recording", "version": 1, "program": "p", "kubeedge": "v1", "side": "edge", "started": "", "part": 1, "redacted": true}),
    );
    let gap = line(json!({"type": "gap", "time": 1, "frames": 2}));
    let block = |number: u32, lines: &[u8]| {
        crate::block::encode(
            lines,
            Index {
                number,
                ..Index::default()
            },
        )
    };
    let blank = [&gap[..], &b"\n".repeat(1_000_000)].concat();
    let later = line(json!({"type": "of a later version", "x": [1]}));
    let bytes = [
        block(0, &header),
        block(1, &blank),
        block(2, &later),
        block(3, &gap),
    ]
    .concat();
    let read = lines(&bytes);
    let (errors, good): (Vec<_>, Vec<_>) = read.iter().partition(|line| line.is_err());
    assert_eq!(errors.len(), 11);
    assert!(
        errors.iter().all(|error| matches!(
            error,
            Err(ReadError {
                fault: Fault::Line(..),
                ..
            })
        )),
        "{errors:?}"
    );
    assert!(
        matches!(
            &good[..],
            [
                Ok(Line::Recording(_)),
                Ok(Line::Gap(_)),
                Ok(Line::Unknown),
                Ok(Line::Gap(_)),
            ]
        ),
        "{good:?}"
    );
}

#[test]
fn lines_are_in_the_file_before_the_recording_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let recording = Recording::start(options(&path)).unwrap();
    let connection =
        recording
            .recorder()
            .connect(Transport::WebSocket, "edge-1", "", BTreeMap::new());
    connection.message(Side::Edge, &message("default/pod/p", json!(null)), 10);
    // as after kill -9: nothing is finished
    testkit::blocking::until("the lines are written", || {
        let read = lines(&fs::read(&path).unwrap());
        let is_whole = read.len() == 3 && read.iter().all(Result::is_ok);
        if is_whole { Ok(()) } else { Err(read.len()) }
    })
    .unwrap();
    recording.finish();
    // the connection was open until here, and nothing of it is written any more
    drop(connection);
    assert_eq!(lines(&fs::read(&path).unwrap()).len(), 3);
}

#[test]
fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("notes"), "precious").unwrap();
    fs::write(place("old.1"), "precious").unwrap();
    std::os::unix::fs::symlink("notes", place("link")).unwrap();
    fs::create_dir(place("folder")).unwrap();
    let running = Recording::start(options(&place("running"))).unwrap();
    for (name, why) in [
        ("notes", "no recording"),
        ("old", "no recording"),
        ("link", "no regular file"),
        ("folder", "no regular file"),
        ("running", "written by another program"),
    ] {
        let refused = Recording::start(options(&place(name))).unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains(why), "{name}: {text}");
    }
    running.finish();
    for name in ["notes", "old.1"] {
        assert_eq!(fs::read_to_string(place(name)).unwrap(), "precious");
    }
    assert!(Recording::start(options(&place("running"))).is_ok());
}

#[test]
fn files_rotate_and_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    fs::write(&path, block::MAGIC).unwrap();
    let limits = Limits {
        file_bytes: 20_000,
        files: 3,
    };
    let recording = Recording::start(Options {
        limits,
        ..options(&path)
    })
    .unwrap();
    let connection = recording
        .recorder()
        .connect(Transport::Quic, "edge-1", "", BTreeMap::new());
    for round in 0..2000 {
        // hardly compressible
        let fill: String = (0..30).map(|_| Message::new_id()).collect();
        connection.message(
            Side::Cloud,
            &message("default/pod/p", json!({"round": round, "fill": fill})),
            10,
        );
    }
    recording.finish();
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["recording", "recording.1", "recording.2"]);
    for name in names {
        let lines: Vec<_> = lines(&fs::read(folder.path().join(name)).unwrap())
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let [Line::Recording(header), Line::Connection(connection), ..] = &lines[..] else {
            panic!("each file begins with its header and the open connections");
        };
        assert!(header.part > 1 && connection.id == 1 && connection.node == "edge-1");
    }
}

#[test]
fn no_secret_is_recorded() {
    const CANARY: &str = "canary-1234567890";
    let jwt = format!("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.{CANARY}");
    let encoded = STANDARD.encode(CANARY);
    let secret = json!({"metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": format!("{{\"data\":{{\"k\":\"{encoded}\"}}}}")}}, "data": {"k": encoded}, "stringData": {"k": CANARY}, "type": "Opaque"});
    let list = json!({"kind": "SecretList", "items": [secret.clone()]});
    let sent = [
        message("default/secret/s", secret.clone()),
        message(
            "default/secret/s",
            json!({"Object": secret.clone(), "Err": null}),
        ),
        message("default/other/s", secret),
        message(
            "default/serviceaccounttoken/a",
            json!({"status": {"token": jwt}}),
        ),
        message(
            "ignore/Application/ignore",
            json!({"Key": "/core/v1/secrets/default/null", "RespBody": STANDARD.encode(list.to_string())}),
        ),
        message(
            "80:/x",
            json!({"header": {"Authorization": [format!("Bearer {CANARY}")], "Cookie": [CANARY], "Accept": ["a"]}, "body": STANDARD.encode(format!("{{\"password\":\"{CANARY}\"}}"))}),
        ),
        message(
            "default/podpatch/p",
            json!(format!("{{\"status\":{{\"message\":\"token={CANARY}\"}}}}")),
        ),
        message("default/up", json!(format!("login with {jwt}"))),
        message(
            "default/configmap/c",
            json!({"data": {"config.yaml": format!("db:\n  dbpass: {CANARY}\n"), "key.pem": format!("-----BEGIN EC PRIVATE KEY-----\n{CANARY}\n-----END EC PRIVATE KEY-----")}}),
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let record = |redact: bool| {
        let recording = Recording::start(Options {
            redact,
            ..options(&path)
        })
        .unwrap();
        let headers = BTreeMap::from([("authorization".to_owned(), format!("Bearer {jwt}"))]);
        let connection =
            recording
                .recorder()
                .connect(Transport::Enrolment, "edge-1", "", headers.clone());
        sent.iter()
            .for_each(|message| connection.message(Side::Cloud, message, 10));
        connection.request("GET", "/edge.crt", headers, b"csr");
        connection.tunnel(
            Side::Edge,
            &tunnel::Frame::new(1, tunnel::Kind::Data, CANARY.as_bytes().to_vec()),
        );
        let exec = tunnel::Connect::new(
            2,
            "/exec/default/p/c",
            format!("command=sh&command={CANARY}&output=1"),
        )
        .header("Authorization", CANARY);
        connection.tunnel(Side::Cloud, &exec.frame(tunnel::Kind::Exec).unwrap());
        connection.raw(Side::Edge, "malformed", CANARY.as_bytes());
        connection.raw(
            Side::Edge,
            "close",
            &[&[3, 232], CANARY.as_bytes()].concat(),
        );
        drop(connection);
        recording.finish();
        let lines = lines(&fs::read(&path).unwrap());
        lines
            .into_iter()
            .map(|line| serde_json::to_string(&line.unwrap()).unwrap() + "\n")
            .collect::<String>()
    };
    let text = record(true);
    for form in [
        CANARY.to_owned(),
        STANDARD.encode(CANARY),
        STANDARD.encode(list.to_string()),
    ] {
        assert!(!text.contains(&form), "{form}\n{text}");
    }
    assert_eq!(text.lines().count(), sent.len() + 8);
    // the code of a close frame and the program of an exec stay
    assert!(text.contains("\"raw\":\"A+g=\""), "{text}");
    let request = text.lines().find(|line| line.contains("\"Exec\"")).unwrap();
    let request: Value = serde_json::from_str(request).unwrap();
    let request = STANDARD
        .decode(request["tunnel"]["data"].as_str().unwrap())
        .unwrap();
    let request = tunnel::Connect::decode(&request).unwrap();
    assert_eq!(request.url.raw_query, "command=sh&command=***&output=1");
    assert_eq!(request.header["Authorization"], ["***"]);
    assert!(text.contains("\"Accept\":[\"a\"]") && text.contains("\"redacted\":true"));
    // a Secret still has data in base64
    assert!(text.contains(&format!(
        "\"data\":{{\"k\":\"{}\"}}",
        STANDARD.encode("***")
    )));
    let everything = record(false);
    assert!(everything.contains(CANARY) && everything.contains("\"redacted\":false"));
}

#[test]
fn messages_of_kubeedge_without_secrets_stay_as_they_are() {
    for line in include_str!("../../wire/tests/fixtures/edgecore-cloudcore-1.23-full.jsonl").lines()
    {
        let value: Value = serde_json::from_str(line).unwrap();
        let message: Message = serde_json::from_value(value["frame"].clone()).unwrap();
        let mut masked = message.clone();
        crate::redact::Redactor::default().message(&mut masked);
        let has_secret = ["secret", "serviceaccounttoken", "eyJ", "Authorization"]
            .iter()
            .any(|word| line.contains(word));
        assert!(has_secret || masked == message, "{line}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic_or_run_forever(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(lines(&bytes).len() < 10);
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed(position in any::<prop::sample::Index>(), bit in 0..8) {
        let mut bytes = recording_of(&pods(2));
        let at = position.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(!errors(&bytes).is_empty());
    }
}
