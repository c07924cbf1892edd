//! exec, attach and port-forward: the container runtime returns a URL of its streaming server, to which the upgrade request is
//! forwarded. After that bytes are copied: SPDY or WebSocket, half-closes, terminals and exit codes are handled by the cloud and
//! the runtime.
//!
//! When the cloud disconnects, the connection is closed. The runtime then ends the streams, but not a command that an exec
//! started.

use std::{io, net::IpAddr, time::Duration};

use http::{HeaderMap, Method, StatusCode, Uri, header};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};
use wire::cri;

use super::{
    Deps, KubeletRequest, KubeletResponse, containers,
    route::{PodPath, flag, values},
    text,
};
use crate::{names, runtime::CallError};

/// How long the runtime's streaming server, which is on this machine, may take to accept a connection and a request.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers that are forwarded to the runtime's streaming server.
const FORWARDED_HEADERS: [&str; 8] = [
    "upgrade",
    "user-agent",
    "x-stream-protocol-version",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "origin",
];
/// Maximum number of ports of one port-forward over a WebSocket, whose channels are numbered by one byte.
const MAX_PORTS: usize = 128;

/// An error response: status code and the kubelet's text.
type HttpError = (StatusCode, String);

/// The streams that a request wants.
struct Streams {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Streams {
    fn of(query: &str) -> Result<Self, HttpError> {
        let tty = flag(query, "tty");
        let streams = Self {
            stdin: flag(query, "input"),
            stdout: flag(query, "output"),
            // with a terminal, stderr is part of stdout
            stderr: flag(query, "error") && !tty,
            tty,
        };
        if streams.stdin || streams.stdout || streams.stderr {
            Ok(streams)
        } else {
            let why = "you must specify at least 1 of stdin, stdout, stderr";
            Err((StatusCode::BAD_REQUEST, why.to_owned()))
        }
    }
}

/// Answers `exec`: runs a command in a container.
pub(super) async fn exec(deps: &Deps, path: &PodPath, request: &KubeletRequest) -> KubeletResponse {
    upgrade(request, async {
        let streams = Streams::of(&request.query)?;
        let id = running_container(
            deps,
            path,
            format!("container not found ({:?})", path.container),
        )
        .await?;
        let cmd = values(&request.query, "command");
        let Streams {
            stdin,
            stdout,
            stderr,
            tty,
        } = streams;
        let call = cri::ExecRequest {
            container_id: id,
            cmd,
            tty,
            stdin,
            stdout,
            stderr,
        };
        deps.runtime.exec_url(call).await.map_err(cri_error)
    })
    .await
}

/// Answers `attach`: connects to a container's own streams.
pub(super) async fn attach(
    deps: &Deps,
    path: &PodPath,
    request: &KubeletRequest,
) -> KubeletResponse {
    upgrade(request, async {
        let streams = Streams::of(&request.query)?;
        let PodPath {
            namespace,
            pod,
            container: name,
            ..
        } = path;
        let none = format!("container {name} not found in pod {pod}_{namespace}");
        let id = running_container(deps, path, none).await?;
        // a container keeps the terminal that it was created with, whatever the request says
        let tty = deps
            .pod(path)
            .await
            .is_some_and(|pod| containers::has_tty(&pod, name));
        let Streams {
            stdin,
            stdout,
            stderr,
            ..
        } = streams;
        let call = cri::AttachRequest {
            container_id: id,
            stdin,
            tty,
            stdout,
            stderr,
        };
        deps.runtime.attach_url(call).await.map_err(cri_error)
    })
    .await
}

/// Answers `portForward`: connects to ports of a pod.
pub(super) async fn port_forward(
    deps: &Deps,
    path: &PodPath,
    request: &KubeletRequest,
) -> KubeletResponse {
    upgrade(request, async {
        let port = ports(request)?;
        let uid = uid(deps, path).await?;
        let filter = cri::PodSandboxFilter {
            label_selector: [(names::POD_UID.to_owned(), uid)].into(),
            ..cri::PodSandboxFilter::default()
        };
        let sandboxes = deps
            .runtime
            .sandboxes(Some(filter))
            .await
            .map_err(cri_error)?;
        let ready = sandboxes
            .into_iter()
            .filter(|one| one.state() == cri::PodSandboxState::SandboxReady);
        let newest = ready.max_by_key(|sandbox| sandbox.created_at);
        let none = || {
            let name = format!("{}_{}", path.pod, path.namespace);
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("failed to find sandboxID for pod {name:?}"),
            )
        };
        let pod_sandbox_id = newest.ok_or_else(none)?.id;
        deps.runtime
            .port_forward_url(cri::PortForwardRequest {
                pod_sandbox_id,
                port,
            })
            .await
            .map_err(cri_error)
    })
    .await
}

/// Returns the ports of a WebSocket request. SPDY requests have theirs in the streams' headers: for them the list is empty.
fn ports(request: &KubeletRequest) -> Result<Vec<i32>, HttpError> {
    let is_websocket = request
        .headers
        .get(header::UPGRADE)
        .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if !is_websocket {
        return Ok(Vec::new());
    }
    let listed = values(&request.query, "port");
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let ports: Result<Vec<u16>, _> = listed
        .iter()
        .flat_map(|list| list.split(','))
        .map(str::parse)
        .collect();
    let ports =
        ports.map_err(|_| bad(format!("unable to parse {:?} as a port", listed.join(","))))?;
    match ports.len() {
        0 => Err(bad("query parameter \"port\" is required".to_owned())),
        count if count > MAX_PORTS => Err(bad(format!("no more than {MAX_PORTS} ports at a time"))),
        _ => Ok(ports.into_iter().map(i32::from).collect()),
    }
}

async fn uid(deps: &Deps, path: &PodPath) -> Result<String, HttpError> {
    let uid = deps
        .pod(path)
        .await
        .and_then(|pod| pod.metadata.uid.clone());
    uid.ok_or_else(|| (StatusCode::NOT_FOUND, "pod does not exist".to_owned()))
}

/// Returns the runtime's id of the running instance of a container.
async fn running_container(deps: &Deps, path: &PodPath, none: String) -> Result<String, HttpError> {
    let uid = uid(deps, path).await?;
    let labels = [
        (names::POD_UID.to_owned(), uid),
        (names::CONTAINER_NAME.to_owned(), path.container.clone()),
    ];
    let filter = cri::ContainerFilter {
        label_selector: labels.into(),
        ..cri::ContainerFilter::default()
    };
    let all = deps
        .runtime
        .containers(Some(filter))
        .await
        .map_err(cri_error)?;
    let running = all
        .into_iter()
        .filter(|one| one.state() == cri::ContainerState::ContainerRunning);
    let newest = running.max_by_key(|container| container.created_at);
    newest
        .map(|container| container.id)
        .ok_or((StatusCode::INTERNAL_SERVER_ERROR, none))
}

fn cri_error(error: CallError) -> HttpError {
    let code = match error.code() {
        tonic::Code::NotFound => StatusCode::NOT_FOUND,
        tonic::Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    // in the form in which Go prints a gRPC error
    (
        code,
        format!(
            "rpc error: code = {:?} desc = {}",
            error.code(),
            error.message()
        ),
    )
}

/// Forwards the upgrade `request` to the URL that the runtime returns. The URL is requested last, as it is valid for one request
/// and for a minute.
async fn upgrade(
    request: &KubeletRequest,
    url: impl Future<Output = Result<String, HttpError>>,
) -> KubeletResponse {
    if !is_upgrade(&request.headers) {
        return text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Upgrade request required",
        )
        .into();
    }
    let url = match url.await {
        Ok(url) => url,
        Err((code, why)) => return text(code, why).into(),
    };
    match timeout(DIAL_TIMEOUT, dial(&url, &request.method, &request.headers)).await {
        Ok(Ok(stream)) => KubeletResponse::Upgraded(stream),
        Ok(Err(error)) => {
            let why = format!("the container runtime's streaming server cannot be used: {error}");
            text(StatusCode::INTERNAL_SERVER_ERROR, why).into()
        }
        Err(_) => {
            let why = "the container runtime's streaming server does not answer";
            text(StatusCode::INTERNAL_SERVER_ERROR, why).into()
        }
    }
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let connection = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let asks = connection
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case("upgrade"));
    asks && headers.contains_key(header::UPGRADE)
}

/// Returns the authority and the path with query of a streaming URL, which must be plain HTTP on a loopback address, the
/// runtime's default. With any other address the streams, and the token in the URL, would cross a network.
fn parse_stream_url(url: &str) -> io::Result<(String, String)> {
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    let uri: Uri = url
        .parse()
        .map_err(|_| bad("the runtime returned no URL"))?;
    if uri.scheme_str() != Some("http") {
        return Err(bad(
            "it is not served over plain HTTP; disable TLS of the runtime's streaming server",
        ));
    }
    let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
        return Err(bad("the URL names no server"));
    };
    let address: Option<IpAddr> = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok();
    if host != "localhost" && !address.is_some_and(|address| address.is_loopback()) {
        return Err(bad(
            "it is not on a loopback address; have the runtime's streaming server listen on 127.0.0.1",
        ));
    }
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    Ok((format!("{host}:{port}"), target.to_owned()))
}

async fn dial(url: &str, method: &Method, headers: &HeaderMap) -> io::Result<TcpStream> {
    let (authority, target) = parse_stream_url(url)?;
    let mut head =
        format!("{method} {target} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\n")
            .into_bytes();
    if method == Method::POST {
        head.extend_from_slice(b"Content-Length: 0\r\n");
    }
    for (name, value) in headers
        .iter()
        .filter(|(name, _)| FORWARDED_HEADERS.contains(&name.as_str()))
    {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    let mut stream = TcpStream::connect(&authority).await?;
    stream.set_nodelay(true)?;
    limits::set_keepalive(&stream)?;
    stream.write_all(&head).await?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_url_must_be_plain_http_on_loopback() {
        let found = parse_stream_url("http://127.0.0.1:41241/exec/iBQa-_9z?x=1").unwrap();
        assert_eq!(
            found,
            (
                "127.0.0.1:41241".to_owned(),
                "/exec/iBQa-_9z?x=1".to_owned()
            )
        );
        assert_eq!(
            parse_stream_url("http://[::1]:80/attach/a").unwrap().0,
            "[::1]:80"
        );
        assert_eq!(
            parse_stream_url("http://localhost:80").unwrap(),
            ("localhost:80".to_owned(), "/".to_owned())
        );
        for bad in [
            "",
            "/exec/a",
            "https://127.0.0.1:1/exec/a",
            "http://10.0.0.1:1/exec/a",
            "http://127.0.0.1/exec/a",
            "http://evil.example:1/exec/a",
            "unix:///run/x.sock",
        ] {
            assert!(parse_stream_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stream_queries_are_read_as_by_the_kubelet() {
        let of = |query| {
            Streams::of(query)
                .map(|one| [one.stdin, one.stdout, one.stderr, one.tty])
                .ok()
        };
        assert_eq!(
            of("input=1&output=1&error=1"),
            Some([true, true, true, false])
        );
        assert_eq!(
            of("output=1&error=1&tty=1"),
            Some([false, true, false, true])
        );
        assert_eq!(of("stdout=1"), None);
        assert_eq!(of("error=1&tty=1"), None);
    }
}
