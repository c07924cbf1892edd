//! The downward API: a pod's fields and resources as text, for environment variables and files.

use k8s_openapi::{
    api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource::Quantity,
};
use kubeapi::object::quantity;

use super::specs;

/// What fields and resources of the downward API are read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Downward<'a> {
    /// The pod.
    pub(crate) pod: &'a Pod,
    /// The node's addresses.
    pub(crate) host_ips: &'a [String],
    /// The pod's addresses; empty before it has a sandbox.
    pub(crate) pod_ips: &'a [String],
    /// The node's allocatable resources, which stand in for limits that are not set.
    pub(crate) allocatable: Allocatable,
}

impl Downward<'_> {
    /// Returns the pod's `fsGroup`.
    pub(crate) fn fs_group(&self) -> Option<u32> {
        let spec = self.pod.spec.as_ref()?;
        u32::try_from(spec.security_context.as_ref()?.fs_group?).ok()
    }
}

/// The node's allocatable resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocatable {
    /// CPU in thousandths of a core.
    pub(crate) cpu_millis: i64,
    /// Memory in bytes.
    pub(crate) memory: i64,
    /// Ephemeral storage in bytes.
    pub(crate) storage: i64,
}

/// Why a field or resource cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    /// There is no such field.
    #[error("field path {0:?} is not one of the downward API's: see the pod's fieldRef")]
    Field(String),
    /// There is no such resource.
    #[error(
        "resource {0:?} is not one of the downward API's: use limits or requests of cpu, memory or ephemeral-storage"
    )]
    Resource(String),
    /// There is no such container.
    #[error("container {0:?}, named in a resourceFieldRef, is not in this pod")]
    Container(String),
    /// A quantity cannot be parsed.
    #[error(
        "resource {0:?} has an invalid quantity; write a number with a unit, such as 500m or 64Mi"
    )]
    Quantity(String),
}

/// Returns the value of a field as text.
pub(crate) fn field(
    downward: &Downward<'_>,
    selector: &ObjectFieldSelector,
) -> Result<String, Error> {
    let (meta, spec) = (&downward.pod.metadata, downward.pod.spec.as_ref());
    let path = selector.field_path.as_str();
    Ok(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(meta.labels.iter().flatten()),
        "metadata.annotations" => lines(meta.annotations.iter().flatten()),
        "spec.nodeName" => spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec
            .and_then(|s| s.service_account_name.clone())
            .unwrap_or_else(|| "default".into()),
        "status.hostIP" => downward.host_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => downward.host_ips.join(","),
        "status.podIP" => downward.pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => downward.pod_ips.join(","),
        other => {
            let (map, key) =
                subscript(other).ok_or_else(|| Error::Field(other.chars().take(256).collect()))?;
            let map = if map == "metadata.labels" {
                &meta.labels
            } else {
                &meta.annotations
            };
            map.as_ref()
                .and_then(|m| m.get(key))
                .cloned()
                .unwrap_or_default()
        }
    })
}

/// Parses `metadata.labels['key']` or `metadata.annotations['key']` into map and key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    let key = rest.strip_suffix("']")?;
    matches!(map, "metadata.labels" | "metadata.annotations").then_some((map, key))
}

fn lines<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    pairs
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Quotes text as Go's `%q` does.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the value of a resource, divided by the divisor. It is a resource of `own` unless the selector names another
/// container.
pub(crate) fn resource(
    downward: &Downward<'_>,
    own: Option<&Container>,
    selector: &ResourceFieldSelector,
) -> Result<String, Error> {
    let named = selector
        .container_name
        .as_deref()
        .filter(|name| !name.is_empty());
    let container = match (named, own) {
        (Some(name), _) => specs::containers_of(downward.pod)
            .find(|container| container.name == name)
            .ok_or_else(|| Error::Container(name.into()))?,
        (None, Some(own)) => own,
        (None, None) => return Err(Error::Container(String::new())),
    };
    let no_resource = || Error::Resource(selector.resource.clone());
    let (kind, name) = selector.resource.split_once('.').ok_or_else(no_resource)?;
    let set = container.resources.as_ref();
    let value = match kind {
        "limits" => set
            .and_then(|r| r.limits.as_ref())
            .and_then(|l| l.get(name))
            .cloned(),
        "requests" => set
            .and_then(|r| r.requests.as_ref())
            .and_then(|l| l.get(name))
            .cloned(),
        _ => return Err(no_resource()),
    };
    let value = match (value, kind) {
        (Some(value), _) => value,
        (None, "requests") => Quantity("0".into()),
        (None, _) => downward.allocatable.of(name).ok_or_else(no_resource)?,
    };
    let one = Quantity("1".into());
    let divisor = selector
        .divisor
        .as_ref()
        .filter(|d| !d.0.is_empty())
        .unwrap_or(&one);
    quantity::divide(&value, divisor)
        .map(|number| number.to_string())
        .ok_or_else(|| Error::Quantity(selector.resource.clone()))
}

impl Allocatable {
    fn of(&self, name: &str) -> Option<Quantity> {
        match name {
            "cpu" => Some(Quantity(format!("{}m", self.cpu_millis))),
            "memory" => Some(Quantity(self.memory.to_string())),
            "ephemeral-storage" => Some(Quantity(self.storage.to_string())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "x\"y"}, "annotations": {"a/b": "c"}},
            "spec": {"nodeName": "edge", "containers": [
                {"name": "c", "image": "i", "resources": {"limits": {"cpu": "250m"}, "requests": {"memory": "64Mi"}}}
            ]}
        }))
        .unwrap()
    }

    #[test]
    fn fields_and_resources_are_formatted() {
        let pod = pod();
        let (host_ips, pod_ips) = (
            vec!["10.0.0.1".to_owned()],
            vec!["10.1.0.2".to_owned(), "fd00::2".to_owned()],
        );
        let allocatable = Allocatable {
            cpu_millis: 2000,
            memory: 1 << 30,
            storage: 1 << 33,
        };
        let downward = Downward {
            pod: &pod,
            host_ips: &host_ips,
            pod_ips: &pod_ips,
            allocatable,
        };
        let get = |path: &str| {
            field(
                &downward,
                &ObjectFieldSelector {
                    field_path: path.into(),
                    ..Default::default()
                },
            )
        };
        assert_eq!(get("metadata.labels").unwrap(), r#"app="x\"y""#);
        assert_eq!(get("metadata.annotations['a/b']").unwrap(), "c");
        assert_eq!(get("metadata.labels['none']").unwrap(), "");
        assert_eq!(get("status.podIPs").unwrap(), "10.1.0.2,fd00::2");
        assert_eq!(get("status.hostIP").unwrap(), "10.0.0.1");
        assert_eq!(get("spec.serviceAccountName").unwrap(), "default");
        assert_eq!(get("spec.secret"), Err(Error::Field("spec.secret".into())));
        let own = &pod.spec.as_ref().unwrap().containers[0];
        let of = |name: &str, divisor: &str| {
            let selector = ResourceFieldSelector {
                resource: name.into(),
                divisor: Some(Quantity(divisor.into())),
                container_name: None,
            };
            resource(&downward, Some(own), &selector)
        };
        assert_eq!(of("limits.cpu", "1m").unwrap(), "250");
        assert_eq!(of("limits.cpu", "").unwrap(), "1");
        assert_eq!(of("limits.memory", "1Mi").unwrap(), "1024");
        assert_eq!(of("requests.memory", "1Mi").unwrap(), "64");
        assert_eq!(
            of("limits.gpu", "1"),
            Err(Error::Resource("limits.gpu".into()))
        );
    }
}
