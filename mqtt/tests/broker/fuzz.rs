//! Random bytes on the socket end only the connection that sends them.

use mqtt::QoS;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use testkit::within;

use crate::{
    bytes::{clean5, clean311, publish, subscribe},
    support::{Broker, Raw, plain},
};

#[tokio::test]
async fn noise_ends_its_own_connection_and_nothing_else() {
    let broker = Broker::start(plain()).await;
    let mut messages = broker.handle.subscribe("calm", 1).await.unwrap();
    let mut calm = Raw::connect(broker.address, &clean311("calm")).await;
    let mut runner = TestRunner::deterministic();
    let noise = prop::collection::vec(any::<u8>(), 1..300);
    for round in 0..300_u32 {
        let bytes = noise.new_tree(&mut runner).unwrap().current();
        let mut loud = match round % 3 {
            0 => Raw::open(broker.address).await,
            1 => Raw::connect(broker.address, &clean311("loud")).await,
            _ => Raw::connect(broker.address, &clean5("loud")).await,
        };
        if round % 2 == 0 {
            loud.send_or_broken(&subscribe(1, (round % 3 == 2).then_some(&[]), "noise/#", 2))
                .await;
        }
        loud.send_or_broken(&bytes).await;
        drop(loud);
        calm.send(&publish(0, "calm", 0, None, &round.to_be_bytes()))
            .await;
        assert_eq!(
            within("a message", messages.recv()).await.unwrap().payload[..],
            round.to_be_bytes()
        );
    }
    broker
        .handle
        .publish("done", "x", QoS::AtLeastOnce, false)
        .await
        .unwrap();
    drop(calm);
    broker.stop().await;
}
