//! Frames of grpc-go, and of nobody.

use proptest::prelude::*;

use super::*;

/// What a mapper made with KubeEdge's mapper-framework 1.23 (grpc-go) sends to `/etc/kubeedge/dmi.sock`, until its first request is
/// whole.
const OF_A_MAPPER: &str = "\
    505249202a20485454502f322e300d0a0d0a534d0d0a0d0a000000040000000000000000040100000000000070010400 \
    000001838645a063b8632a4615ef97b9885d03a87316cdc5b3b98856340ebacb66d2cc6424b67f419454584a922a2c3d \
    6d8ca59262aa2c325265d072755f8b1d75d0620d263d4c4d65647a8a9acac8b4c7602bb8eae140027465864d833505b1 \
    1f40899acac8b24d494f6a7f867df7df7056ff00002c0001000000010000000027080112230a016d120276311a027631 \
    2201782a0f2f746d702f6970632f6d2e736f636b32026f6b ";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The preface, and one frame that begins a request with these fields.
fn request(flags: u8, fields: &[u8]) -> Vec<u8> {
    let length = u8::try_from(fields.len()).unwrap();
    [&[b'x'; PREFACE][..], &[0, 0, length, HEADERS, flags, 0, 0, 0, 1], fields].concat()
}

fn all_at_once(bytes: &[u8]) -> Vec<u8> {
    Authorities::default().pass(bytes)
}

#[test]
fn a_mapper_of_go_names_no_path() {
    let sent = bytes(OF_A_MAPPER);
    // -2Fetc-2Fkubeedge-2Fdmi.sock in place of %2Fetc%2Fkubeedge%2Fdmi.sock
    let (before, after) =
        ("419454584a922a2c3d6d8ca59262aa2c325265d07275", "419458584a922c2c3d6d8ca59262ac2c325265d07275");
    let hex: String = all_at_once(&sent).iter().map(|byte| format!("{byte:02x}")).collect();
    let expected: String = sent.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected.replace(before, after));
}

#[test]
fn a_plain_authority_is_mended_and_no_other_field() {
    let field = |name: u8, value: &str| [&[name, value.len() as u8], value.as_bytes()].concat();
    for (flags, begin) in [(0, &[][..]), (PADDED, &[0]), (PRIORITY, &[0; 5]), (PADDED | PRIORITY, &[0; 6])] {
        let fields = |authority: &str| {
            // :path by its number, another name spelled, a field of one number, a smaller table
            let others = [
                field(0x44, "/a%2F"),
                [&[0x00, 1, b'n'][..], &field(0, "/%")[1..]].concat(),
                vec![0x83, 0x3f, 0xe1, 0x1f],
            ];
            [begin, &others.concat(), &field(0x41, authority), &field(0x01, authority)].concat()
        };
        assert_eq!(all_at_once(&request(flags, &fields("%2Fa/b"))), request(flags, &fields("-2Fa-b")));
    }
}

#[test]
fn what_is_no_request_goes_through() {
    let large = [&[b'x'; PREFACE][..], &[1, 0, 0, HEADERS, 0, 0, 0, 0, 1], &vec![0x41; 65536]].concat();
    assert_eq!(all_at_once(&large), large);
    for fields in [&[0x41][..], &[0x41, 0xff, 0xff, 0xff, 0xff, 0xff], &[0x41, 5, b'%'], &[0x7f, 0xff], &[]] {
        assert_eq!(all_at_once(&request(0, fields)), request(0, fields), "{fields:?}");
    }
}

proptest! {
    #[test]
    fn cuts_change_nothing(cuts in proptest::collection::vec(1_usize..40, 1..40)) {
        let sent = bytes(OF_A_MAPPER);
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
    fn any_bytes_keep_their_number(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let first = bytes.first_mut();
        first.into_iter().for_each(|byte| *byte |= 0x41);
        let sent = request(0, &bytes[..bytes.len().min(255)]);
        prop_assert_eq!(all_at_once(&sent).len(), sent.len());
    }
}
