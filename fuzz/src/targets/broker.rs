//! MQTT: sessions with a broker over a socket. If the broker fails, its task ends, and the next session fails.

use std::{net::SocketAddr, sync::LazyLock, time::Duration};

use mqtt::{Access, Config, Listener};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::corpus;

/// How long the broker may be silent before a session is over.
const SILENCE: Duration = Duration::from_millis(2);
/// How long a running broker may take to answer a valid client.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// A CONNECT of MQTT 3.1.1 for a clean session called `good`.
const CONNECT: &[u8] = b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04good";

/// The broker and its runtime.
static BROKER: LazyLock<(Runtime, SocketAddr)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let address = runtime.block_on(async {
        let listeners = vec![Listener {
            address: ([127, 0, 0, 1], 0).into(),
            tls: None,
        }];
        let access = Access::default().with_anonymous(true);
        let (handle, task) = mqtt::bind(Config {
            listeners,
            access,
            ..Config::default()
        })
        .await
        .expect("a broker");
        let address = handle.addresses()[0];
        tokio::spawn(async move {
            let _handle = handle;
            task.run(CancellationToken::new()).await
        });
        address
    });
    (runtime, address)
});

pub(super) fn packets(bytes: &[u8]) {
    let (runtime, address) = &*BROKER;
    runtime.block_on(async {
        let mut stream = TcpStream::connect(address)
            .await
            .expect("the broker listens");
        // A broker that hangs up does not read everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = [0; 1024];
        while matches!(
            timeout(SILENCE, stream.read(&mut answer)).await,
            Ok(Ok(1..))
        ) {}
        drop(stream);
        let mut good = TcpStream::connect(address)
            .await
            .expect("the broker listens");
        good.write_all(CONNECT).await.expect("the broker reads");
        let mut answer = [0; 4];
        let answered = timeout(ANSWER_TIMEOUT, good.read_exact(&mut answer)).await;
        assert!(
            matches!(answered, Ok(Ok(_))),
            "the broker no longer answers: {answered:?}"
        );
    });
}

pub(super) fn conversations() -> Vec<Vec<u8>> {
    let v4 = [
        CONNECT,
        b"\x82\x0c\0\x01\0\x07$hw/#+x\x01",
        b"\x82\x08\0\x02\0\x03a/#\x01",
        b"\x32\x09\0\x03a/b\0\x07hi",
        b"\x34\x09\0\x03a/b\0\x08hi",
        b"\x62\x02\0\x08",
        b"\xa2\x07\0\x03\0\x03a/#",
        b"\xc0\0",
        b"\xe0\0",
    ]
    .concat();
    let v5 = [
        &b"\x10\x1b\0\x04MQTT\x05\x02\0\x3c\x08\x11\0\0\0\x0a\x21\0\x05\0\x06device"[..],
        b"\x82\x0b\0\x01\x02\x0b\x05\0\x03a/#\x01",
        b"\x32\x0f\0\x03a/b\0\x07\x05\x02\0\0\0\x3c hi",
        b"\xe0\x02\0\0",
    ]
    .concat();
    let mut all = vec![v4, v5];
    all.extend(corpus::texts(&["GET / HTTP/1.1\r\n\r\n"]));
    all
}
