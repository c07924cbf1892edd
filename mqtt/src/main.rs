//! `mqtt-broker`: the broker as a program of its own, for experiments and for tests that kill it.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context;
use clap::Parser;
use mqtt::{Config, Listener, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// An MQTT 3.1, 3.1.1 and 5 broker.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one, which is written to the log.
    #[arg(long, default_value = "127.0.0.1:1883")]
    listen: SocketAddr,
    /// Database of persistent sessions and retained messages; without it they end with the process.
    #[arg(long)]
    database: Option<PathBuf>,
    /// PEM file of the server's certificate: TLS.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// PEM file of its private key.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// PEM file of authorities of client certificates, which become a must.
    #[arg(long, requires = "certificate")]
    client_authorities: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::INFO)
        .init();
    let Arguments {
        listen,
        database,
        certificate,
        key,
        client_authorities,
    } = Arguments::parse();
    let tls = certificate.zip(key).map(|(certificates, key)| Tls {
        certificates,
        key,
        client_authorities,
    });
    let listeners = vec![Listener {
        address: listen,
        tls,
    }];
    let (handle, task) = mqtt::bind(Config {
        listeners,
        database,
        ..Config::default()
    })
    .await?;
    for address in handle.addresses() {
        tracing::info!(%address, "MQTT broker listening");
    }
    let shutdown = CancellationToken::new();
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let stop = shutdown.clone();
    tokio::spawn(async move {
        clock::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        stop.cancel();
    });
    task.run(shutdown).await.context("the broker ended")
}
