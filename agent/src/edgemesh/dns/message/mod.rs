//! Packets: queries are read with limits, and answers are written as long as the client accepts. Pure.
//!
//! Source: RFC 1035, RFC 6891 (EDNS), RFC 2308 (negative answers), RFC 6604 (what a chain of aliases ends with).

use hickory_resolver::proto::{
    op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, Record, RecordType},
    serialize::binary::{BinDecodable, BinDecoder, BinEncodable, BinEncoder},
};
use rand::seq::SliceRandom;

use super::{
    records::{Outcome, Records},
    zone::Zone,
};

/// The longest query that is read, bytes.
pub(super) const MAX_QUERY: usize = 4096;
/// The longest answer in a datagram, bytes: it is not fragmented on its way (DNS flag day 2020).
const MAX_DATAGRAM: u16 = 1232;
/// The same for a client without EDNS.
const MAX_PLAIN_DATAGRAM: u16 = 512;
/// The most additional records of a query: EDNS, and perhaps a signature.
const MAX_ADDITIONALS: u16 = 2;

/// The transport of a query, which limits the length of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// A datagram: the client says how long the answer may be.
    Udp,
    /// A connection.
    Tcp,
}

/// A query, and what its answer begins with.
#[derive(Clone, Debug)]
pub(super) struct Question {
    query: Query,
    /// The start of the answer: its header, the question and EDNS.
    blank: Message,
    /// The longest answer.
    limit: u16,
}

/// The answer of the node's resolvers.
#[derive(Clone, Debug)]
pub(super) struct LookupResult {
    /// The records of the answer.
    pub(super) answers: Vec<Record>,
    /// The zone's SOA with a negative answer.
    pub(super) authorities: Vec<Record>,
    /// The response code.
    pub(super) code: ResponseCode,
}

impl LookupResult {
    /// The result if no resolver answers.
    pub(super) fn failed() -> Self {
        Self {
            answers: Vec::new(),
            authorities: Vec::new(),
            code: ResponseCode::ServFail,
        }
    }
}

/// Reads a query.
///
/// # Errors
/// It cannot be answered; the error is the packet to send back, if any.
pub(super) fn read(packet: &[u8], transport: Transport) -> Result<Question, Option<Vec<u8>>> {
    let header = Header::read(&mut BinDecoder::new(packet)).map_err(|_| None)?;
    let (metadata, counts) = (header.metadata, header.counts);
    // otherwise two servers could answer each other's answers forever
    if metadata.message_type == MessageType::Response {
        return Err(None);
    }
    let mut blank = Message::response(metadata.id, metadata.op_code);
    blank.metadata.recursion_desired = metadata.recursion_desired;
    blank.metadata.checking_disabled = metadata.checking_disabled;
    blank.metadata.recursion_available = true;
    let refuse = |mut blank: Message, code| {
        blank.metadata.response_code = code;
        Err(encode_truncated(&blank, MAX_PLAIN_DATAGRAM))
    };
    if metadata.op_code != OpCode::Query {
        return refuse(blank, ResponseCode::NotImp);
    }
    // checked before memory is allocated for the number of records that a packet claims
    let is_short = counts.queries == 1 && counts.answers == 0 && counts.authorities == 0;
    if !is_short || counts.additionals > MAX_ADDITIONALS || packet.len() > MAX_QUERY {
        return refuse(blank, ResponseCode::FormErr);
    }
    let Ok(message) = Message::from_vec(packet) else {
        return refuse(blank, ResponseCode::FormErr);
    };
    let Some(query) = message.queries.into_iter().next() else {
        return refuse(blank, ResponseCode::FormErr);
    };
    blank.add_query(query.clone());
    let mut limit = MAX_PLAIN_DATAGRAM;
    if let Some(theirs) = message.edns {
        limit = theirs.max_payload().clamp(MAX_PLAIN_DATAGRAM, MAX_DATAGRAM);
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
    Ok(Question {
        query,
        blank,
        limit,
    })
}

impl Question {
    /// Returns the queried name, as the client wrote it.
    pub(super) fn name(&self) -> &Name {
        self.query.name()
    }

    /// Returns the queried record type.
    pub(super) fn kind(&self) -> RecordType {
        self.query.query_type()
    }

    /// Builds an authoritative answer.
    pub(super) fn reply(self, records: Records, zone: &Zone) -> Vec<u8> {
        let code = if records.outcome == Outcome::NoName {
            ResponseCode::NXDomain
        } else {
            ResponseCode::NoError
        };
        let is_negative = matches!(records.outcome, Outcome::NoData | Outcome::NoName);
        let mut message = self.blank;
        message.metadata.authoritative = true;
        message.metadata.response_code = code;
        message
            .authorities
            .extend(zone.soa().filter(|_| is_negative));
        message.answers = records.answers;
        message.additionals = records.additionals;
        // shuffled, since clients take the first address
        if message
            .answers
            .iter()
            .all(|record| record.name == *self.query.name() && !record.record_type().is_cname())
        {
            message.answers.shuffle(&mut clock::rng());
        }
        encode(&message, self.limit)
    }

    /// Builds the answer of the node's resolvers, after the records that are known here.
    pub(super) fn into_forwarded(self, known: Vec<Record>, result: LookupResult) -> Vec<u8> {
        let mut message = self.blank;
        message.metadata.response_code = result.code;
        message.answers = known;
        message.answers.extend(result.answers);
        message.authorities = result.authorities;
        encode(&message, self.limit)
    }

    /// Builds the answer REFUSED, for a client that is not answered.
    pub(super) fn into_refusal(self) -> Vec<u8> {
        let result = LookupResult {
            code: ResponseCode::Refused,
            ..LookupResult::failed()
        };
        self.into_forwarded(Vec::new(), result)
    }

    /// Builds the answer SERVFAIL, after which the client asks again, or another server.
    pub(super) fn into_servfail(self) -> Vec<u8> {
        self.into_forwarded(Vec::new(), LookupResult::failed())
    }
}

/// Encodes a message, or SERVFAIL if that fails.
fn encode(message: &Message, limit: u16) -> Vec<u8> {
    encode_truncated(message, limit)
        .or_else(|| {
            encode_truncated(
                &Message::error_msg(message.metadata.id, OpCode::Query, ResponseCode::ServFail),
                limit,
            )
        })
        .unwrap_or_default()
}

/// Encodes as much of the message as fits: without its additional records, or else with fewer answers and the flag TC.
fn encode_truncated(message: &Message, limit: u16) -> Option<Vec<u8>> {
    let bytes = emit(message, limit)?;
    if !is_truncated(&bytes) {
        return Some(bytes);
    }
    let mut shorter = message.clone();
    shorter.additionals.clear();
    let bytes = emit(&shorter, limit)?;
    if !is_truncated(&bytes) {
        return Some(bytes);
    }
    // one answer less makes room for EDNS
    let fitting = usize::from(u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]));
    shorter.answers.truncate(fitting.saturating_sub(1));
    shorter.authorities.clear();
    shorter.metadata.truncation = true;
    emit(&shorter, limit)
}

fn emit(message: &Message, limit: u16) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::from(MAX_PLAIN_DATAGRAM));
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_max_size(limit);
    message.emit(&mut encoder).ok()?;
    Some(bytes)
}

/// Reports whether the packet's flag TC is set.
fn is_truncated(bytes: &[u8]) -> bool {
    bytes.get(2).is_some_and(|flags| flags & 0x02 != 0)
}

#[cfg(test)]
mod tests;
