//! Receivers in the broker's process that confirm messages: their publishers are told when they have.

use mqtt::{Confirmation, Delivered, QoS, Subscription};
use testkit::within;

use crate::{
    bytes::{ack, clean311, lasting311, publish},
    support::{Broker, Raw, plain},
};

/// Returns the next message's payload and confirmation.
async fn next(messages: &mut Subscription) -> (Vec<u8>, Confirmation) {
    let delivered = within("a message", messages.next_delivered())
        .await
        .unwrap();
    let Delivered {
        message,
        confirmation,
    } = delivered;
    (
        message.payload.to_vec(),
        confirmation.expect("its publisher waits"),
    )
}

/// A PINGREQ and its answer: what was sent before it has been processed.
async fn ping(client: &mut Raw) {
    client.send(&[0xC0, 0]).await;
    client.expect(&[0xD0, 0]).await;
}

#[tokio::test]
async fn acknowledgements_wait_for_confirmations_and_keep_their_order() {
    let broker = Broker::start(plain()).await;
    let mut messages = broker.handle.subscribe_confirming("t/#", 8).await.unwrap();
    let mut client = Raw::connect(broker.address, &clean311("c")).await;
    client.send(&publish(2, "t/1", 1, None, b"one")).await;
    client.send(&publish(4, "t/2", 2, None, b"two")).await;
    // nobody has to confirm it, and yet it is the third
    client.send(&publish(2, "other", 3, None, b"three")).await;
    let ((one, first), (two, second)) = (next(&mut messages).await, next(&mut messages).await);
    assert_eq!((one, two), (b"one".to_vec(), b"two".to_vec()));
    ping(&mut client).await;
    second.confirm();
    ping(&mut client).await;
    first.confirm();
    for expected in [ack(0x40, 1), ack(0x50, 2), ack(0x40, 3)] {
        client.expect(&expected).await;
    }
    client.send(&ack(0x62, 2)).await;
    client.expect(&ack(0x70, 2)).await;
    // at QoS 0 nobody waits
    client.send(&publish(0, "t/0", 0, None, b"zero")).await;
    let delivered = within("a message", messages.next_delivered())
        .await
        .unwrap();
    assert!(delivered.confirmation.is_none());
    broker
        .handle
        .publish("t/own", "x", QoS::AtLeastOnce, false)
        .await
        .unwrap();
    broker.stop().await;
}

#[tokio::test]
async fn a_message_that_is_given_up_ends_its_publishers_connection() {
    let broker = Broker::start(plain()).await;
    let mut messages = broker.handle.subscribe_confirming("t", 8).await.unwrap();
    let mut client = Raw::connect(broker.address, &clean311("c")).await;
    client.send(&publish(2, "t", 1, None, b"x")).await;
    drop(next(&mut messages).await);
    client.closed().await;
    broker.stop().await;
}

#[tokio::test]
async fn a_message_at_qos_2_that_comes_again_before_it_is_confirmed_is_delivered_once() {
    let broker = Broker::start(plain()).await;
    let mut messages = broker.handle.subscribe_confirming("t", 8).await.unwrap();
    let mut client = Raw::connect(broker.address, &lasting311("c")).await;
    client.send(&publish(4, "t", 7, None, b"once")).await;
    let (payload, confirmation) = next(&mut messages).await;
    assert_eq!(payload, b"once");
    drop(client);
    let mut client = Raw::connect(broker.address, &lasting311("c")).await;
    // the same again, with the flag DUP
    client.send(&publish(12, "t", 7, None, b"once")).await;
    ping(&mut client).await;
    confirmation.confirm();
    client.expect(&ack(0x50, 7)).await;
    client.send(&ack(0x62, 7)).await;
    client.expect(&ack(0x70, 7)).await;
    // a new message under the same identifier
    client.send(&publish(4, "t", 7, None, b"twice")).await;
    let (payload, confirmation) = next(&mut messages).await;
    assert_eq!(payload, b"twice");
    confirmation.confirm();
    client.expect(&ack(0x50, 7)).await;
    broker.stop().await;
}
