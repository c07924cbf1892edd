//! Finds the pod and port behind a service.

use rand::seq::IteratorRandom;
use serde_json::Value;

use super::{backend::Backend, name::Name};
use crate::{
    Api,
    object::{items, text},
    registry::Builtin,
    request::path::Target,
    status::StatusError,
    streams::pod::Pod,
    verbs::get::find,
};
use objectstore::{Page, Scope};

/// The label of endpoint slices that names their service.
const SERVICE: &str = "kubernetes.io/service-name";

/// Returns one of the ready endpoints of a service.
pub(super) async fn backend(
    api: &Api,
    target: &Target,
    name: &Name,
) -> Result<Backend, StatusError> {
    let service = find(api, target).await?.value()?;
    let port = port_name(&service, name)?;
    let registry = api.registry();
    let slices = registry
        .kinds()
        .iter()
        .find(|kind| kind.is(Builtin::EndpointSlice));
    let pods = registry.kinds().iter().find(|kind| kind.is(Builtin::Pod));
    let none = || {
        StatusError::unavailable(format!(
            "no endpoints available for service {:?}",
            target.name
        ))
    };
    let (slices, pods) = slices.zip(pods).ok_or_else(none)?;
    let scope = Scope {
        resource: slices.resource().clone(),
        namespace: Some(target.namespace.clone()),
    };
    let listed = api
        .store()
        .list(
            &scope,
            &Page {
                after: None,
                limit: None,
            },
        )
        .await?;
    let mut found = Vec::new();
    for slice in listed.items {
        let slice = slice.value()?;
        let label = slice
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(SERVICE)?.as_str());
        if label == Some(&target.name) {
            found.extend(endpoints(&slice, &port));
        }
    }
    let (pod, port) = found
        .into_iter()
        .choose(&mut clock::rng())
        .ok_or_else(none)?;
    let pod = Target {
        kind: pods.clone(),
        namespace: target.namespace.clone(),
        name: pod,
        part: None,
    };
    Ok(Backend {
        port,
        pod: Pod::find(api, &pod).await?,
        is_https: name.is_https(),
    })
}

/// Returns the name of the port that is requested by name or number.
fn port_name(service: &Value, name: &Name) -> Result<String, StatusError> {
    let Ok(Some(number)) = name.number() else {
        return Ok(name.port.clone());
    };
    let mut ports = items(service, "/spec/ports").iter();
    let port =
        ports.find(|port| port.get("port").and_then(Value::as_u64) == Some(u64::from(number)));
    let none = || {
        let why = format!("no service port {number} found for service {:?}", name.name);
        StatusError::unavailable(why)
    };
    Ok(text(port.ok_or_else(none)?, "/name")
        .unwrap_or_default()
        .to_owned())
}

/// Returns the ready pods of a slice, with the port of this name.
fn endpoints(slice: &Value, port: &str) -> Vec<(String, u16)> {
    let mut ports = items(slice, "/ports").iter();
    let port = ports.find(|one| text(one, "/name").unwrap_or_default() == port);
    let port = port
        .and_then(|port| port.get("port")?.as_u64())
        .and_then(|port| u16::try_from(port).ok());
    let Some(port) = port else { return Vec::new() };
    let ready = items(slice, "/endpoints").iter().filter(|endpoint| {
        endpoint
            .pointer("/conditions/ready")
            .and_then(Value::as_bool)
            .unwrap_or(true)
            && text(endpoint, "/targetRef/kind") == Some("Pod")
    });
    ready
        .filter_map(|endpoint| Some((text(endpoint, "/targetRef/name")?.to_owned(), port)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_pods_stand_behind_a_port() {
        let pod = |name: &str, conditions: Value| json!({"targetRef": {"kind": "Pod", "name": name}, "conditions": conditions});
        let slice = json!({
            "ports": [{"name": "web", "port": 8080}, {"name": "", "port": 1}],
            "endpoints": [pod("a", json!({"ready": true})), pod("b", json!({"ready": false})), pod("c", json!({})),
                {"addresses": ["192.0.2.1"]}],
        });
        let pair = |name: &str, port| (name.to_owned(), port);
        assert_eq!(endpoints(&slice, "web"), [pair("a", 8080), pair("c", 8080)]);
        assert_eq!(endpoints(&slice, ""), [pair("a", 1), pair("c", 1)]);
        assert_eq!(endpoints(&slice, "x"), []);
    }

    #[test]
    fn a_port_is_named_or_numbered() {
        let service =
            json!({"spec": {"ports": [{"name": "web", "port": 80}, {"name": "x", "port": 81}]}});
        let of = |text: &str| port_name(&service, &Name::parse(text).unwrap());
        assert_eq!(of("s:80").unwrap(), "web");
        assert_eq!(of("s:x").unwrap(), "x");
        assert_eq!(of("s").unwrap(), "");
        assert_eq!(
            of("s:82").unwrap_err().message(),
            "no service port 82 found for service \"s\""
        );
    }
}
