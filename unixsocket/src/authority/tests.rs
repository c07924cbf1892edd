//! Tests with recorded frames of gRPC libraries and with malformed ones.

use proptest::prelude::*;

use super::*;
use crate::hpack::{
    FILLER,
    tests::{bytes, literal},
};

/// The bytes that a mapper made with KubeEdge's mapper-framework 1.23 (grpc-go) sends to `/etc/kubeedge/dmi.sock`, up to the end of its
/// first request.
pub(crate) const OF_GO: &str = "\
    505249202a20485454502f322e300d0a0d0a534d0d0a0d0a000000040000000000000000040100000000000070010400 \
    000001838645a063b8632a4615ef97b9885d03a87316cdc5b3b98856340ebacb66d2cc6424b67f419454584a922a2c3d \
    6d8ca59262aa2c325265d072755f8b1d75d0620d263d4c4d65647a8a9acac8b4c7602bb8eae140027465864d833505b1 \
    1f40899acac8b24d494f6a7f867df7df7056ff00002c0001000000010000000027080112230a016d120276311a027631 \
    2201782a0f2f746d702f6970632f6d2e736f636b32026f6b ";

/// The bytes that Python's grpcio 1.85.3 (gRPC's C core) sends to `/tmp/dmi-cap.sock` for two requests, one after the other.
pub(crate) const OF_PYTHON: &str = "\
    505249202a20485454502f322e300d0a0d0a534d0d0a0d0a000024040000000000000200000000000300000000000400 \
    400000000500400000000600004000fe0300000001000004080000000000003f00010000000401000000000001070104 \
    0000000140053a706174682c2f763162657461312e4465766963654d616e61676572536572766963652f4d6170706572 \
    5265676973746572400a3a617574686f7269747912746d70253246646d692d6361702e736f636b8386400c636f6e7465 \
    6e742d74797065106170706c69636174696f6e2f677270634002746508747261696c6572734014677270632d61636365 \
    70742d656e636f64696e67176964656e746974792c206465666c6174652c20677a6970400c677270632d74696d656f75 \
    74043730306d400a757365722d6167656e7430677270632d707974686f6e2f312e38352e3320677270632d632f35382e \
    302e3020286c696e75783b20636874747032290003782d6b027630000004080000000001000000050000070001000000 \
    010000000002080100000408000000000000000005000011010400000003c4c38386c2c1c0bfbe0003782d6b02763100 \
    00040800000000030000000500000700010000000300000000020801";

const PREFACE_BYTES: [u8; PREFACE] = [b'p'; PREFACE];

fn frame(kind: u8, flags: u8, carried: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    put(&mut written, kind, flags, &[0, 0, 0, 1], &[carried]);
    written
}

fn all_at_once(bytes: &[u8]) -> Vec<u8> {
    Authorities::default().pass(bytes)
}

fn after_preface(frames: &[&[u8]]) -> Vec<u8> {
    let mut sent = [&PREFACE_BYTES[..], &frames.concat()].concat();
    sent = all_at_once(&sent);
    sent.split_off(PREFACE)
}

fn replace(sent: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = sent
        .windows(from.len())
        .position(|window| window == from)
        .unwrap();
    [&sent[..at], to, &sent[at + from.len()..]].concat()
}

#[test]
fn the_authority_of_pythons_client_is_replaced_and_nothing_else() {
    let sent = bytes(OF_PYTHON);
    assert_eq!(
        all_at_once(&sent),
        replace(&sent, b"tmp%2Fdmi-cap.sock", &[b'x'; 18])
    );
}

#[test]
fn the_authority_of_gos_client_is_written_out_and_its_frame_is_longer() {
    let sent = bytes(OF_GO);
    // 20 bytes of Huffman code: the path of 28 characters
    let code = bytes("419454584a922a2c3d6d8ca59262aa2c325265d07275");
    let expected = replace(&sent, &code, &[&[0x41, 28][..], &[b'x'; 28]].concat());
    assert_eq!(
        all_at_once(&sent),
        replace(&expected, &[0, 0, 0x70, HEADERS], &[0, 0, 0x78, HEADERS])
    );
}

#[test]
fn fields_are_found_behind_padding_and_a_priority() {
    let (block, mended) = (
        literal(0, ":authority", "/%"),
        literal(0, ":authority", "xx"),
    );
    let priority: &[u8] = &[0, 0, 0, 3, 7];
    for (flags, begin, end, expected) in [
        (0, &[][..], &[][..], &[][..]),
        (PADDED, &[2], &[0, 0], &[]),
        (PRIORITY, priority, &[], priority),
        (
            PADDED | PRIORITY,
            &[&[1], priority].concat(),
            &[0],
            priority,
        ),
    ] {
        let sent = frame(HEADERS, flags | END_HEADERS, &[begin, &block, end].concat());
        let kept = (flags & PRIORITY) | END_HEADERS;
        assert_eq!(
            after_preface(&[&sent]),
            frame(HEADERS, kept, &[expected, &mended].concat())
        );
    }
}

#[test]
fn fields_that_go_on_in_further_frames_are_read_as_one() {
    let block = literal(0x40, ":authority", "a/b");
    for cut in 0..=block.len() {
        let (begin, end) = block.split_at(cut);
        let sent = [
            frame(HEADERS, 0, begin),
            frame(CONTINUATION, 0, &[]),
            frame(CONTINUATION, END_HEADERS, end),
            // the indexed field may have any value
            frame(HEADERS, END_HEADERS, &[0xbe]),
        ];
        let expected = [
            frame(HEADERS, END_HEADERS, &literal(0x40, ":authority", "xxx")),
            frame(HEADERS, END_HEADERS, &[0xbe]),
        ];
        assert_eq!(
            after_preface(&sent.each_ref().map(Vec::as_slice)),
            expected.concat(),
            "{cut}"
        );
    }
}

#[test]
fn fields_that_became_too_long_for_a_frame_are_told_in_two() {
    // e in Huffman code: five bits
    let (authority, others) = (
        vec![0x29, 0x4a, 0x52, 0x94, 0xa5],
        vec![b'v'; MAX_FRAME - 120],
    );
    let other = literal(0, "n", std::str::from_utf8(&others).unwrap());
    let value = authority.repeat(20);
    let block = [&[0x01, 0x80 | 100][..], &value, &other].concat();
    let passed = after_preface(&[&frame(HEADERS, END_HEADERS, &block)]);
    let mended = [&[0x01, 0x7f, 33][..], &[b'x'; 160], &other].concat();
    let (begin, end) = mended.split_at(MAX_FRAME);
    assert_eq!(
        passed,
        [
            frame(HEADERS, 0, begin),
            frame(CONTINUATION, END_HEADERS, end)
        ]
        .concat()
    );
}

#[test]
fn what_does_not_keep_to_the_protocol_goes_through_to_the_server() {
    let request = frame(HEADERS, END_HEADERS, &literal(0, ":authority", "/"));
    let begun = frame(HEADERS, 0, &[0x82]);
    let mut other_stream = frame(CONTINUATION, END_HEADERS, &literal(0, ":authority", "/"));
    other_stream[8] = 3;
    for wrong in [
        // no fields, more padding than there is, a frame that is too large
        frame(HEADERS, END_HEADERS, &[0xbe]),
        frame(HEADERS, END_HEADERS | PADDED, &[9, 0x82]),
        frame(HEADERS, END_HEADERS, &vec![0x82; MAX_FRAME + 1]),
        // another frame in between, or a frame of another stream
        [&begun[..], &frame(0, 0, b"data")].concat(),
        [&begun[..], &request].concat(),
        [&begun[..], &other_stream].concat(),
        // more bytes than any client sends
        [
            &begun[..],
            &frame(CONTINUATION, 0, &[0x82; MAX_FRAME]).repeat(4),
        ]
        .concat(),
        [
            &begun[..],
            &frame(CONTINUATION, 0, &[]).repeat(MAX_HELD / HEAD + 1),
        ]
        .concat(),
    ] {
        assert_eq!(
            after_preface(&[&wrong, &request]),
            [wrong, request.clone()].concat()
        );
    }
    // a CONTINUATION without a beginning, and a frame of an unknown type, carry no fields
    let others = [
        frame(CONTINUATION, END_HEADERS, &[]),
        frame(0xfe, 0xff, &[0; 3]),
        frame(0, 1, &[]),
    ]
    .concat();
    assert_eq!(after_preface(&[&others]), others);
}

proptest! {
    #[test]
    fn cuts_change_nothing(cuts in proptest::collection::vec(1_usize..40, 1..40), of_go: bool) {
        let sent = bytes(if of_go { OF_GO } else { OF_PYTHON });
        let (mut authorities, mut passed, mut rest) = (Authorities::default(), Vec::new(), &sent[..]);
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(*cut));
            passed.extend(authorities.pass(now));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(passed, all_at_once(&sent));
    }

    #[test]
    fn no_bytes_are_lost(block in proptest::collection::vec(any::<u8>(), 0..300), flags: u8) {
        let sent = frame(HEADERS, flags | END_HEADERS, &block);
        let passed = after_preface(&[&sent]);
        prop_assert!(passed == sent || passed.iter().filter(|byte| **byte == FILLER).count() > 0);
    }
}
