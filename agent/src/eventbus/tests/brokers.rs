//! An external broker, which ends and starts again on its port.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use mqtt::{Access, Handle, Listener, Tls};
use testkit::{eventually, within};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::enroll::{Ca, pem_certificate, pem_ec_private_key};

use super::super::External;
use crate::config::{HostPort, TlsFiles};

/// A broker.
pub(super) struct ExternalBroker {
    pub(super) address: SocketAddr,
    config: mqtt::Config,
    running: Option<Running>,
}

/// A broker that can be restarted.
pub(super) trait RestartableBroker {
    /// Returns its address.
    fn address(&self) -> SocketAddr;

    /// Returns the agent's settings for it.
    fn external(&self) -> External;

    /// Stops and starts it.
    async fn restart(&mut self);
}

impl RestartableBroker for ExternalBroker {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn external(&self) -> External {
        Self::external(self)
    }

    async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }
}

type Running = (
    Handle,
    CancellationToken,
    JoinHandle<Result<(), mqtt::Error>>,
);

impl ExternalBroker {
    /// Starts a broker that keeps sessions in `directory`, or nowhere.
    pub(super) async fn start(directory: Option<&Path>) -> Self {
        let config = mqtt::Config {
            database: directory.map(|directory| directory.join("mqtt.db")),
            ..mqtt::Config::default()
        };
        Self::with(config, None).await
    }

    /// Starts a broker that requires a certificate and a password.
    pub(super) async fn guarded(files: &TlsFiles) -> Self {
        let access = Access::default()
            .with_user("agent", b"right")
            .with_anonymous(false);
        let tls = Tls {
            certificates: files.cert.clone(),
            key: files.key.clone(),
            client_authorities: None,
        };
        Self::with(
            mqtt::Config {
                access,
                ..mqtt::Config::default()
            },
            Some(tls),
        )
        .await
    }

    async fn with(mut config: mqtt::Config, tls: Option<Tls>) -> Self {
        config.listeners = vec![Listener {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            tls,
        }];
        let mut beside = Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            config,
            running: None,
        };
        beside.start_again().await;
        beside
    }

    /// Returns the agent's settings for it.
    pub(super) fn external(&self) -> External {
        External {
            server: HostPort {
                host: "localhost".into(),
                port: self.address.port(),
            },
            tls: None,
            client_id: "edge-agent-edge-1".into(),
            username: None,
            password: None,
            qos: 1,
        }
    }

    pub(super) async fn start_again(&mut self) {
        let (handle, task) = eventually("the broker's port", async || {
            mqtt::bind(self.config.clone()).await
        })
        .await;
        self.address = handle.addresses()[0];
        self.config.listeners[0].address = self.address;
        let stop = CancellationToken::new();
        self.running = Some((handle, stop.clone(), tokio::spawn(task.run(stop))));
    }

    pub(super) async fn stop(&mut self) {
        let (_, stop, task) = self.running.take().unwrap();
        stop.cancel();
        within("the broker's end", task).await.unwrap().unwrap();
    }
}

/// Generates a CA with one certificate for both ends in `directory`.
pub(super) fn certificates(directory: &Path) -> TlsFiles {
    fs::create_dir_all(directory).unwrap();
    let now = clock::system_now();
    let ca = Ca::generate(now).unwrap();
    let (cert, key) = ca.sign_server(["localhost"], now).unwrap();
    let write = |name: &str, pem: String| {
        let path = directory.join(name);
        fs::write(&path, pem).unwrap();
        path
    };
    TlsFiles {
        ca: write("ca.crt", pem_certificate(ca.cert_der())),
        cert: write("own.crt", pem_certificate(&cert)),
        key: write("own.key", pem_ec_private_key(&key)),
    }
}
