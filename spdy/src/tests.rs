//! Tests with recorded bytes, with two ends against each other, and with a hostile peer.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use crate::{
    Connection, Error, Event, Headers, MAX_STREAMS, Role, SendError, Status,
    compress::{Deflater, Inflater},
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn all(connection: &mut Connection, bytes: &[u8]) -> Result<Vec<Event>, Error> {
    let mut input = BytesMut::from(bytes);
    let mut events = Vec::new();
    while let Some(event) = connection.receive(&mut input)? {
        events.push(event);
    }
    Ok(events)
}

fn stream_type(kind: &str) -> Headers {
    Headers::new().with("streamType", kind)
}

/// Blocks as Go writes them: zlib, level 9, with the dictionary, in one stream.
const BLOCKS: [&str; 3] = [
    "78f9e3c6a7c202a62346703a2b294a4dcc851625aca9a08006000000ffff",
    "c22e555c02cc2e00000000ffff",
    "02321800000000ffff",
];

#[test]
fn blocks_of_another_implementation_are_read_one_after_the_other() {
    let mut inflater = Inflater::new();
    let read: Vec<_> = BLOCKS
        .map(|block| Headers::decode(&inflater.block(&hex(block)).unwrap()).unwrap())
        .to_vec();
    assert_eq!(
        read,
        [stream_type("error"), stream_type("stdin"), Headers::new()]
    );
}

#[test]
fn the_first_block_names_the_dictionary_and_each_ends_with_a_sync_flush() {
    let mut deflater = Deflater::new();
    let first = deflater.block(&stream_type("error").encode()).unwrap();
    assert_eq!(first[2..6], hex("e3c6a7c2"), "the dictionary's Adler-32");
    let second = deflater.block(&stream_type("stdin").encode()).unwrap();
    for block in [&first, &second] {
        assert_eq!(block[block.len() - 4..], hex("0000ffff"));
    }
    let mut inflater = Inflater::new();
    for (block, kind) in [(first, "error"), (second, "stdin")] {
        assert_eq!(
            Headers::decode(&inflater.block(&block).unwrap()).unwrap(),
            stream_type(kind)
        );
    }
}

#[test]
fn a_peer_that_does_not_compress_is_understood() {
    // a stored block, without the dictionary, and the empty one that flushes it
    let frame = hex(
        "8003000100000031 00000001 00000000 0000 7801 001b00e4ff 000000010000000a73747265616d74797065000000056572726f72 000000ffff",
    );
    let mut server = Connection::new(Role::Server);
    let expected = Event::Opened {
        id: 1,
        headers: stream_type("error"),
        fin: false,
        unidirectional: false,
    };
    assert_eq!(all(&mut server, &frame), Ok(vec![expected.clone()]));
    let mut server = Connection::new(Role::Server);
    let mut input = BytesMut::new();
    let mut events = Vec::new();
    for byte in frame {
        input.extend_from_slice(&[byte]);
        events.extend(server.receive(&mut input).unwrap());
    }
    assert_eq!(events, [expected], "byte by byte");
}

#[test]
fn an_exec_goes_through_with_half_close_and_status() {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    let stdin = client.open(&stream_type("stdin"), false).unwrap();
    let opened = all(&mut server, &client.take_output()).unwrap();
    assert!(
        matches!(&opened[..], [Event::Opened { id: 1, headers, .. }] if headers.get("StreamType") == Some("stdin"))
    );
    server.reply(stdin).unwrap();
    assert_eq!(server.reply(stdin), Err(SendError::Ended), "once");
    assert_eq!(
        all(&mut client, &server.take_output()).unwrap(),
        [Event::Accepted {
            id: stdin,
            fin: false
        }]
    );
    client.send(stdin, b"in", true).unwrap();
    assert_eq!(client.send(stdin, b"more", false), Err(SendError::Ended));
    let data = |bytes: &'static [u8], fin| Event::Data {
        id: stdin,
        bytes: Bytes::from_static(bytes),
        fin,
    };
    assert_eq!(
        all(&mut server, &client.take_output()).unwrap(),
        [data(b"in", true)]
    );
    server.send(stdin, b"out", false).unwrap();
    server.go_away();
    let end = all(&mut client, &server.take_output()).unwrap();
    assert_eq!(
        end,
        [
            data(b"out", false),
            Event::Reset {
                id: stdin,
                status: Status::Cancel
            },
            Event::GoAway
        ]
    );
    assert_eq!(
        client.open(&Headers::new(), false),
        Err(SendError::NoMoreStreams)
    );
}

#[test]
fn pings_of_the_peer_come_back_and_ours_are_answered() {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    let number = client.ping();
    assert_eq!(number, 1);
    assert_eq!(all(&mut server, &client.take_output()).unwrap(), []);
    assert_eq!(
        all(&mut client, &server.take_output()).unwrap(),
        [Event::Pong(1)]
    );
}

#[test]
fn settings_and_windows_are_ignored_and_unknown_frames_end_the_connection() {
    let mut server = Connection::new(Role::Server);
    let settings = hex("80030004 0000000c 00000001 00000004 00000064");
    let window = hex("80030009 00000008 00000001 7fffffff");
    assert_eq!(all(&mut server, &[settings, window].concat()), Ok(vec![]));
    assert_eq!(
        all(&mut server, &hex("8003000a 00000000")),
        Err(Error::UnknownType(10))
    );
}

#[test]
fn what_exceeds_a_bound_is_refused() {
    let mut server = Connection::new(Role::Server);
    assert_eq!(
        all(&mut server, &hex("80030001 00ffffff")),
        Err(Error::TooLong(0xff_ffff))
    );
    // a small block that inflates to more than is allowed
    let mut deflater = Deflater::new();
    let large = deflater.block(&vec![0; 10 * 1024 * 1024]).unwrap();
    assert!(large.len() < 20_000);
    assert_eq!(Inflater::new().block(&large), Err(Error::BlockTooLarge));
    let many = Headers::decode(&[0, 0, 1, 0]);
    assert_eq!(many, Err(Error::TooManyHeaders(256)));
    assert_eq!(
        Headers::decode(&hex("00000001 ffffffff")),
        Err(Error::Block)
    );
}

#[test]
fn streams_beyond_the_bound_are_refused_and_the_compression_goes_on() {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    for _ in 0..MAX_STREAMS {
        client.open(&stream_type("data"), false).unwrap();
    }
    assert_eq!(
        client.open(&stream_type("data"), false),
        Err(SendError::NoMoreStreams)
    );
    assert_eq!(
        all(&mut server, &client.take_output()).unwrap().len(),
        MAX_STREAMS
    );
    // the client forgets a stream that the server still has
    client.streams.remove(&1);
    let id = client.open(&stream_type("data"), false).unwrap();
    assert_eq!(all(&mut server, &client.take_output()).unwrap(), []);
    let answer = all(&mut client, &server.take_output()).unwrap();
    assert_eq!(
        answer,
        [Event::Reset {
            id,
            status: Status::RefusedStream
        }]
    );
    server.reset(1, Status::Cancel);
    client.open(&stream_type("later"), false).unwrap();
    let opened = all(&mut server, &client.take_output()).unwrap();
    assert!(
        matches!(&opened[..], [Event::Opened { headers, .. }] if *headers == stream_type("later"))
    );
}

#[test]
fn numbers_that_go_back_or_are_not_the_peers_are_refused() {
    for id in ["00000002", "00000001"] {
        let (mut client, mut server) =
            (Connection::new(Role::Client), Connection::new(Role::Server));
        client.open(&stream_type("error"), false).unwrap();
        all(&mut server, &client.take_output()).unwrap();
        client.open(&stream_type("stdin"), false).unwrap();
        let mut frame = client.take_output().to_vec();
        frame[8..12].copy_from_slice(&hex(id));
        assert_eq!(all(&mut server, &frame), Ok(vec![]));
        assert_eq!(
            server.take_output()[..16],
            hex(&format!("80030003 00000008 {id} 00000001"))
        );
    }
}

#[test]
fn bytes_for_no_stream_are_dropped() {
    let mut server = Connection::new(Role::Server);
    assert_eq!(all(&mut server, &hex("00000007 01000002 6162")), Ok(vec![]));
    assert_eq!(
        all(&mut server, &hex("00000000 01000002 6162")),
        Err(Error::StreamZero(0))
    );
}

proptest! {
    #[test]
    fn whatever_comes_is_read_in_pieces_as_at_once(bytes: Vec<u8>, cut in 0_usize..64) {
        let mut whole = Connection::new(Role::Server);
        let at_once = all(&mut whole, &bytes);
        let mut pieces = Connection::new(Role::Server);
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        let mut input = BytesMut::from(first);
        let mut failed = None;
        for part in [&[][..], second] {
            input.extend_from_slice(part);
            loop {
                match pieces.receive(&mut input) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => { failed.get_or_insert(error); break; }
                }
            }
        }
        prop_assert_eq!(at_once.err(), failed);
    }

    #[test]
    fn headers_come_back_as_they_were(pairs in proptest::collection::vec(("[a-z]{0,12}", ".{0,40}"), 0..20)) {
        let headers = pairs.iter().fold(Headers::new(), |headers, (name, value)| headers.with(name, value));
        prop_assert_eq!(Headers::decode(&headers.encode()), Ok(headers));
    }
}

/// `kubectl exec POD -- echo hi` as kube-apiserver (Go's spdystream) and containerd spoke it.
#[test]
fn a_recorded_exec_is_read_at_both_ends() {
    let mut server = Connection::new(Role::Server);
    let mut opened = Vec::new();
    for event in all(
        &mut server,
        include_bytes!("../tests/recorded/exec-echo.client"),
    )
    .unwrap()
    {
        let Event::Opened { id, headers, .. } = event else {
            panic!("{event:?}")
        };
        opened.push((id, headers.get("streamtype").unwrap().to_owned()));
    }
    let kinds = [(1, "error"), (3, "stdout"), (5, "stderr")];
    assert_eq!(opened, kinds.map(|(id, kind)| (id, kind.to_owned())));

    let mut client = Connection::new(Role::Client);
    for (_, kind) in kinds {
        client.open(&stream_type(kind), false).unwrap();
    }
    let events = all(
        &mut client,
        include_bytes!("../tests/recorded/exec-echo.server"),
    )
    .unwrap();
    let data = |id, bytes: &'static [u8], fin| Event::Data {
        id,
        bytes: Bytes::from_static(bytes),
        fin,
    };
    assert_eq!(
        events,
        [
            Event::Accepted { id: 1, fin: false },
            Event::Accepted { id: 3, fin: false },
            Event::Accepted { id: 5, fin: false },
            data(3, b"hi\n", false),
            data(3, b"", true),
            data(5, b"", true),
            data(1, br#"{"metadata":{},"status":"Success"}"#, false),
            Event::Reset {
                id: 1,
                status: Status::Cancel
            },
            Event::GoAway,
        ]
    );
}
