//! What a node may do through its MetaServer without anybody having granted it: read itself, its pods and what they use. Pure.
//!
//! Source: Kubernetes' node authorizer, <https://kubernetes.io/docs/reference/access-authn-authz/node/>.

use wire::application::{Target, Verb};

use crate::{
    controllers::edge::restriction::LEASES,
    mailbox::{ObjectKind, ObjectPath},
};

/// One call, as far as permission goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The objects.
    pub(super) target: &'a Target,
    /// What is done with them.
    pub(super) verb: Verb,
    /// Empty for the objects themselves.
    pub(super) part: &'a str,
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
    /// What somebody has granted to an account of one of the node's pods; a grant to the node itself does not count.
    AsAccount,
    /// A token: the edge controller decides, and no grant changes that.
    Token,
    /// Nothing, whatever was granted: it is written with this cloud's own rights, which would say whose it is.
    Never,
}

/// Which objects are the node's business.
pub(super) trait Business {
    /// Whether the node holds or needs the object.
    fn holds(&self, path: &ObjectPath) -> bool;
}

/// Decides.
pub(super) fn permit(node: &str, wanted: Wanted<'_>, business: &impl Business) -> Permit {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    let Wanted { target, verb, part } = wanted;
    let Target { group, plural, namespace, name, .. } = target;
    let holds = |kind| business.holds(&ObjectPath::new(kind, namespace, name));
    let is_whole = matches!(part, "" | "status");
    let allowed = match (group.as_str(), plural.as_str(), verb) {
        ("", "nodes", Get) if part.is_empty() => name == node,
        ("", "nodes", List | Watch) => return Permit::Within(format!("metadata.name={node}")),
        ("", "pods", Get) if part.is_empty() => holds(ObjectKind::Pod),
        ("", "pods", Delete) if part.is_empty() => holds(ObjectKind::Pod),
        ("", "pods", Create) if part == "eviction" => holds(ObjectKind::Pod),
        ("", "pods", List | Watch) => return Permit::Within(format!("spec.nodeName={node}")),
        ("", "configmaps", Get) if part.is_empty() => holds(ObjectKind::ConfigMap),
        ("", "secrets", Get) if part.is_empty() => holds(ObjectKind::Secret),
        // what an account may do is shown to the nodes of its pods, and so is the account
        ("", "serviceaccounts", Get) if part.is_empty() => holds(ObjectKind::Access),
        ("", "services" | "endpoints", Get | List | Watch) => is_whole,
        ("discovery.k8s.io", "endpointslices", Get | List | Watch) => is_whole,
        // without them nobody on the node knows which kinds there are
        ("apiextensions.k8s.io", "customresourcedefinitions", Get | List | Watch) => is_whole,
        ("coordination.k8s.io", "leases", Get | Update | Patch) => namespace == LEASES && name == node,
        ("", "serviceaccounts", Create) if part == "token" => return Permit::Token,
        _ => false,
    };
    if allowed {
        Permit::Yes
    } else if matches!(verb, Get | List | Watch) {
        Permit::AsGranted
    } else {
        written(group, plural)
    }
}

/// Who may have been granted a write that the node may not do of itself.
fn written(group: &str, plural: &str) -> Permit {
    match (group, plural) {
        // roles would give the node everything, and certificate requests another name
        ("rbac.authorization.k8s.io" | "certificates.k8s.io", _) => Permit::Never,
        // NodeRestriction holds for nodes, whatever their roles say
        ("", "nodes" | "pods" | "serviceaccounts" | "persistentvolumeclaims")
        | ("coordination.k8s.io", "leases")
        | ("storage.k8s.io", "csinodes")
        | ("resource.k8s.io", "resourceslices") => Permit::AsAccount,
        _ => Permit::AsGranted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Own;

    impl Business for Own {
        fn holds(&self, path: &ObjectPath) -> bool {
            path.name == "mine"
        }
    }

    #[test]
    fn a_node_reads_its_own_and_no_others() {
        let target = |key: &str| Target::parse(key).unwrap();
        let within = |selector: &str| Permit::Within(selector.to_owned());
        let rows = [
            (Verb::Get, "/core/v1/nodes/null/edge-1", "", Permit::Yes),
            (Verb::Get, "/core/v1/nodes/null/edge-2", "", Permit::AsGranted),
            (Verb::List, "/core/v1/nodes/null/null", "", within("metadata.name=edge-1")),
            (Verb::Update, "/core/v1/nodes/null/edge-1", "", Permit::AsAccount),
            (Verb::Get, "/core/v1/pods/ns/mine", "", Permit::Yes),
            (Verb::Get, "/core/v1/pods/ns/theirs", "", Permit::AsGranted),
            (Verb::Get, "/core/v1/pods/ns/mine", "exec", Permit::AsGranted),
            (Verb::Delete, "/core/v1/pods/ns/theirs", "", Permit::AsAccount),
            (Verb::Watch, "/core/v1/pods/null/null", "", within("spec.nodeName=edge-1")),
            (Verb::Create, "/core/v1/pods/ns/null", "", Permit::AsAccount),
            (Verb::Get, "/core/v1/secrets/ns/mine", "", Permit::Yes),
            (Verb::Get, "/core/v1/secrets/ns/theirs", "", Permit::AsGranted),
            (Verb::List, "/core/v1/secrets/ns/null", "", Permit::AsGranted),
            (Verb::Watch, "/core/v1/configmaps/null/null", "", Permit::AsGranted),
            (Verb::List, "/core/v1/services/null/null", "", Permit::Yes),
            (Verb::Patch, "/coordination.k8s.io/v1/leases/kube-node-lease/edge-1", "", Permit::Yes),
            (Verb::Patch, "/coordination.k8s.io/v1/leases/kube-node-lease/edge-2", "", Permit::AsAccount),
            (Verb::Patch, "/coordination.k8s.io/v1/leases/ns/edge-1", "", Permit::AsAccount),
            (Verb::Create, "/core/v1/pods/ns/mine", "eviction", Permit::Yes),
            (Verb::Create, "/core/v1/pods/ns/theirs", "eviction", Permit::AsAccount),
            (Verb::Get, "/core/v1/serviceaccounts/ns/mine", "", Permit::Yes),
            (Verb::Get, "/core/v1/serviceaccounts/ns/theirs", "", Permit::AsGranted),
            (Verb::Create, "/core/v1/serviceaccounts/ns/mine", "token", Permit::Token),
            (Verb::Create, "/core/v1/serviceaccounts/ns/theirs", "token", Permit::Token),
            (Verb::Create, "/core/v1/configmaps/ns/mine", "", Permit::AsGranted),
            (Verb::Create, "/rbac.authorization.k8s.io/v1/roles/ns/mine", "", Permit::Never),
            (Verb::Create, "/certificates.k8s.io/v1/certificatesigningrequests/null/null", "", Permit::Never),
            (Verb::Get, "/rbac.authorization.k8s.io/v1/clusterroles/null/mine", "", Permit::AsGranted),
        ];
        for (verb, key, part, expected) in rows {
            let wanted = Wanted { target: &target(key), verb, part };
            assert_eq!(permit("edge-1", wanted, &Own), expected, "{verb:?} {key} {part}");
        }
    }
}
