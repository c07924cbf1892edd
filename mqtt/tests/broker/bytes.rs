//! Packets as bytes, encoded for the tests independently of the broker's codec.

/// Returns a packet of a first byte and a body shorter than 16,384 bytes.
pub(crate) fn packet(first: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut packet = vec![first];
    if body.len() < 128 {
        packet.push(body.len() as u8);
    } else {
        packet.extend([(body.len() % 128) as u8 | 0x80, (body.len() / 128) as u8]);
    }
    packet.extend(body);
    packet
}

/// Returns a string or binary with its length in front.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns a 3.1.1 CONNECT: flags (2 is clean), keep-alive and payload.
pub(crate) fn connect311(flags: u8, keep_alive: u16, payload: &[&[u8]]) -> Vec<u8> {
    let rest = payload.concat();
    packet(
        0x10,
        &[
            b"\0\x04MQTT\x04",
            &[flags],
            &keep_alive.to_be_bytes(),
            &rest,
        ],
    )
}

/// Returns the CONNECT of a clean 3.1.1 session.
pub(crate) fn clean311(client: &str) -> Vec<u8> {
    connect311(2, 0, &[&text(client)])
}

/// Returns the CONNECT of a persistent 3.1.1 session.
pub(crate) fn lasting311(client: &str) -> Vec<u8> {
    connect311(0, 0, &[&text(client)])
}

/// Returns an MQTT 5 CONNECT: flags, properties without their length, and payload.
pub(crate) fn connect5(flags: u8, properties: &[u8], payload: &[&[u8]]) -> Vec<u8> {
    let rest = payload.concat();
    packet(
        0x10,
        &[
            b"\0\x04MQTT\x05",
            &[flags, 0, 0],
            &[properties.len() as u8],
            properties,
            &rest,
        ],
    )
}

/// Returns the CONNECT of an MQTT 5 clean start.
pub(crate) fn clean5(client: &str) -> Vec<u8> {
    connect5(2, &[], &[&text(client)])
}

/// Returns a SUBSCRIBE of one filter; `properties` is `None` for 3.1.1.
pub(crate) fn subscribe(id: u16, properties: Option<&[u8]>, filter: &str, options: u8) -> Vec<u8> {
    packet(
        0x82,
        &[
            &id.to_be_bytes(),
            &inside(properties),
            &text(filter),
            &[options],
        ],
    )
}

/// Returns a PUBLISH; `flags` are duplicate, QoS and retain, and `id` is 0 at QoS 0.
pub(crate) fn publish(
    flags: u8,
    topic: &str,
    id: u16,
    properties: Option<&[u8]>,
    payload: &[u8],
) -> Vec<u8> {
    let id = if flags & 6 == 0 {
        Vec::new()
    } else {
        id.to_be_bytes().to_vec()
    };
    packet(
        0x30 | flags,
        &[&text(topic), &id, &inside(properties), payload],
    )
}

/// Returns a PUBACK (0x40), PUBREC (0x50), PUBREL (0x62) or PUBCOMP (0x70) in its short form.
pub(crate) fn ack(first: u8, id: u16) -> Vec<u8> {
    packet(first, &[&id.to_be_bytes()])
}

fn inside(properties: Option<&[u8]>) -> Vec<u8> {
    properties
        .map(|bytes| [&[bytes.len() as u8], bytes].concat())
        .unwrap_or_default()
}
