//! Tests of a connection whose socket accepts no more bytes.

use std::{
    net::Ipv4Addr,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::{Notify, mpsc};

use super::*;
use crate::config::Limits;

/// A CONNECT of MQTT 3.1.1 with an empty client identifier and a clean session.
const CONNECT: &[u8] = b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0";
/// A DISCONNECT.
const DISCONNECT: &[u8] = b"\xe0\0";

/// The write half of a socket that accepts nothing, and notifies when it was tried.
struct Broken(Arc<Notify>);

impl AsyncWrite for Broken {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.0.notify_one();
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// If its DISCONNECT were lost, a client that sent it and closed would be taken for dead, and its will would be published.
#[tokio::test]
async fn what_a_client_said_last_is_heard_though_nothing_can_be_written_to_it() {
    let (commands, mut heard) = mpsc::channel(8);
    let context = ConnectionContext::new(Limits::default(), Arc::default(), commands);
    let from = From {
        peer: Ipv4Addr::LOCALHOST.into(),
        slot: context.connections.accept(None).unwrap(),
    };
    let (mut client, reader) = tokio::io::duplex(1024);
    let asked = Arc::<Notify>::default();
    let writer = Broken(asked.clone());
    tokio::spawn(async move { run(&context, 1, from, None, reader, writer).await });
    client.write_all(CONNECT).await.unwrap();
    let Some(Command::Connect { outbox, .. }) = heard.recv().await else {
        panic!("no CONNECT")
    };
    outbox.push(&mut BytesMut::from(&b"\x20\x02\0\0"[..]));
    asked.notified().await;
    client.write_all(DISCONNECT).await.unwrap();
    drop(client);
    let Some(Command::Packets(batch)) = heard.recv().await else {
        panic!("no DISCONNECT")
    };
    assert!(
        matches!(batch.packets.front(), Some(Packet::Disconnect { .. })),
        "{batch:?}"
    );
    assert!(matches!(
        heard.recv().await,
        Some(Command::Closed {
            connection: 1,
            fault: None
        })
    ));
}
