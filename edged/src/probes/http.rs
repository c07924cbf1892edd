//! Gets a page from a pod by HTTP.

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use kubeapi::pod_tls;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    address::{Address, HttpTarget},
    outcome::Outcome,
};
use crate::pod_network::{Connection, PodNetwork};

/// Maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 10;
/// Maximum size of a response's head in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The kubelet's user agent, which servers may check.
const USER_AGENT: &str = "kube-probe/1.32";

/// Gets the page. A status from 200 to 399 is a success. A redirect to another host is not followed, as the probe is for this
/// pod.
pub(super) async fn probe(network: &dyn PodNetwork, page: &HttpTarget) -> Outcome {
    let mut page = page.clone();
    for _ in 0..=MAX_REDIRECTS {
        let answer = match get(network, &page).await {
            Ok(answer) => answer,
            Err(why) => return Outcome::Failure(format!("Get {:?}: {why}", page.url())),
        };
        let status = answer.status();
        if !(200..400).contains(&status.as_u16()) {
            return Outcome::Failure(format!(
                "HTTP probe failed with statuscode: {}",
                status.as_u16()
            ));
        }
        match redirect(&page, status, answer.headers().get(header::LOCATION)) {
            Redirect::None => return Outcome::Success,
            Redirect::Elsewhere(url) => {
                return Outcome::Warning(format!("Probe terminated redirects to {url}"));
            }
            Redirect::Follow(to) => page = to,
        }
    }
    Outcome::Failure(format!(
        "Get {:?}: stopped after {MAX_REDIRECTS} redirects",
        page.url()
    ))
}

/// Gets the page and returns the response, whatever its status.
pub(super) async fn get(
    network: &dyn PodNetwork,
    page: &HttpTarget,
) -> Result<Response<Incoming>, String> {
    let stream = connect(network, &page.address).await?;
    if !page.tls {
        return send_request(stream, page).await;
    }
    let host = page.address.host.clone();
    let name =
        ServerName::try_from(host).map_err(|_| format!("{} has no valid name", page.address))?;
    let stream = pod_tls::connector()?
        .connect(name, stream)
        .await
        .map_err(|error| format!("tls: {error}"))?;
    send_request(stream, page).await
}

/// Connects to the address; errors are worded as in Go.
pub(super) async fn connect(
    network: &dyn PodNetwork,
    address: &Address,
) -> Result<Box<dyn Connection>, String> {
    let connected = network.connect(&address.host, address.port).await;
    connected.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            std::io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {address}: connect: {why}")
    })
}

async fn send_request<S>(stream: S, page: &HttpTarget) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = request(page)?;
    let mut connection = http1::Builder::new();
    connection.max_buf_size(MAX_HEAD_BYTES);
    let (mut sender, connection) = connection
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let mut answer = pin!(sender.send_request(request));
    // cancel-safe: both futures live until the response is here. The connection may end in the same step.
    let answer = clock::select! {
        biased;
        answer = &mut answer => answer,
        _ = connection => answer.await,
    };
    answer.map_err(|error| error.to_string())
}

fn request(page: &HttpTarget) -> Result<Request<Empty<Bytes>>, String> {
    let mut request = Request::get(page.path.as_str())
        .body(Empty::new())
        .map_err(|error| error.to_string())?;
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    for (name, value) in &page.headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("bad header name {name:?}"))?;
        let value =
            HeaderValue::from_str(value).map_err(|_| format!("bad value of header {name}"))?;
        // As in the kubelet, an empty value removes a default header.
        if value.is_empty() && (name == header::USER_AGENT || name == header::ACCEPT) {
            headers.remove(name);
        } else {
            headers.insert(name, value);
        }
    }
    if !headers.contains_key(header::HOST) {
        let host =
            HeaderValue::from_str(&page.address.to_string()).map_err(|error| error.to_string())?;
        headers.insert(header::HOST, host);
    }
    Ok(request)
}

/// Where a response redirects to.
#[derive(Debug, PartialEq, Eq)]
enum Redirect {
    None,
    Follow(HttpTarget),
    Elsewhere(String),
}

fn redirect(page: &HttpTarget, status: StatusCode, location: Option<&HeaderValue>) -> Redirect {
    let followed = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = location
        .filter(|_| followed)
        .and_then(|value| value.to_str().ok())
    else {
        return Redirect::None;
    };
    let Ok(uri) = location.parse::<Uri>() else {
        return Redirect::Elsewhere(location.to_owned());
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let Some(host) = uri.host() else {
        return Redirect::Follow(HttpTarget {
            path,
            ..page.clone()
        });
    };
    let host = host.trim_matches(['[', ']']);
    if host != page.address.host {
        return Redirect::Elsewhere(location.to_owned());
    }
    let tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
    Redirect::Follow(HttpTarget {
        address: Address {
            host: host.to_owned(),
            port,
        },
        tls,
        path,
        ..page.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_the_host() {
        let address = Address {
            host: "10.0.0.1".into(),
            port: 8080,
        };
        let page = HttpTarget {
            address,
            tls: false,
            path: "/".into(),
            headers: vec![],
        };
        let led = |code: u16, to: &str| {
            let location = HeaderValue::from_str(to).unwrap();
            match redirect(&page, StatusCode::from_u16(code).unwrap(), Some(&location)) {
                Redirect::None => "done".to_owned(),
                Redirect::Elsewhere(url) => format!("not to {url}"),
                Redirect::Follow(page) => page.url(),
            }
        };
        assert_eq!(led(200, "/a"), "done");
        assert_eq!(led(302, "/a?b"), "http://10.0.0.1:8080/a?b");
        assert_eq!(led(301, "https://10.0.0.1/"), "https://10.0.0.1:443/");
        assert_eq!(
            led(307, "http://example.org/"),
            "not to http://example.org/"
        );
    }
}
