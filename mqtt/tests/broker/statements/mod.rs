//! The normative statements of the specifications that a server can violate, as tables of bytes in and bytes out.
//!
//! A row names its statement of [MQTT 3.1.1](https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/os/mqtt-v3.1.1-os.html) or [MQTT
//! 5](https://docs.oasis-open.org/mqtt/mqtt/v5.0/os/mqtt-v5.0-os.html), and runs against a broker of its own.

// The tables are easier to read with a row's steps side by side.
#[rustfmt::skip]
mod complete;
#[rustfmt::skip]
mod v311;
#[rustfmt::skip]
mod v5;

use crate::support::{Broker, Raw, plain};

/// The clients of a row.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

/// A step of a row.
pub(crate) enum Step {
    /// Client A or B sends this packet; its connection is opened if there is none.
    Send(usize, Vec<u8>),
    /// The client receives this packet next.
    Gets(usize, Vec<u8>),
    /// The client receives a packet that begins like this; a reason string or an assigned name may follow.
    GetsLike(usize, Vec<u8>),
    /// The broker closes the client's connection without another packet.
    Closed(usize),
    /// The client closes its connection.
    Leaves(usize),
    /// The client pings, which shows that everything sent to it before was expected.
    Pings(usize),
}

/// A statement, its text and its proof.
pub(crate) type Row = (&'static str, &'static str, Vec<Step>);

/// Runs a table and reports all rows that fail.
async fn run(table: Vec<Row>) {
    let mut failed = Vec::new();
    for (statement, said, steps) in table {
        let row = tokio::spawn(async move {
            let broker = Broker::start(plain()).await;
            let mut clients = [None, None];
            for step in steps {
                perform(&broker, &mut clients, step).await;
            }
            drop(clients);
            broker.stop().await;
        });
        if let Err(error) = row.await {
            failed.push(format!("[{statement}] {said}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

async fn perform(broker: &Broker, clients: &mut [Option<Raw>; 2], step: Step) {
    match step {
        Step::Send(who, bytes) => {
            if clients[who].is_none() {
                clients[who] = Some(Raw::open(broker.address).await);
            }
            clients[who].as_mut().unwrap().send(&bytes).await;
        }
        Step::Gets(who, bytes) => clients[who].as_mut().unwrap().expect(&bytes).await,
        Step::GetsLike(who, start) => {
            let packet = clients[who]
                .as_mut()
                .unwrap()
                .packet()
                .await
                .expect("a packet");
            // The length depends on what follows.
            let same = packet[0] == start[0] && packet[2..].starts_with(&start[2..]);
            assert!(same, "\n got {packet:02x?}\nwant {start:02x?} …");
        }
        Step::Closed(who) => clients[who].take().unwrap().closed().await,
        Step::Leaves(who) => drop(clients[who].take()),
        Step::Pings(who) => {
            let client = clients[who].as_mut().unwrap();
            client.send(&[0xC0, 0]).await;
            client.expect(&[0xD0, 0]).await;
        }
    }
}

#[tokio::test]
async fn the_statements_of_mqtt_3_1_1_hold() {
    run(v311::table()).await;
}

#[tokio::test]
async fn the_statements_of_mqtt_5_hold() {
    run(v5::table()).await;
}
