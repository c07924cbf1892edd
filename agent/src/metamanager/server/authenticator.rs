//! Authentication and authorization of MetaServer's callers.

use std::sync::Arc;

use http::request::Parts;
use wire::application::Verb;

use super::{
    super::response::ApiError,
    access::{Access, Caller},
    loopback::LocalClients,
    route::ObjectRequest,
};

/// How callers are authenticated and authorized.
#[derive(Clone)]
pub(super) enum Authenticator {
    /// By certificates of the cloud's CA and tokens of service accounts.
    Accounts(Arc<Access>),
    /// As programs of this machine.
    Local(Arc<LocalClients>),
    /// As the agent's own modules, which call in process.
    Agent,
}

impl Authenticator {
    /// Returns the caller of the request. A request in another user's name is rejected: the caller's own rights would decide about it.
    pub(super) async fn authenticate(&self, parts: &Parts) -> Result<Caller, ApiError> {
        if parts
            .headers
            .keys()
            .any(|name| name.as_str().starts_with("impersonate-"))
        {
            return Err(ApiError::bad_request(
                "MetaServer does not support impersonation; send the request to the cloud's API server",
            ));
        }
        match self {
            Self::Accounts(access) => access.caller(parts).await,
            Self::Local(clients) => clients.authenticate(parts).map(|()| Caller::Owner),
            Self::Agent => Ok(Caller::Owner),
        }
    }

    /// Checks that the caller may send this request for objects.
    pub(super) async fn authorize(
        &self,
        caller: &Caller,
        request: &ObjectRequest,
    ) -> Result<(), ApiError> {
        match self {
            Self::Accounts(access) => {
                access.check(caller, request).await?;
                if request.is_session() && request.verb == Verb::Get {
                    // a GET that is upgraded to a WebSocket can do as much as a POST
                    access
                        .check(
                            caller,
                            &ObjectRequest {
                                verb: Verb::Create,
                                ..request.clone()
                            },
                        )
                        .await?;
                }
                Ok(())
            }
            Self::Local(clients) => clients.authorize(request),
            Self::Agent => Ok(()),
        }
    }
}
