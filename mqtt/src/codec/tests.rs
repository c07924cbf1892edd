//! Tests with random and mutated bytes, round trips, and a check that no memory is reserved for announced lengths.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::{Packet, Version, decode, encode};
use crate::{
    message::{Message, QoS},
    reason::Reason,
};

/// Returns one valid packet of each kind in both versions.
fn valid() -> Vec<(Option<Version>, Vec<u8>)> {
    let (v311, v5) = (Some(Version::V311), Some(Version::V5));
    let packets: &[(Option<Version>, &[u8])] = &[
        (None, b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a"),
        (None, b"\x10\x1f\0\x04MQTT\x04\xee\0\x3c\0\x01a\0\x01w\0\x01p\0\x04user\0\x04pass"),
        (None, b"\x10\x22\0\x04MQTT\x05\xc6\0\x3c\x05\x11\0\0\0\x3c\0\x01a\x02\x01\x01\0\x01w\0\x01x\0\x01u\0\x01p"),
        (v311, b"\x32\x06\0\x01t\0\x01x"),
        (v5, b"\x34\x11\0\x01t\0\x01\x0a\x26\0\x01k\0\x01v\x23\0\x01x"),
        (v5, b"\x40\x04\0\x01\0\0"),
        (v5, b"\x62\x03\0\x01\x92"),
        (v311, b"\x82\x06\0\x01\0\x01a\x01"),
        (v5, b"\x82\x09\0\x01\x02\x0b\x05\0\x01#\x2e"),
        (v5, b"\xa2\x06\0\x01\0\0\x01a"),
        (v311, b"\xc0\0"),
        (v5, b"\xe0\x07\x04\x05\x11\0\0\0\x05"),
        (v5, b"\xf0\0"),
    ];
    packets
        .iter()
        .map(|(version, bytes)| (*version, bytes.to_vec()))
        .collect()
}

fn version() -> impl Strategy<Value = Option<Version>> {
    prop::sample::select(vec![None, Some(Version::V311), Some(Version::V5)])
}

#[test]
fn each_kind_is_read() {
    for (version, bytes) in valid() {
        let mut buffer = BytesMut::from(&bytes[..]);
        let packet = decode(&mut buffer, 1000, version);
        assert!(
            matches!(packet, Ok(Some(_))) && buffer.is_empty(),
            "{bytes:02x?}: {packet:?}"
        );
    }
}

#[test]
fn a_packet_comes_in_pieces() {
    for (version, bytes) in valid() {
        for end in 0..bytes.len() {
            let mut buffer = BytesMut::from(&bytes[..end]);
            assert_eq!(
                decode(&mut buffer, 1000, version),
                Ok(None),
                "{end} of {bytes:02x?}"
            );
        }
    }
}

#[test]
fn nothing_is_reserved_for_what_a_header_promises() {
    let mut buffer = BytesMut::from(&[0x30, 0xFF, 0xFF, 0xFF, 0x7F][..]);
    let capacity = buffer.capacity();
    let refused = decode(&mut buffer, 1 << 20, Some(Version::V311)).unwrap_err();
    assert_eq!(refused.reason, Reason::PacketTooLarge);
    assert_eq!(
        decode(&mut buffer, usize::MAX, Some(Version::V311)),
        Ok(None)
    );
    assert_eq!(buffer.capacity(), capacity);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), version in version()) {
        let mut buffer = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = decode(&mut buffer, 150, version) {}
    }

    #[test]
    fn mutated_packets_do_no_harm(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let packets = valid();
        let (version, mut bytes) = which.get(&packets).clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let mut buffer = BytesMut::from(&bytes[..]);
        while let Ok(Some(_)) = decode(&mut buffer, 1000, version) {}
    }

    #[test]
    fn a_message_that_is_written_is_read_again(
        topic in "[a-zü/]{1,40}",
        payload in prop::collection::vec(any::<u8>(), 0..500),
        qos in 0..3_u8,
        (retain, duplicate, five) in any::<(bool, bool, bool)>(),
        seconds in prop::option::of(1..u32::MAX),
        alias in prop::option::of(1..9_u16),
    ) {
        let version = if five { Version::V5 } else { Version::V311 };
        let qos = QoS::from_number(qos).unwrap();
        let mut message = Message::new(topic.as_str().into(), payload.into(), qos, retain);
        message.properties = Bytes::from_static(b"\x01\x01\x26\0\x01k\0\x01v");
        message.expires = seconds.map(|seconds| u64::from(seconds) * 1000);
        let outgoing = encode::Outgoing {
            message: &message,
            qos,
            retain,
            duplicate: duplicate && qos > QoS::AtMostOnce,
            id: if qos == QoS::AtMostOnce { 0 } else { 7 },
            subscription_ids: &[],
            alias: alias.map(|alias| (alias, false)),
            now: 0,
        };
        let mut written = BytesMut::new();
        prop_assert!(encode::publish(&mut written, version, &outgoing, usize::MAX));
        let size = written.len();
        prop_assert!(!encode::publish(&mut BytesMut::new(), version, &outgoing, size - 1), "the limit counts every byte");
        let Ok(Some(Packet::Publish(read))) = decode(&mut written, size, Some(version)) else { panic!("not a PUBLISH") };
        prop_assert_eq!((Arc::clone(&read.topic), &read.payload), (Arc::clone(&message.topic), &message.payload));
        prop_assert_eq!((read.qos, read.retain, read.duplicate), (qos, retain, outgoing.duplicate));
        if five {
            prop_assert_eq!((read.expiry, read.alias, read.properties), (seconds, alias, message.properties));
        }
    }
}
