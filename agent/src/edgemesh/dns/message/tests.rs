//! Packets good and bad, and answers that are too long.

use hickory_resolver::proto::op::Metadata;

use super::*;
use crate::edgemesh::dns::{answer, tests::snapshot};

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.metadata.recursion_desired = true;
    message
}

fn with_edns(mut message: Message, payload: u16) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(payload);
    message.set_edns(edns);
    message
}

fn ask(message: &Message) -> (Message, usize) {
    let zone = Zone::new("cluster.local").unwrap();
    let reply = answer(&snapshot(), &zone, &message.to_vec().unwrap()).unwrap();
    (Message::from_vec(&reply).unwrap(), reply.len())
}

#[test]
fn an_answer_has_the_question_and_its_id() {
    let (reply, _) = ask(&question("Web.shop.svc.cluster.local.", RecordType::A));
    let Metadata {
        id,
        authoritative,
        recursion_desired,
        recursion_available,
        response_code,
        ..
    } = reply.metadata;
    assert_eq!(
        (id, authoritative, recursion_desired, recursion_available),
        (7, true, true, true)
    );
    assert_eq!(response_code, ResponseCode::NoError);
    // as it was written: clients that guard against forgeries compare it
    assert_eq!(
        reply.queries[0].name().to_ascii(),
        "Web.shop.svc.cluster.local."
    );
    assert!(reply.answers[0].name.eq_case(reply.queries[0].name()));
    assert_eq!(reply.answers[0].data.to_string(), "10.96.0.10");
    assert!(
        reply.edns.is_none(),
        "the client did not say that it knows EDNS"
    );
}

#[test]
fn negative_answers_say_for_how_long() {
    for (name, code) in [
        ("none.shop.svc.cluster.local.", ResponseCode::NXDomain),
        ("shop.svc.cluster.local.", ResponseCode::NoError),
    ] {
        let (reply, _) = ask(&question(name, RecordType::AAAA));
        assert_eq!(reply.metadata.response_code, code, "{name}");
        assert!(reply.answers.is_empty());
        assert_eq!(reply.authorities[0].record_type(), RecordType::SOA);
        assert_eq!(reply.authorities[0].ttl, 5);
    }
}

#[test]
fn an_answer_is_no_longer_than_the_client_takes() {
    let many = question("many.shop.svc.cluster.local.", RecordType::A);
    for (asked, longest) in [
        (many.clone(), 512),
        (with_edns(many.clone(), 100), 512),
        (with_edns(many.clone(), 800), 800),
        (with_edns(many.clone(), 4096), 1232),
    ] {
        let (reply, length) = ask(&asked);
        assert!(
            reply.metadata.truncation && length <= longest && length + 40 > longest,
            "{length} of {longest}"
        );
        assert!(
            !reply.answers.is_empty(),
            "a part is better than nothing for clients that know no TCP"
        );
        assert_eq!(reply.edns.is_some(), asked.edns.is_some());
    }
    let asked = read(&many.to_vec().unwrap(), Transport::Tcp).unwrap();
    let zone = Zone::new("cluster.local").unwrap();
    let super::super::records::Answer::Authoritative(found) =
        super::super::records::answer(&snapshot(), &zone, asked.name(), asked.kind())
    else {
        panic!()
    };
    let whole = Message::from_vec(&asked.reply(found, &zone)).unwrap();
    assert_eq!(
        (whole.answers.len(), whole.metadata.truncation),
        (200, false)
    );
}

#[test]
fn what_is_no_question_is_refused_or_ignored() {
    let good = question("web.shop.svc.cluster.local.", RecordType::A);
    let bytes = good.to_vec().unwrap();
    let code = |packet: &[u8]| match read(packet, Transport::Udp) {
        Ok(_) => panic!("{packet:?} is no question"),
        Err(None) => None,
        Err(Some(reply)) => {
            let reply = Message::from_vec(&reply).unwrap();
            assert_eq!(
                reply.metadata.id,
                u16::from_be_bytes([packet[0], packet[1]])
            );
            Some(reply.metadata.response_code)
        }
    };
    let changed = |place: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[place] = value;
        bytes
    };
    assert_eq!(code(b""), None);
    assert_eq!(code(&bytes[..11]), None);
    assert_eq!(code(&changed(2, 0x80)), None, "an answer");
    assert_eq!(code(&bytes[..20]), Some(ResponseCode::FormErr));
    assert_eq!(
        code(&changed(5, 0)),
        Some(ResponseCode::FormErr),
        "no question"
    );
    assert_eq!(
        code(&changed(5, 2)),
        Some(ResponseCode::FormErr),
        "two questions"
    );
    assert_eq!(
        code(&changed(6, 255)),
        Some(ResponseCode::FormErr),
        "65,280 answers"
    );
    assert_eq!(
        code(&changed(10, 255)),
        Some(ResponseCode::FormErr),
        "65,280 additional records"
    );
    assert_eq!(
        code(&changed(2, 0x28)),
        Some(ResponseCode::NotImp),
        "an update"
    );
    // the name points at itself
    let mut circle = bytes[..12].to_vec();
    circle.extend([0xc0, 12, 0, 1, 0, 1]);
    assert_eq!(code(&circle), Some(ResponseCode::FormErr));
    let mut chaos = good.clone();
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(&chaos.to_vec().unwrap()), Some(ResponseCode::Refused));
    let transfer = question("cluster.local.", RecordType::AXFR);
    assert_eq!(
        code(&transfer.to_vec().unwrap()),
        Some(ResponseCode::NotImp)
    );
    let mut newer = with_edns(good, 1232);
    newer.edns.as_mut().unwrap().set_version(1);
    // BADVERS, which has one number with BADSIG
    assert_eq!(code(&newer.to_vec().unwrap()).map(u16::from), Some(16));
}
