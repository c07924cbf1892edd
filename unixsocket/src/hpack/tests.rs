//! Tests with the examples of RFC 7541 and with malformed fields.

use super::*;

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| Some(digit.to_digit(16)? as u8))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Encodes a field with a literal name and value, which begins with this byte.
pub(crate) fn literal(first: u8, name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![first];
    for text in [name, value] {
        put_number(&mut field, 7, text.len());
        field.extend_from_slice(text.as_bytes());
    }
    field
}

#[test]
fn the_length_of_what_is_in_huffmans_code() {
    // from appendix C, and codes of 13, 23, 28 and 30 bits
    for (hex, length) in [
        ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com".len()),
        ("a8eb10649cbf", "no-cache".len()),
        ("25a849e95bb8e8b4bf", "custom-value".len()),
        ("6402", "302".len()),
        (
            "d07abe941054d444a8200595040b8166e082a62d1bff",
            "Mon, 21 Oct 2013 20:13:21 GMT".len(),
        ),
        (
            "94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
            "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1".len(),
        ),
        ("ffc7", 1),
        ("ffffb1", 1),
        ("fffffe2f", 1),
        ("fffffff3", 1),
        ("", 0),
    ] {
        assert_eq!(huffman_length(&bytes(hex)), Some(length), "{hex}");
    }
}

#[test]
fn an_authority_is_found_however_its_name_is_written() {
    let spelled = |first| literal(first, ":authority", "a%2Fb");
    let huffman = [&[0x40, 0x88][..], AUTHORITY_HUFFMAN, &[5], b"a%2Fb"].concat();
    for block in [
        spelled(0x40),
        spelled(0x00),
        spelled(0x10),
        huffman,
        [&[0x41, 5][..], b"a%2Fb"].concat(),
    ] {
        let expected = [block.strip_suffix(b"a%2Fb").unwrap(), b"xxxxx"].concat();
        assert_eq!(Fields::default().mend(&block), Some(expected), "{block:x?}");
    }
    // %2Fetc%2F in Huffman code
    let huffman = [0x41, 0x87, 0x54, 0x58, 0x4a, 0x92, 0x2a, 0x2c, 0x3f];
    assert_eq!(
        Fields::default().mend(&huffman),
        Some([&[0x41, 9][..], b"xxxxxxxxx"].concat())
    );
}

#[test]
fn a_name_is_found_in_the_table_until_it_has_left_it() {
    let mut fields = Fields::default();
    let mut mend = |block: &[u8]| fields.mend(block);
    assert!(mend(&literal(0x40, ":authority", "/")).is_some());
    assert!(mend(&literal(0x40, "other", "/")).is_some());
    // index 62 is the newest field; its value does not matter
    assert_eq!(mend(&[0x7e, 1, b'/']), Some(vec![0x7e, 1, b'/']));
    // that field was added too, so the authority at 62 is now the third
    assert_eq!(
        mend(&[0x0f, 0x31, 1, b'/']),
        Some(vec![0x0f, 0x31, 1, b'x'])
    );
    assert_eq!(mend(&[0x0f, 0x32, 1, b'/']), None, "there is no fourth");
    // room for the two newest fields only
    let size = 2 * (OVERHEAD + "other/".len());
    let smaller = [0x3f, u8::try_from(size - 31).unwrap()];
    assert_eq!(mend(&smaller), Some(smaller.to_vec()));
    assert_eq!(mend(&[0x0f, 0x31, 1, b'/']), None);
    // a field that is too large for the table empties it
    assert!(mend(&literal(0x40, "large", &"v".repeat(size))).is_some());
    assert_eq!(mend(&[0xbe]), None);
}

#[test]
fn what_is_no_field_is_refused() {
    let mut larger = vec![0x20 | 0x1f];
    put_number(&mut larger, 7, 0);
    for block in [
        &[0x41][..],
        &[0x41, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0x41, 5, b'%'],
        &[0x80],
        &[0xbe],
        // a table of 4097 bytes
        &[0x3f, 0xe2, 0x1f],
        &larger[..1],
    ] {
        assert_eq!(Fields::default().mend(block), None, "{block:x?}");
    }
}
