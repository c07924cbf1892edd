//! The usual answers of the HTTPS server: the CA, and certificates for nodes with a join token or a certificate.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use wire::enroll::{
    CA_PATH, Ca, EDGE_CERT_PATH, EXT_KEY_USAGES_HEADER, Usage, node_of_request, verify_bearer,
};

use super::Caller;

/// The largest request, bytes: KubeEdge's limit.
pub const MAX_REQUEST: usize = 1024 * 1024;
/// The lifetime of an edge's certificate.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns an answer with a text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer
}

/// Returns the bearer token of a request.
pub fn bearer<T>(request: &Request<T>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?;
    value.to_str().ok()?.strip_prefix("Bearer ")
}

/// Answers a request for the CA or for a certificate as a cloud with this CA does.
pub fn certify(ca: &Ca, request: &Request<Bytes>, caller: &Caller) -> Response<Bytes> {
    match request.uri().path() {
        CA_PATH => text(StatusCode::OK, ca.cert_der().to_vec()),
        EDGE_CERT_PATH => match sign(ca, request, caller) {
            Ok(certificate) => text(StatusCode::OK, certificate),
            Err((status, why)) => text(status, why),
        },
        _ => text(StatusCode::NOT_FOUND, "no such path"),
    }
}

fn sign(
    ca: &Ca,
    request: &Request<Bytes>,
    caller: &Caller,
) -> Result<Vec<u8>, (StatusCode, String)> {
    let now = clock::system_now();
    let scope = verify_bearer(bearer(request).unwrap_or_default(), ca, now);
    let owner = match (scope, caller.node()) {
        (Ok(scope), _) => scope.node,
        (Err(_), Ok(node)) => Some(node),
        (Err(error), Err(_)) => {
            let why = format!("token validation failure: {error}");
            return Err((StatusCode::UNAUTHORIZED, why));
        }
    };
    let bad_request = |error: &dyn std::error::Error| (StatusCode::BAD_REQUEST, error.to_string());
    let node = node_of_request(request.body()).map_err(|error| bad_request(&error))?;
    if owner.is_some_and(|owner| owner != node) {
        let why = format!("the request is for the certificate of another node, {node}");
        return Err((StatusCode::FORBIDDEN, why));
    }
    let usages = request.headers().get(EXT_KEY_USAGES_HEADER);
    let usages = Usage::parse_header(usages.and_then(|value| value.to_str().ok()));
    let usages = usages.map_err(|error| bad_request(&error))?;
    ca.sign_edge(request.body(), &usages, CERTIFICATE_LIFETIME, now)
        .map_err(|error| bad_request(&error))
}
