//! Who asks MetaServer, and what they may.

use std::sync::Arc;

use http::request::Parts;
use wire::application::Verb;

use super::{
    super::answer::Refusal,
    access::{Access, Caller},
    loopback::LocalClients,
    route::Ask,
};

/// Finds out who asks, and what they may.
#[derive(Clone)]
pub(super) enum Authenticator {
    /// Certificates of the cloud's CA and tokens of service accounts.
    Accounts(Arc<Access>),
    /// Programs of this machine.
    Local(Arc<LocalClients>),
    /// The agent's own rooms, which ask in process.
    Agent,
}

impl Authenticator {
    /// Who sends the request.
    pub(super) async fn authenticate(&self, parts: &Parts) -> Result<Caller, Refusal> {
        match self {
            Self::Accounts(access) => access.caller(parts).await,
            Self::Local(clients) => clients.authenticate(parts).map(|()| Caller::Owner),
            Self::Agent => Ok(Caller::Owner),
        }
    }

    /// Whether MetaServer lets the caller do this with objects.
    pub(super) async fn authorize(&self, caller: &Caller, ask: &Ask) -> Result<(), Refusal> {
        match self {
            Self::Accounts(access) => {
                access.check(caller, ask).await?;
                if ask.is_session() && ask.verb == Verb::Get {
                    // a GET that becomes a WebSocket does as much as a POST
                    access.check(caller, &Ask { verb: Verb::Create, ..ask.clone() }).await?;
                }
                Ok(())
            }
            Self::Local(clients) => clients.authorize(ask),
            Self::Agent => Ok(()),
        }
    }
}
