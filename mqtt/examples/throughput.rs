//! Measures messages per second: `cargo run --release -p mqtt --example throughput`. Prints one JSON object per line.

use std::{
    io::Write,
    net::SocketAddr,
    time::{Duration, Instant},
};

use mqtt::{Config, Handle, Limits, Listener, QoS};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

/// The number of messages of each measurement.
const COUNT: u64 = 500_000;

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let directory = std::env::temp_dir().join(format!("mqtt-throughput-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let (handle, task) = mqtt::bind(Config {
        listeners: vec![Listener {
            address: "127.0.0.1:0".parse()?,
            tls: None,
        }],
        database: Some(directory.join("mqtt.db")),
        limits: Limits {
            buffered_bytes: 64 << 20,
            ..Limits::default()
        },
        ..Config::default()
    })
    .await?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(task.run(stop.clone()));
    in_process(&handle).await?;
    for publishers in [1, 4] {
        sockets(&handle, publishers).await?;
    }
    durable(&handle).await?;
    stop.cancel();
    running.await??;
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

fn print_rate(name: &str, count: u64, start: Instant) -> std::io::Result<()> {
    let rate = count as f64 / start.elapsed().as_secs_f64();
    writeln!(
        std::io::stdout(),
        "{{\"figure\":\"{name}\",\"messages\":{count},\"per_second\":{rate:.0}}}"
    )
}

async fn in_process(handle: &Handle) -> anyhow::Result<()> {
    let mut messages = handle.subscribe("in/+", 4096).await?;
    let (start, publisher) = (Instant::now(), handle.clone());
    let sending = tokio::spawn(async move {
        for number in 0..COUNT {
            publisher
                .publish(
                    "in/t",
                    number.to_be_bytes().to_vec(),
                    QoS::AtMostOnce,
                    false,
                )
                .await?;
        }
        // This message comes last, and at QoS 1 it is not dropped.
        publisher
            .publish("in/end", "", QoS::AtLeastOnce, false)
            .await
    });
    let mut received = 0;
    while let Some(message) = messages.recv().await {
        received += 1;
        if &*message.topic == "in/end" {
            break;
        }
    }
    sending.await??;
    print_rate("in process, QoS 0", received, start)?;
    Ok(())
}

/// Connects a raw client and subscribes it to `filter`, if there is one.
async fn client(
    address: SocketAddr,
    name: &str,
    filter: Option<(&str, u8)>,
) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let clean = u8::from(!name.starts_with("kept")) * 2;
    let mut bytes = vec![
        0x10,
        12 + name.len() as u8,
        0,
        4,
        b'M',
        b'Q',
        b'T',
        b'T',
        4,
        clean,
        0,
        0,
        0,
        name.len() as u8,
    ];
    bytes.extend(name.as_bytes());
    stream.write_all(&bytes).await?;
    stream.read_exact(&mut [0; 4]).await?;
    if let Some((filter, qos)) = filter {
        let mut bytes = vec![0x82, 5 + filter.len() as u8, 0, 1, 0, filter.len() as u8];
        bytes.extend(filter.as_bytes());
        bytes.push(qos);
        stream.write_all(&bytes).await?;
        stream.read_exact(&mut [0; 5]).await?;
    }
    Ok(stream)
}

async fn sockets(handle: &Handle, publishers: u64) -> anyhow::Result<()> {
    let address = handle.addresses()[0];
    let mut subscriber = client(address, "sub", Some(("s", 0))).await?;
    let (start, each) = (Instant::now(), COUNT / publishers);
    // 32 bytes of payload, 64 messages per write.
    let message = [&[0x30, 35, 0, 1, b's'][..], &[7; 32]].concat();
    for number in 0..publishers {
        let mut stream = client(address, &format!("pub{number}"), None).await?;
        let batch = message.repeat(64);
        tokio::spawn(async move {
            for _ in 0..each / 64 {
                if stream.write_all(&batch).await.is_err() {
                    break;
                }
            }
            // Waits until the broker has read everything.
            let _ = stream.shutdown().await;
            let _ = stream.read(&mut [0; 1]).await;
        });
    }
    let (mut bytes, mut received) = (vec![0; 1 << 16], 0);
    let expected = each / 64 * 64 * publishers * message.len() as u64;
    while received < expected {
        match tokio::time::timeout(Duration::from_secs(2), subscriber.read(&mut bytes)).await {
            Ok(count) => received += count? as u64,
            Err(_) => break,
        }
    }
    print_rate(
        &format!("sockets, QoS 0, {publishers} publishers"),
        received / message.len() as u64,
        start,
    )?;
    Ok(())
}

/// Publishes at QoS 1 from one socket to a session on disk whose client acknowledges: every message is committed before its PUBACK.
async fn durable(handle: &Handle) -> anyhow::Result<()> {
    const MESSAGES: u64 = 60_000;
    let address = handle.addresses()[0];
    let mut subscriber = client(address, "kept", Some(("d", 1))).await?;
    let start = Instant::now();
    let mut publisher = client(address, "pub", None).await?;
    tokio::spawn(async move {
        let (mut reader, mut writer) = publisher.split();
        let sending = async {
            for number in 0..MESSAGES {
                let id = (number % 60_000 + 1) as u16;
                let message = [&[0x32, 37, 0, 1, b'd'][..], &id.to_be_bytes(), &[7; 32]].concat();
                if writer.write_all(&message).await.is_err() {
                    break;
                }
            }
        };
        let mut bytes = vec![0; 1 << 14];
        let reading =
            async { while matches!(reader.read(&mut bytes).await, Ok(count) if count > 0) {} };
        tokio::join!(sending, reading)
    });
    let (mut received, mut message) = (0, [0; 39]);
    let (reader, mut writer) = subscriber.split();
    let mut reader = tokio::io::BufReader::with_capacity(1 << 16, reader);
    while received < MESSAGES {
        reader.read_exact(&mut message).await?;
        received += 1;
        writer.write_all(&[0x40, 2, message[5], message[6]]).await?;
    }
    print_rate("sockets, QoS 1, session on disk", received, start)?;
    Ok(())
}
