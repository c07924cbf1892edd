//! The addresses of webhooks: URLs, and paths of services.

use url::Url;

use kubeapi::{cause::Cause, object::names};

const SCHEME: &str = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
const HOST: &str = "host must be specified; desired format: https://host[/path]";

/// Checks the URL of a webhook.
pub(super) fn check(field: &str, text: &str, causes: &mut Vec<Cause>) {
    let mut refuse = |value: &str, why: &str| {
        causes.push(Cause::invalid(field, &value.into(), why));
    };
    // a text without a scheme names a path, for Kubernetes
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            refuse("", SCHEME);
            return refuse("", HOST);
        }
        Err(error) => {
            let why =
                format!("url must be a valid URL: {error}; desired format: https://host[/path]");
            return causes.push(Cause::required(field, &why));
        }
    };
    if url.scheme() != "https" {
        refuse(url.scheme(), SCHEME);
    }
    if url.host_str().is_none_or(str::is_empty) {
        refuse("", HOST);
    }
    if !url.username().is_empty() || url.password().is_some() {
        refuse(
            url.username(),
            "user information is not permitted in the URL",
        );
    }
    if let Some(fragment) = url.fragment() {
        refuse(fragment, "fragments are not permitted in the URL");
    }
    if let Some(query) = url.query() {
        refuse(query, "query parameters are not permitted in the URL");
    }
}

/// Returns the faults of the path of a service's URL.
pub(super) fn path(field: &str, path: &str) -> Vec<Cause> {
    let invalid = |why: &str| vec![Cause::invalid(field, &path.into(), why)];
    if path.is_empty() || path == "/" {
        return Vec::new();
    }
    if path == "//" {
        return invalid("segment[0] may not be empty");
    }
    let Some(rest) = path.strip_prefix('/') else {
        return invalid("must start with a '/'");
    };
    let segments: Vec<_> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
    let faults = segments
        .iter()
        .enumerate()
        .flat_map(|(index, segment)| match *segment {
            "" => vec![format!("segment[{index}] may not be empty")],
            segment => names::dns_subdomain(segment)
                .iter()
                .map(|why| format!("segment[{index}]: {why}"))
                .collect(),
        });
    faults
        .map(|why| Cause::invalid(field, &path.into(), &why))
        .collect()
}
