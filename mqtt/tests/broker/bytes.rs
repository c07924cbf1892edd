//! Packets as bytes, written out for the tests independently of the broker's codec.

/// A packet of one first byte and a body shorter than 16,384 bytes.
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

/// A string or binary with its length.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// 3.1.1's CONNECT: flags (2 is clean), keep-alive and what follows.
pub(crate) fn connect311(flags: u8, keep_alive: u16, payload: &[&[u8]]) -> Vec<u8> {
    let rest = payload.concat();
    packet(0x10, &[b"\0\x04MQTT\x04", &[flags], &keep_alive.to_be_bytes(), &rest])
}

/// A clean session of 3.1.1.
pub(crate) fn clean311(client: &str) -> Vec<u8> {
    connect311(2, 0, &[&text(client)])
}

/// A session of 3.1.1 that lasts.
pub(crate) fn lasting311(client: &str) -> Vec<u8> {
    connect311(0, 0, &[&text(client)])
}

/// 5's CONNECT: flags, properties without their length, and what follows.
pub(crate) fn connect5(flags: u8, properties: &[u8], payload: &[&[u8]]) -> Vec<u8> {
    let rest = payload.concat();
    packet(0x10, &[b"\0\x04MQTT\x05", &[flags, 0, 0], &[properties.len() as u8], properties, &rest])
}

/// A clean start of 5.
pub(crate) fn clean5(client: &str) -> Vec<u8> {
    connect5(2, &[], &[&text(client)])
}

/// SUBSCRIBE of one filter; `properties` is none for 3.1.1.
pub(crate) fn subscribe(id: u16, properties: Option<&[u8]>, filter: &str, options: u8) -> Vec<u8> {
    packet(0x82, &[&id.to_be_bytes(), &inside(properties), &text(filter), &[options]])
}

/// PUBLISH; `flags` are duplicate, QoS and retain, `id` is 0 at QoS 0.
pub(crate) fn publish(flags: u8, topic: &str, id: u16, properties: Option<&[u8]>, payload: &[u8]) -> Vec<u8> {
    let id = if flags & 6 == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
    packet(0x30 | flags, &[&text(topic), &id, &inside(properties), payload])
}

/// PUBACK 0x40, PUBREC 0x50, PUBREL 0x62, PUBCOMP 0x70, in their short form.
pub(crate) fn ack(first: u8, id: u16) -> Vec<u8> {
    packet(first, &[&id.to_be_bytes()])
}

fn inside(properties: Option<&[u8]>) -> Vec<u8> {
    properties.map(|bytes| [&[bytes.len() as u8], bytes].concat()).unwrap_or_default()
}
