//! Parts that are not in the store: what only an object's node knows or does, and proxies into the cluster.

use http::Response;

use super::get::find;
use crate::{Api, Body, part::Remote, path::Target, service::Call, status::StatusError};

/// The object that is proxied: its path may name a scheme and a port too, `https:<name>:<port>`.
fn named(target: &Target, part: Remote) -> Target {
    let mut target = target.clone();
    if part == Remote::Proxy {
        let name = match target.name.split(':').collect::<Vec<_>>().as_slice() {
            [name] | [name, _] => (*name).to_owned(),
            ["" | "http" | "https", name, _] => (*name).to_owned(),
            _ => target.name.clone(),
        };
        target.name = name;
    }
    target
}

/// 501 with what is missing; 404 where not even the object is there.
pub(crate) async fn remote(api: &Api, call: &Call, part: Remote) -> Result<Response<Body>, StatusError> {
    find(api, &named(&call.target, part)).await?;
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
