//! Helpers: a broker for one test, and a client that sends raw bytes.

use std::{net::SocketAddr, time::Duration};

use mqtt::{Config, Handle, Listener};
use testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// A running broker, which ends when this value is dropped.
pub(crate) struct Broker {
    pub(crate) handle: Handle,
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<(), mqtt::Error>>,
}

/// Returns a configuration with one plain listener on a free port.
pub(crate) fn plain() -> Config {
    let listeners = vec![Listener {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
    }];
    Config {
        listeners,
        ..Config::default()
    }
}

impl Broker {
    pub(crate) async fn start(config: Config) -> Self {
        let (handle, task) = mqtt::bind(config).await.unwrap();
        let stop = CancellationToken::new();
        let address = handle.addresses()[0];
        Self {
            address,
            handle,
            stop: stop.clone(),
            task: tokio::spawn(task.run(stop)),
        }
    }

    /// Stops the broker in an orderly way.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        within("the broker's end", self.task)
            .await
            .unwrap()
            .unwrap();
    }
}

/// A client that sends and expects raw bytes.
pub(crate) struct Raw {
    reads: Reads,
    writes: OwnedWriteHalf,
}

/// The receiving side of a client.
pub(crate) struct Reads(OwnedReadHalf);

impl Raw {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let (reads, writes) = TcpStream::connect(address).await.unwrap().into_split();
        Self {
            reads: Reads(reads),
            writes,
        }
    }

    /// Connects with `connect` and reads the CONNACK.
    pub(crate) async fn connect(address: SocketAddr, connect: &[u8]) -> Self {
        let mut raw = Self::open(address).await;
        raw.send(connect).await;
        let answer = raw.packet().await.expect("a CONNACK");
        assert_eq!((answer[0], answer[3]), (0x20, 0), "{answer:02x?}");
        raw
    }

    /// Splits the client into its two sides, which can be used concurrently.
    pub(crate) fn split(self) -> (Reads, OwnedWriteHalf) {
        (self.reads, self.writes)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.writes.write_all(bytes).await.unwrap();
    }

    /// Sends bytes, and ignores the error of a broker that has already closed the connection.
    pub(crate) async fn send_or_broken(&mut self, bytes: &[u8]) {
        let _ =
            tokio::time::timeout(Duration::from_millis(100), self.writes.write_all(bytes)).await;
    }

    /// Returns the next complete packet; `None` if the connection was closed.
    pub(crate) async fn packet(&mut self) -> Option<Vec<u8>> {
        self.reads.packet().await
    }

    /// Checks that the next packet is `expected`.
    pub(crate) async fn expect(&mut self, expected: &[u8]) {
        let packet = self.packet().await;
        assert_eq!(
            packet.as_deref(),
            Some(expected),
            "\n got {packet:02x?}\nwant {expected:02x?}"
        );
    }

    /// Checks that the connection was closed without another packet.
    pub(crate) async fn closed(&mut self) {
        let packet = self.packet().await;
        assert!(packet.is_none(), "{packet:02x?}");
    }
}

impl Reads {
    /// Returns the next complete packet; `None` if the connection was closed.
    pub(crate) async fn packet(&mut self) -> Option<Vec<u8>> {
        within("a packet", async {
            let mut packet = vec![self.0.read_u8().await.ok()?];
            let (mut length, mut shift) = (0_usize, 0);
            loop {
                let byte = self.0.read_u8().await.ok()?;
                packet.push(byte);
                length |= usize::from(byte & 0x7F) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            let start = packet.len();
            packet.resize(start + length, 0);
            self.0.read_exact(&mut packet[start..]).await.ok()?;
            Some(packet)
        })
        .await
    }
}
