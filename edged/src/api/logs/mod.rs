//! `/containerLogs/{ns}/{pod}/{container}`: container logs in the kubelet's form.

mod follow;
mod options;
mod reader;
mod record;
mod tail;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kubeapi::Body;
use wire::cri::ContainerState;

use self::{
    options::{BadQuery, Options},
    reader::{IsRunning, Reader},
};
use super::{Deps, containers, route::PodPath, text};
use crate::runtime::Runtime;

/// Answers with the log, or with the reason why there is none. The status is decided before the first byte; a later failure can
/// only end the body.
pub(super) async fn answer(deps: &Deps, path: &PodPath, query: &str) -> Response<Body> {
    let options = match Options::of(query, clock::now()) {
        Ok(options) => options,
        Err(BadQuery::Undecodable) => {
            return text(
                StatusCode::BAD_REQUEST,
                "{\"message\": \"Unable to decode query.\"}\n",
            );
        }
        Err(BadQuery::Invalid) => {
            return text(
                StatusCode::UNPROCESSABLE_ENTITY,
                "{\"message\": \"Invalid request.\"}\n",
            );
        }
    };
    let PodPath {
        pod: name,
        container,
        ..
    } = path;
    let Some(pod) = deps.pod(path).await else {
        return text(
            StatusCode::NOT_FOUND,
            format!("pod {name:?} does not exist\n"),
        );
    };
    if !containers::has_container(&pod, container) {
        let what = format!("container {container:?} not found in pod {name:?}\n");
        return text(StatusCode::NOT_FOUND, what);
    }
    let id = match containers::log_container_id(&pod, container, options.previous) {
        Ok(id) => id,
        Err(why) => return text(StatusCode::BAD_REQUEST, why),
    };
    // the status prefixes the container id with the runtime's name
    let own = id.split_once("://").map_or(id.as_str(), |(_, own)| own);
    let gone = || {
        text(
            StatusCode::BAD_REQUEST,
            format!("unable to retrieve container logs for {id}"),
        )
    };
    let file = match deps.runtime.log_path(own).await {
        Ok(Some(file)) if !file.is_empty() => file,
        Ok(_) => return gone(),
        Err(error) => {
            error.log("get the log path of a container");
            return gone();
        }
    };
    match Reader::open(
        file.into(),
        options,
        is_running(deps.runtime.clone(), own.to_owned()),
    )
    .await
    {
        Ok(reader) => body(reader),
        Err(error) => text(
            StatusCode::BAD_REQUEST,
            format!("failed to open log file: {error}"),
        ),
    }
}

/// Returns a function that reports whether the container may still write to its log. It returns true while the runtime does not
/// answer.
fn is_running(runtime: Runtime, id: String) -> IsRunning {
    Box::new(move || {
        let (runtime, id) = (runtime.clone(), id.clone());
        async move {
            let state = runtime.container_state(&id).await;
            state.is_err() || matches!(state, Ok(Some(ContainerState::ContainerRunning)))
        }
        .boxed()
    })
}

fn body(reader: Reader) -> Response<Body> {
    let chunks = stream::unfold(reader, |mut reader| async move {
        let chunk = reader.next().await.transpose()?;
        Some((chunk.map(Frame::data), reader))
    });
    let chunks = chunks.map(|chunk: std::io::Result<Frame<Bytes>>| chunk.map_err(Into::into));
    let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

#[cfg(test)]
mod tests;
