//! Packets: read with limits, and answers written as long as the client takes them. Pure.
//!
//! Source: RFC 1035, RFC 6891 (EDNS), RFC 2308 (negative answers), RFC 6604 (what a chain of aliases ends with).

use hickory_resolver::proto::{
    op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, Record, RecordType},
    serialize::binary::{BinDecodable, BinDecoder, BinEncodable, BinEncoder},
};
use rand::seq::SliceRandom;

use super::{
    records::{End, Found},
    zone::Zone,
};

/// The longest question that is read.
pub(super) const MAX_QUESTION: usize = 4096;
/// The longest answer in a datagram: nothing on its way has to cut it into pieces (DNS flag day 2020).
const MAX_DATAGRAM: u16 = 1232;
/// For a client that says nothing.
const SMALL_DATAGRAM: u16 = 512;
/// Additional records of a question: EDNS, and perhaps a signature.
const MAX_ADDITIONALS: u16 = 2;

/// The transport of a question, which bounds its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// In a datagram: the client says how long the answer may be.
    Udp,
    /// On a connection.
    Tcp,
}

/// A question, and all that its answer depends on.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    query: Query,
    /// What the answer begins with: its header, the question and EDNS.
    blank: Message,
    /// The longest answer.
    limit: u16,
}

/// What the node's resolvers say.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    /// Their answer.
    pub(super) answers: Vec<Record>,
    /// The zone's SOA with a negative answer.
    pub(super) authorities: Vec<Record>,
    /// Whether all is well.
    pub(super) code: ResponseCode,
}

impl Looked {
    /// None of them answers.
    pub(super) fn failed() -> Self {
        Self { answers: Vec::new(), authorities: Vec::new(), code: ResponseCode::ServFail }
    }
}

/// Reads a packet.
///
/// # Errors
/// It is no question that can be answered: what is sent back, if anything.
pub(super) fn read(packet: &[u8], transport: Transport) -> Result<Asked, Option<Vec<u8>>> {
    let header = Header::read(&mut BinDecoder::new(packet)).map_err(|_| None)?;
    let (metadata, counts) = (header.metadata, header.counts);
    // two servers would answer each other's answers for ever
    if metadata.message_type == MessageType::Response {
        return Err(None);
    }
    let mut blank = Message::response(metadata.id, metadata.op_code);
    blank.metadata.recursion_desired = metadata.recursion_desired;
    blank.metadata.checking_disabled = metadata.checking_disabled;
    blank.metadata.recursion_available = true;
    let refuse = |mut blank: Message, code| {
        blank.metadata.response_code = code;
        Err(write(&blank, SMALL_DATAGRAM))
    };
    if metadata.op_code != OpCode::Query {
        return refuse(blank, ResponseCode::NotImp);
    }
    // before room is made for as many records as a packet says that it has
    let is_short = counts.queries == 1 && counts.answers == 0 && counts.authorities == 0;
    if !is_short || counts.additionals > MAX_ADDITIONALS || packet.len() > MAX_QUESTION {
        return refuse(blank, ResponseCode::FormErr);
    }
    let Ok(message) = Message::from_vec(packet) else { return refuse(blank, ResponseCode::FormErr) };
    let Some(query) = message.queries.into_iter().next() else { return refuse(blank, ResponseCode::FormErr) };
    blank.add_query(query.clone());
    let mut limit = SMALL_DATAGRAM;
    if let Some(theirs) = message.edns {
        limit = theirs.max_payload().clamp(SMALL_DATAGRAM, MAX_DATAGRAM);
        let mut own = Edns::new();
        own.set_max_payload(MAX_DATAGRAM);
        blank.set_edns(own);
        if theirs.version() != 0 {
            return refuse(blank, ResponseCode::BADVERS);
        }
    }
    if query.query_class() != DNSClass::IN {
        return refuse(blank, ResponseCode::Refused);
    }
    if matches!(query.query_type(), RecordType::AXFR | RecordType::IXFR) {
        return refuse(blank, ResponseCode::NotImp);
    }
    if transport == Transport::Tcp {
        limit = u16::MAX;
    }
    Ok(Asked { query, blank, limit })
}

impl Asked {
    /// The name that is asked for, as the client wrote it.
    pub(super) fn name(&self) -> &Name {
        self.query.name()
    }

    /// The type of the records that are asked for.
    pub(super) fn kind(&self) -> RecordType {
        self.query.query_type()
    }

    /// The answer of what is known here.
    pub(super) fn reply(self, found: Found, zone: &Zone) -> Vec<u8> {
        let code = if found.end == End::NoName { ResponseCode::NXDomain } else { ResponseCode::NoError };
        let is_negative = matches!(found.end, End::NoData | End::NoName);
        let mut message = self.blank;
        message.metadata.authoritative = true;
        message.metadata.response_code = code;
        message.authorities.extend(zone.soa().filter(|_| is_negative));
        message.answers = found.answers;
        message.additionals = found.additionals;
        // clients take the first
        if message
            .answers
            .iter()
            .all(|record| record.name == *self.query.name() && !record.record_type().is_cname())
        {
            message.answers.shuffle(&mut rand::rng());
        }
        written(&message, self.limit)
    }

    /// The answer of the node's resolvers, after what is known here.
    pub(super) fn forwarded(self, known: Vec<Record>, looked: Looked) -> Vec<u8> {
        let mut message = self.blank;
        message.metadata.response_code = looked.code;
        message.answers = known;
        message.answers.extend(looked.answers);
        message.authorities = looked.authorities;
        written(&message, self.limit)
    }

    /// The answer that there is none now: the client asks again, or another server.
    pub(super) fn failed(self) -> Vec<u8> {
        self.forwarded(Vec::new(), Looked::failed())
    }
}

/// The packet, or one that says that there is none.
fn written(message: &Message, limit: u16) -> Vec<u8> {
    write(message, limit)
        .or_else(|| {
            write(&Message::error_msg(message.metadata.id, OpCode::Query, ResponseCode::ServFail), limit)
        })
        .unwrap_or_default()
}

/// As much of the message as fits: without its additional records, or else with fewer answers and the mark that says so.
fn write(message: &Message, limit: u16) -> Option<Vec<u8>> {
    let bytes = emit(message, limit)?;
    if !is_cut(&bytes) {
        return Some(bytes);
    }
    let mut shorter = message.clone();
    shorter.additionals.clear();
    let bytes = emit(&shorter, limit)?;
    if !is_cut(&bytes) {
        return Some(bytes);
    }
    // one less, in the place of which EDNS fits
    let fitting = usize::from(u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]));
    shorter.answers.truncate(fitting.saturating_sub(1));
    shorter.authorities.clear();
    shorter.metadata.truncation = true;
    emit(&shorter, limit)
}

fn emit(message: &Message, limit: u16) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::from(SMALL_DATAGRAM));
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_max_size(limit);
    message.emit(&mut encoder).ok()?;
    Some(bytes)
}

/// Whether the packet's mark of truncation is set.
fn is_cut(bytes: &[u8]) -> bool {
    bytes.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

#[cfg(test)]
mod tests;
