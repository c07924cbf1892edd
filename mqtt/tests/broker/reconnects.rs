//! A thousand broken connections and a broker that is killed now and then: every message still arrives exactly once.

use std::{collections::BTreeSet, net::SocketAddr};

use crate::{
    bytes::{ack, lasting311, publish, subscribe},
    restart::Process,
    support::Raw,
};

/// The number of points at which a connection breaks in a QoS 2 exchange.
const CUTS: u16 = 5;

/// The next step of the publisher for one message.
#[derive(Clone, Copy, PartialEq)]
enum Sender {
    Publish { again: bool },
    Release,
    Done,
}

/// Sends message `id` on one connection, which breaks after `cut` steps.
async fn send(broker: SocketAddr, id: u16, mut state: Sender, cut: u16) -> Sender {
    let mut publisher = Raw::connect(broker, &lasting311("p")).await;
    for _ in 0..cut {
        match state {
            Sender::Publish { again } => {
                publisher
                    .send(&publish(
                        if again { 12 } else { 4 },
                        "t",
                        id,
                        None,
                        &id.to_be_bytes(),
                    ))
                    .await;
                state = Sender::Publish { again: true };
                if cut == 1 {
                    // The connection breaks before the answer is read.
                    return state;
                }
                publisher.expect(&ack(0x50, id)).await;
                state = Sender::Release;
            }
            Sender::Release => {
                publisher.send(&ack(0x62, id)).await;
                publisher.expect(&ack(0x70, id)).await;
                state = Sender::Done;
            }
            Sender::Done => {}
        }
    }
    state
}

/// A subscriber that follows section 4.3.3: `taken` are the identifiers between PUBLISH and PUBREL.
#[derive(Default)]
struct Receiver {
    taken: BTreeSet<u16>,
    messages: Vec<u16>,
}

impl Receiver {
    /// Receives packets on one connection, which breaks after `cut` of them; returns true when `last` has arrived and is released.
    async fn receive(&mut self, broker: SocketAddr, last: u16, cut: u16) -> bool {
        let mut subscriber = Raw::connect(broker, &lasting311("s")).await;
        for step in 0.. {
            if self.taken.is_empty() && self.messages.last() == Some(&last) {
                return true;
            }
            if step == cut {
                return false;
            }
            let packet = subscriber.packet().await.unwrap();
            let id = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
            match packet[0] & 0xF7 {
                0x34 => {
                    if self.taken.insert(id(5)) {
                        self.messages.push(id(7));
                    }
                    // At an odd cut the connection breaks before the answer.
                    if !(step + 1 == cut && cut % 2 == 1) {
                        subscriber.send(&ack(0x50, id(5))).await;
                    }
                }
                0x62 => {
                    self.taken.remove(&id(2));
                    subscriber.send(&ack(0x70, id(2))).await;
                }
                other => panic!("{other:02x}"),
            }
        }
        false
    }
}

#[tokio::test]
async fn at_qos_2_no_message_is_lost_or_doubled_over_1000_reconnects() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("mqtt.db");
    let mut broker = Process::start(&database);
    let mut subscriber = Raw::connect(broker.address, &lasting311("s")).await;
    subscriber.send(&subscribe(1, None, "t", 2)).await;
    subscriber.expect(&[0x90, 3, 0, 1, 2]).await;
    drop(subscriber);
    let (mut receiver, mut reconnects, mut id) = (Receiver::default(), 0_u16, 0);
    while reconnects < 1000 {
        id += 1;
        let mut state = Sender::Publish { again: false };
        while state != Sender::Done {
            state = send(broker.address, id, state, reconnects % CUTS).await;
            reconnects += 1;
        }
        let mut cut = id % CUTS;
        while !receiver.receive(broker.address, id, cut).await {
            // Each attempt gets further than the one before; at cut 0 none would make progress.
            (cut, reconnects) = (cut + 1, reconnects + 1);
        }
        if id % 50 == 0 {
            broker.kill();
            broker = Process::start(&database);
        }
    }
    assert_eq!(receiver.messages, (1..=id).collect::<Vec<_>>());
    broker.kill();
}
