//! Bodies by hand.

/// A body of this kind.
pub(super) fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = join(&[text(1, api_version), text(2, kind)]);
    join(&[
        b"k8s\0".to_vec(),
        bytes(1, &type_meta),
        bytes(2, raw),
        text(3, ""),
        text(4, ""),
    ])
}

pub(super) fn join(fields: &[Vec<u8>]) -> Vec<u8> {
    fields.concat()
}

pub(super) fn number(field: u32, value: u64) -> Vec<u8> {
    join(&[varint(u64::from(field) << 3), varint(value)])
}

pub(super) fn text(field: u32, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

pub(super) fn bytes(field: u32, value: &[u8]) -> Vec<u8> {
    join(&[
        varint(u64::from(field) << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ])
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut written = Vec::new();
    while value > 0x7f {
        written.push(value as u8 | 0x80);
        value >>= 7;
    }
    written.push(value as u8);
    written
}
