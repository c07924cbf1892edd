//! Decides whether a node gets a service account token: only one that is bound to a pod on the node with this account, and only for an
//! audience that the pod requests or that is granted. Pure.
//!
//! Source: Kubernetes' node authorizer and admission plugin `NodeRestriction`.

use serde_json::Value;

use super::index::{Index, PodToken};

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controllers) enum Verdict {
    /// The node gets the token.
    Allowed,
    /// The node gets the token if it may `request-serviceaccounts-token-audience` for this audience and account.
    IfGranted(String),
    /// Refused, for this reason.
    Refused(String),
}

/// Decides about the `TokenRequest` for `namespace`/`account`.
pub(super) fn decide(
    node: &str,
    namespace: &str,
    account: &str,
    request: &Value,
    index: &Index,
) -> Verdict {
    let refused = |why: &str| {
        Verdict::Refused(format!(
            "node {node} gets no token of {namespace}/{account}: {why}"
        ))
    };
    let bound = request
        .pointer("/spec/boundObjectRef")
        .unwrap_or(&Value::Null);
    let text = |field: &str| bound.get(field).and_then(Value::as_str).unwrap_or_default();
    if bound.is_null() {
        return refused("it is not bound to a pod");
    }
    // EdgeCore before 1.16 sends no version
    if text("kind") != "Pod" || !matches!(text("apiVersion"), "v1" | "") {
        return refused("it is bound to something that is no pod");
    }
    if text("name").is_empty() || text("uid").is_empty() {
        return refused("it is bound to a pod without name and uid");
    }
    let Some(PodToken {
        uid,
        account: runs_as,
        audiences,
    }) = index.pod_token(node, namespace, text("name"))
    else {
        return refused("its pod is not on this node, or was not put there by the cloud");
    };
    if uid != text("uid") {
        return refused("its pod is another one by now");
    }
    if runs_as.is_empty() || runs_as != account {
        return refused("its pod does not run as this account");
    }
    let asked = request
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .map(Vec::as_slice);
    match asked.unwrap_or_default() {
        [] => Verdict::Allowed,
        [Value::String(one)] if one.is_empty() || audiences.contains(one) => Verdict::Allowed,
        [Value::String(one)] => Verdict::IfGranted(one.clone()),
        [_] => refused("its audience is no text"),
        _ => refused("it is for more than one audience"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_bound_to_a_pod_that_the_cloud_has_put_on_the_node() {
        let mut index = Index::default();
        for (name, node, annotations) in [
            ("mine", "edge-1", json!({})),
            ("theirs", "edge-2", json!({})),
            (
                "mirror",
                "edge-1",
                json!({"kubernetes.io/config.mirror": "h"}),
            ),
        ] {
            let pod = json!({
                "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "annotations": annotations},
                "spec": {"nodeName": node, "serviceAccountName": "robot", "containers": [], "volumes": [{"name": "v", "projected":
                    {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}]},
            });
            index.apply(&serde_json::from_value(pod).unwrap());
        }
        let reference = |kind: &str, name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}}});
        let own = reference("Pod", "mine", "uid-mine");
        let for_audiences = |audiences: Value| {
            let mut request = own.clone();
            request["spec"]["audiences"] = audiences;
            request
        };
        let decide =
            |account: &str, request: &Value| decide("edge-1", "ns", account, request, &index);
        for good in [json!(null), json!([]), json!([""]), json!(["vault"])] {
            assert_eq!(
                decide("robot", &for_audiences(good.clone())),
                Verdict::Allowed,
                "{good}"
            );
        }
        assert_eq!(
            decide("robot", &for_audiences(json!(["other"]))),
            Verdict::IfGranted("other".to_owned())
        );
        let mut of_a_group = own.clone();
        of_a_group["spec"]["boundObjectRef"]["apiVersion"] = "apps/v1".into();
        for (account, request) in [
            ("king", own.clone()),
            ("robot", json!({"spec": {}})),
            (
                "robot",
                json!({"spec": {"boundObjectRef": {"uid": "uid-mine"}}}),
            ),
            ("robot", reference("Secret", "mine", "uid-mine")),
            ("robot", reference("Node", "edge-1", "uid-mine")),
            ("robot", reference("ServiceAccount", "king", "uid-mine")),
            ("robot", reference("Pod", "mine", "")),
            ("robot", reference("Pod", "", "uid-mine")),
            ("robot", reference("Pod", "mine", "uid-theirs")),
            ("robot", reference("Pod", "theirs", "uid-theirs")),
            ("robot", reference("Pod", "mirror", "uid-mirror")),
            ("default", reference("Pod", "mirror", "uid-mirror")),
            ("", reference("Pod", "mirror", "uid-mirror")),
            ("robot", of_a_group),
            ("robot", for_audiences(json!(["vault", "other"]))),
            ("robot", for_audiences(json!([7]))),
        ] {
            assert!(
                matches!(decide(account, &request), Verdict::Refused(_)),
                "{account} {request}"
            );
        }
    }
}
