//! Parts that are not in the store: what only an object's node knows or does, and proxies into the cluster.

use http::Response;

use super::get::find;
use crate::{Api, Body, part::Remote, service::Call, status::StatusError};

/// 501 with what is missing; 404 where not even the object is there.
pub(crate) async fn remote(api: &Api, call: &Call, part: Remote) -> Result<Response<Body>, StatusError> {
    find(api, &call.target).await?;
    let what = match part {
        Remote::Log => "the log of its containers is",
        Remote::Exec | Remote::Attach => "its containers run",
        Remote::PortForward => "its ports are",
        Remote::Proxy => "what it serves is",
    };
    let (kind, name, part) = (call.target.kind.resource(), &call.target.name, call.target.part_name());
    let why = format!(
        "{kind}/{part} of {name:?} is not available: {what} on a node, and this API has no stream to nodes (EdgeStream)"
    );
    Err(StatusError::not_implemented(why))
}
