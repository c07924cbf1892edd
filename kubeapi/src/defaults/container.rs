//! Defaults of containers.

use serde_json::{Map, Value, json};

use super::fields::{default_number, default_text, map_at, maps, text_at};
use crate::object::{child, default_to};

/// Fills a reference to a field of the pod or to a resource of a container.
pub(super) fn fill_reference(from: &mut Map<String, Value>) {
    if let Some(field) = map_at(from, "fieldRef") {
        default_text(field, "apiVersion", "v1");
    }
    if let Some(resource) = map_at(from, "resourceFieldRef") {
        default_text(resource, "divisor", "0");
    }
}

/// Opens the ports of a container in the host's network on the host.
pub(crate) fn fill_host_ports(container: &mut Map<String, Value>) {
    for port in maps(container, "ports") {
        if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            default_number(port, "hostPort", number);
        }
    }
}

pub(crate) fn fill(container: &mut Map<String, Value>) {
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    let policy = if is_latest(text_at(container, "image")) {
        "Always"
    } else {
        "IfNotPresent"
    };
    default_text(container, "imagePullPolicy", policy);
    default_to(container, "resources", json!({}));
    for port in maps(container, "ports") {
        default_text(port, "protocol", "TCP");
    }
    for from in maps(container, "env").filter_map(|variable| map_at(variable, "valueFrom")) {
        fill_reference(from);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = map_at(container, probe) {
            fill_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) =
            map_at(container, "lifecycle").and_then(|lifecycle| map_at(lifecycle, hook))
        {
            fill_http(hook);
        }
    }
}

fn fill_probe(probe: &mut Map<String, Value>) {
    for (key, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        default_number(probe, key, value);
    }
    fill_http(probe);
    if let Some(grpc) = map_at(probe, "grpc") {
        default_to(grpc, "service", "");
    }
}

fn fill_http(handler: &mut Map<String, Value>) {
    if let Some(http) = map_at(handler, "httpGet") {
        default_text(http, "path", "/");
        default_text(http, "scheme", "HTTP");
    }
}

/// Sets each missing request to its limit.
pub(crate) fn fill_requests(container: &mut Map<String, Value>) {
    let Some(resources) = map_at(container, "resources") else {
        return;
    };
    let limits = map_at(resources, "limits")
        .map(|limits| limits.clone())
        .unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = child(resources, "requests");
    for (name, limit) in limits {
        default_to(requests, &name, limit);
    }
}

/// Reports whether the image's tag is `latest`, given or implied.
fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    let tag = name
        .split_once('@')
        .map_or(name, |(name, _)| name)
        .split_once(':')
        .map(|(_, tag)| tag);
    match tag {
        Some(tag) => tag == "latest",
        None => !name.is_empty() && !name.contains('@'),
    }
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn an_image_is_pulled_anew_when_its_tag_may_have_moved() {
        let cases = [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("registry:5000/team/nginx", true),
            ("registry:5000/team/nginx:1", false),
            ("nginx@sha256:0123", false),
            ("", false),
            ("nginx:1@sha256:0123", false),
        ];
        for (image, expected) in cases {
            assert_eq!(is_latest(image), expected, "{image}");
        }
    }
}
