//! The relay: connections to endpoints on nodes that this one does not reach go over the cloud, encrypted from node to node.
//!
//! In: the way to a node and an endpoint ([`Relay::dial`]), and streams that other nodes open to this one, of which those go on that name an
//! endpoint which this node itself knows for its own. The protocol is [`wire::relay`].
//!
//! | part | what |
//! |---|---|
//! | `task` | the one connection to the cloud, and dialling it again |
//! | `keys` | TLS between two nodes: both show their certificates, and each is checked for the node that it must be |
//! | `dial` | a stream to another node's endpoint |
//! | `serve` | a stream of another node |
//! | `allowed` | which endpoints others reach, pure |
//! | `counted` | bytes that went |
//! | `datagrams` | UDP over a stream |

mod allowed;
mod counted;
pub(super) mod datagrams;
mod dial;
mod keys;
mod serve;
mod task;

use std::{io, sync::Arc};

use quinn::{Connection, RecvStream, SendStream};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Join},
    sync::{Semaphore, watch},
};
use wire::relay::{HEAD, MAX_STREAMS, RelayError, read, text_length, told};

use self::keys::Keys;
pub(crate) use self::task::Task;
pub(super) use self::{counted::Counted, dial::NoRelay};
use super::{Snapshots, dialer::Dialer, figures::Figures};
use crate::config::{HostPort, TlsFiles};

/// A stream over the relay, before and below TLS.
type Raw = Counted<Join<RecvStream, SendStream>>;
/// A connection to another node's endpoint.
pub(super) type Relayed = tokio_rustls::client::TlsStream<Raw>;

/// What is needed of the relay.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// This node's name.
    pub(crate) node: String,
    /// Where the relay is: UDP.
    pub(crate) server: HostPort,
    /// The CA of the cloud and of its nodes, and this node's certificate.
    pub(crate) tls: TlsFiles,
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Relay {
    link: watch::Receiver<Option<Connection>>,
    keys: Keys,
    places: Arc<Semaphore>,
    figures: Arc<Figures>,
}

/// Builds it; the task dials the cloud.
pub(super) fn new(config: Config, figures: &Arc<Figures>) -> (Relay, Beginning) {
    let (publish, link) = watch::channel(None);
    let keys = Keys::new(config.tls.clone());
    let places = Arc::new(Semaphore::new(MAX_STREAMS as usize));
    let relay = Relay { link, keys: keys.clone(), places, figures: figures.clone() };
    (relay, Beginning { config, keys, publish, figures: figures.clone() })
}

/// A task that lacks what is made after the handle.
#[derive(Debug)]
pub(super) struct Beginning {
    config: Config,
    keys: Keys,
    publish: watch::Sender<Option<Connection>>,
    figures: Arc<Figures>,
}

impl Beginning {
    /// The task, which serves what is in `snapshots` and tells the cloud of the paths that `dialer` finds.
    pub(super) fn task(self, snapshots: Snapshots, dialer: Dialer) -> Task {
        Task::new(self, snapshots, dialer)
    }
}

/// Why something that was told is not understood.
#[derive(Debug, thiserror::Error)]
enum ToldError {
    #[error("the stream broke off: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Content(#[from] RelayError),
}

/// Reads something that is told.
async fn hear<T: serde::de::DeserializeOwned>(from: &mut (impl AsyncRead + Unpin)) -> Result<T, ToldError> {
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await?;
    let mut text = vec![0; text_length(head)?];
    from.read_exact(&mut text).await?;
    Ok(read(&text)?)
}

/// Tells something.
async fn tell(to: &mut (impl AsyncWrite + Unpin), what: &impl serde::Serialize) -> Result<(), ToldError> {
    to.write_all(&told(what)?).await?;
    Ok(to.flush().await?)
}

#[cfg(test)]
mod tests;
