//! A client of the running agent's API, over the status socket.

use std::path::Path;

use http::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde_json::Value;
use tower::service_fn;

use crate::status::{ClientError, connect};

/// Why the connection of a request fails.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns a client of the agent that listens on this socket.
///
/// # Errors
/// No agent answers.
pub(super) async fn client(socket: &Path) -> Result<Client, ClientError> {
    // says better than a failed request what is wrong
    connect(socket).await?;
    let socket = socket.to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let socket = socket.clone();
        async move {
            let stream = connect(&socket).await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection.with_upgrades());
            Ok::<_, BoxError>(sender.send_request(request).await?)
        }
    });
    Ok(Client::new(service, "default"))
}

/// Sends a request without a body; `table` asks for rows and columns.
pub(super) async fn get(client: &Client, path: &str, table: bool) -> anyhow::Result<Value> {
    let mut request = Request::get(path);
    if table {
        request = request.header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    }
    let request = request.body(Vec::new())?;
    client.request(request).await.map_err(plain)
}

/// Sends an operation with its body; returns what was done and what could not be done.
pub(super) async fn post(
    client: &Client,
    path: &str,
    body: String,
) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let request = Request::post(path).body(body.into_bytes())?;
    let done: Value = client.request(request).await.map_err(plain)?;
    let lines = |name: &str| {
        let lines = done[name].as_array().into_iter().flatten();
        lines
            .filter_map(|line| line.as_str().map(str::to_owned))
            .collect()
    };
    Ok((lines("messages"), lines("errors")))
}

/// Returns the server's own text of an error.
pub(super) fn plain(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!(status.message.clone()),
        other => anyhow::Error::new(other),
    }
}
