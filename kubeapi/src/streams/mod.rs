//! Subresources that are not stored: those that only an object's node can serve, and proxies into the cluster.
//!
//! | part | what |
//! |---|---|
//! | `pods/log` | [`log`]: an answer that is relayed as it comes |
//! | `pods/exec`, `pods/attach` | [`remote`]: SPDY is copied to the node, WebSockets are translated to SPDY |
//! | `pods/portforward` | [`forward`]: the bytes of SPDY or of a WebSocket are copied |
//! | `nodes/proxy`, `pods/proxy`, `services/proxy` | [`proxy`]: HTTP to what runs in the cluster |
//!
//! The node is reached through [`NodeStreams`](crate::NodeStreams). A failure before the upgrade is answered with a `Status`,
//! or with the node's response.

mod audit;
mod channels;
mod copy;
mod forward;
mod log;
mod node;
mod pod;
mod proxy;
mod remote;
mod request;
pub(crate) mod slots;
mod tasks;
mod translate;
mod upgrade;
mod websocket;

use bytes::Bytes;
use http::{Method, Response, request::Parts};

use self::request::StreamRequest;
pub(crate) use self::tasks::Tasks;
use crate::{
    Api, Body, Identity,
    request::{
        accept::Shape,
        body::{self, RequestBody},
        call::{self, Call},
        path::Target,
        query::Query,
        rewrite::Forwarded,
        subresource::Remote,
        versions::ConvertedVersions,
        warnings::Warnings,
    },
    status::StatusError,
    verbs::get::find,
};

/// Returns the methods that a subresource allows.
fn methods(part: Remote) -> &'static [Method] {
    match part {
        Remote::Log => &[Method::GET],
        Remote::Exec | Remote::Attach | Remote::PortForward => &[Method::GET, Method::POST],
        Remote::Proxy => &[
            Method::GET,
            Method::HEAD,
            Method::OPTIONS,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ],
    }
}

/// Answers a request for a subresource that is not stored.
pub(crate) async fn answer(
    api: &Api,
    target: Target,
    part: Remote,
    parts: Parts,
    body: RequestBody,
) -> Result<Response<Body>, StatusError> {
    let Some(streams) = api.node_streams() else {
        return Err(absent(api, &target, part).await);
    };
    if !methods(part).contains(&parts.method) {
        return Err(StatusError::method_not_allowed());
    }
    let caller = parts
        .extensions
        .get::<Identity>()
        .cloned()
        .ok_or_else(StatusError::unauthorized)?;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let call = Call {
        target,
        // a stream lasts as long as its ends want; the webhooks that review its opening do not
        deadline: call::deadline(&Query::default())?,
        query,
        // what a node streams has none
        shape: Shape::Objects,
        headers: parts.headers.clone(),
        body: Bytes::new(),
        caller: Some(caller.clone()),
        is_reviewed: true,
        needs_complete_lists: false,
        warnings: Warnings::default(),
        versions: ConvertedVersions::default(),
    };
    let wanted = StreamRequest {
        api,
        streams: &**streams,
        call: &call,
        caller: &caller,
        parts,
    };
    let answer = match part {
        Remote::Log => log::answer(wanted).await,
        Remote::Exec | Remote::Attach => remote::answer(wanted, part).await,
        Remote::PortForward => forward::answer(wanted).await,
        Remote::Proxy => proxy::answer(wanted, body).await,
    };
    let mut answer = match answer {
        Ok(mut answer) => {
            answer.extensions_mut().insert(Forwarded);
            answer
        }
        Err(error) => body::refusal(&error),
    };
    call.warnings.write_headers(&mut answer);
    Ok(answer)
}

/// Returns the name of the proxied object; the path may add a scheme and a port: `https:<name>:<port>`.
fn object_name(target: &Target, part: Remote) -> Target {
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

/// Returns 501 with what is not configured; 404 where the object does not exist.
async fn absent(api: &Api, target: &Target, part: Remote) -> StatusError {
    if let Err(error) = find(api, &object_name(target, part)).await {
        return error;
    }
    let what = match part {
        Remote::Log => "the log of its containers is",
        Remote::Exec | Remote::Attach => "its containers run",
        Remote::PortForward => "its ports are",
        Remote::Proxy => "what it serves is",
    };
    let (kind, name, part) = (target.kind.resource(), &target.name, target.part_name());
    let why = format!(
        "{kind}/{part} of {name:?} is not available: {what} on a node, and this API has no stream to nodes (EdgeStream)"
    );
    StatusError::not_implemented(why)
}
