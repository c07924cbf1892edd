//! The played side is the edge: enrolment and sessions with a cloud.

use peer::{
    Failure,
    edge::{Dialer, Endpoints, session_headers},
    identity::Identity,
    session::{Automatic, Session},
    transport::Outgoing,
};
use tokio::sync::mpsc;
use wire::{Message, enroll::Token};

use crate::{Link, drive::CLOSE_DEADLINE};

/// The player acknowledges messages itself.
const AUTOMATIC: Automatic = Automatic {
    keepalive: true,
    acknowledge: false,
};

/// A session of an edge.
pub struct EdgeLink {
    dialer: Dialer,
    identity: Identity,
    node: String,
    session: Session,
}

impl EdgeLink {
    /// Enrols a node with a cloud, and opens a session.
    ///
    /// # Errors
    /// The cloud refuses, or does not answer.
    pub async fn connect(endpoints: Endpoints, token: &Token, node: &str) -> Result<Self, Failure> {
        let dialer = Dialer::discover(endpoints, token).await?;
        let identity = dialer.enrol(node, token).await?;
        let session = open(&dialer, &identity, node).await?;
        Ok(Self {
            dialer,
            identity,
            node: node.to_owned(),
            session,
        })
    }
}

async fn open(dialer: &Dialer, identity: &Identity, node: &str) -> Result<Session, Failure> {
    let headers = session_headers(node);
    dialer.session(Some(identity), &headers, AUTOMATIC).await
}

impl Link for EdgeLink {
    fn sender(&self) -> mpsc::Sender<Outgoing> {
        self.session.sender()
    }

    async fn next(&mut self) -> Result<Message, String> {
        self.session.next().await
    }

    async fn reconnect(&mut self) -> Result<(), String> {
        self.finish().await;
        let session = open(&self.dialer, &self.identity, &self.node).await;
        self.session = session.map_err(|failure| failure.reason().to_owned())?;
        Ok(())
    }

    async fn finish(&mut self) {
        self.session.finish(CLOSE_DEADLINE).await;
    }
}
