//! What a node may do through its MetaServer without anybody having granted it: read itself, its pods and what they use. Pure.
//!
//! Source: Kubernetes' node authorizer, <https://kubernetes.io/docs/reference/access-authn-authz/node/>.

use serde_json::Value;
use wire::application::{Target, Verb};

use crate::mailbox::{ObjectKind, ObjectPath};

/// The namespace of node leases.
const LEASES: &str = "kube-node-lease";

/// One call, as far as permission goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The objects.
    pub(super) target: &'a Target,
    /// What is done with them.
    pub(super) verb: Verb,
    /// Empty for the objects themselves.
    pub(super) part: &'a str,
    /// The object that is written.
    pub(super) body: &'a Value,
}

/// What a node may do of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// That.
    Yes,
    /// That, within this field selector; all of it where somebody has granted it.
    Within(String),
    /// What somebody has granted.
    AsGranted,
}

/// Which objects are the node's business.
pub(super) trait Business {
    /// Whether the node holds or needs the object.
    fn holds(&self, path: &ObjectPath) -> bool;
    /// Whether the pod of this UID runs on the node, as this account.
    fn runs_as(&self, namespace: &str, account: &str, pod: &str) -> bool;
}

/// Decides.
pub(super) fn permit(node: &str, wanted: Wanted<'_>, business: &impl Business) -> Permit {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    let Wanted { target, verb, part, body } = wanted;
    let Target { group, plural, namespace, name, .. } = target;
    let holds = |kind| business.holds(&ObjectPath::new(kind, namespace, name));
    let is_whole = matches!(part, "" | "status");
    let allowed = match (group.as_str(), plural.as_str(), verb) {
        ("", "nodes", Get) if is_whole => name == node,
        ("", "nodes", List | Watch) => return Permit::Within(format!("metadata.name={node}")),
        ("", "pods", Get) if is_whole => holds(ObjectKind::Pod),
        ("", "pods", Delete) => holds(ObjectKind::Pod),
        ("", "pods", List | Watch) => return Permit::Within(format!("spec.nodeName={node}")),
        ("", "configmaps", Get) => holds(ObjectKind::ConfigMap),
        ("", "secrets", Get) => holds(ObjectKind::Secret),
        ("", "services" | "endpoints", Get | List | Watch) => is_whole,
        ("discovery.k8s.io", "endpointslices", Get | List | Watch) => is_whole,
        // without them nobody on the node knows which kinds there are
        ("apiextensions.k8s.io", "customresourcedefinitions", Get | List | Watch) => is_whole,
        ("coordination.k8s.io", "leases", Get | Update | Patch) => namespace == LEASES && name == node,
        ("", "serviceaccounts", Create) if part == "token" => {
            let pod = body.pointer("/spec/boundObjectRef/uid").and_then(Value::as_str);
            pod.is_some_and(|pod| business.runs_as(namespace, name, pod))
        }
        _ => false,
    };
    if allowed { Permit::Yes } else { Permit::AsGranted }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Own;

    impl Business for Own {
        fn holds(&self, path: &ObjectPath) -> bool {
            path.name == "mine"
        }

        fn runs_as(&self, _: &str, account: &str, pod: &str) -> bool {
            account == "mine" && pod == "u1"
        }
    }

    #[test]
    fn a_node_reads_its_own_and_no_others() {
        let target = |key: &str| Target::parse(key).unwrap();
        let token = json!({"spec": {"boundObjectRef": {"uid": "u1"}}});
        let within = |selector: &str| Permit::Within(selector.to_owned());
        let rows = [
            (Verb::Get, "/core/v1/nodes/null/edge-1", "", Permit::Yes),
            (Verb::Get, "/core/v1/nodes/null/edge-2", "", Permit::AsGranted),
            (Verb::List, "/core/v1/nodes/null/null", "", within("metadata.name=edge-1")),
            (Verb::Update, "/core/v1/nodes/null/edge-1", "", Permit::AsGranted),
            (Verb::Get, "/core/v1/pods/ns/mine", "", Permit::Yes),
            (Verb::Get, "/core/v1/pods/ns/theirs", "", Permit::AsGranted),
            (Verb::Get, "/core/v1/pods/ns/mine", "exec", Permit::AsGranted),
            (Verb::Delete, "/core/v1/pods/ns/theirs", "", Permit::AsGranted),
            (Verb::Watch, "/core/v1/pods/null/null", "", within("spec.nodeName=edge-1")),
            (Verb::Create, "/core/v1/pods/ns/null", "", Permit::AsGranted),
            (Verb::Get, "/core/v1/secrets/ns/mine", "", Permit::Yes),
            (Verb::Get, "/core/v1/secrets/ns/theirs", "", Permit::AsGranted),
            (Verb::List, "/core/v1/secrets/ns/null", "", Permit::AsGranted),
            (Verb::Watch, "/core/v1/configmaps/null/null", "", Permit::AsGranted),
            (Verb::List, "/core/v1/services/null/null", "", Permit::Yes),
            (Verb::Patch, "/coordination.k8s.io/v1/leases/kube-node-lease/edge-1", "", Permit::Yes),
            (Verb::Patch, "/coordination.k8s.io/v1/leases/kube-node-lease/edge-2", "", Permit::AsGranted),
            (Verb::Create, "/core/v1/serviceaccounts/ns/mine", "token", Permit::Yes),
            (Verb::Create, "/core/v1/serviceaccounts/ns/theirs", "token", Permit::AsGranted),
            (Verb::Get, "/rbac.authorization.k8s.io/v1/clusterroles/null/mine", "", Permit::AsGranted),
        ];
        for (verb, key, part, expected) in rows {
            let wanted = Wanted { target: &target(key), verb, part, body: &token };
            assert_eq!(permit("edge-1", wanted, &Own), expected, "{verb:?} {key} {part}");
        }
    }
}
