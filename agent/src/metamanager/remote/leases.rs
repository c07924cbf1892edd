//! Leases: not stored here, since one that the cloud does not have says nothing.

use http::{Method, Response};
use kubeapi::Body;
use serde_json::{Value, json};
use wire::{Answer, Change, ResourceType, Upstream};

use super::{Refusal, Remote, found};

const NAMESPACE: &str = "kube-node-lease";

impl Remote {
    /// Reads, creates or replaces a lease in the cloud.
    pub(super) async fn lease(
        &self,
        method: &Method,
        name: &str,
        mut lease: Value,
    ) -> Result<Response<Body>, Refusal> {
        let given = lease.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(name).to_owned();
        if let Some(map) = lease.as_object_mut() {
            // EdgeCore sends none of them
            map.shift_remove("kind");
            map.shift_remove("apiVersion");
        }
        let kind = ResourceType::Lease;
        let request = match *method {
            Method::POST => Upstream::put(Change::Insert, NAMESPACE, &kind, &given, lease),
            Method::PUT => Upstream::put(Change::Update, NAMESPACE, &kind, &given, lease),
            _ => Upstream::query(NAMESPACE, &kind, &given),
        };
        let mut lease = match self.ask(request).await?.0 {
            Answer::Response(response) => response.into_result().map_err(Refusal::of)?,
            Answer::Failed(status) => return Err(Refusal::of(status)),
            Answer::Found(lease) => lease,
            Answer::Done => {
                return Err(Refusal::bad_gateway("the cloud answered a lease request without a lease"));
            }
        };
        if let Some(map) = lease.as_object_mut() {
            map.insert("kind".into(), json!("Lease"));
            map.insert("apiVersion".into(), json!("coordination.k8s.io/v1"));
        }
        Ok(found(method, &lease))
    }
}
