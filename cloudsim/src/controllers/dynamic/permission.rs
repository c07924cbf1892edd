//! What a node may do through its MetaServer without a grant: read itself, its pods and what they use. Pure.
//!
//! Source: Kubernetes' node authorizer, <https://kubernetes.io/docs/reference/access-authn-authz/node/>.

use wire::application::{Target, Verb};

use crate::{
    controllers::edge::restriction::LEASES,
    mailbox::{ObjectKind, ObjectPath},
};

/// The attributes of a call that authorization needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallAttributes<'a> {
    /// The objects of the call.
    pub(super) target: &'a Target,
    /// The verb of the call.
    pub(super) verb: Verb,
    /// The subresource; empty for the objects themselves.
    pub(super) part: &'a str,
}

/// The decision about a node's call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// Allowed.
    Yes,
    /// Allowed with this field selector; without it if it is granted.
    Within(String),
    /// Allowed if it is granted to the node or to an account of its pods.
    AsGranted,
    /// Allowed if it is granted to an account of the node's pods; a grant to the node itself does not count.
    AsAccount,
    /// A token: the edge controller decides, whatever is granted.
    Token,
    /// Refused, whatever is granted: the write would be made with this cloud's own identity.
    Never,
}

/// The objects that concern the node.
pub(super) trait NodeObjects {
    /// Reports whether the node holds or needs the object.
    fn holds(&self, path: &ObjectPath) -> bool;
}

/// Decides about a call of a node.
pub(super) fn permission(
    node: &str,
    wanted: CallAttributes<'_>,
    business: &impl NodeObjects,
) -> Permission {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    let CallAttributes { target, verb, part } = wanted;
    let Target {
        group,
        plural,
        namespace,
        name,
        ..
    } = target;
    let holds = |kind| business.holds(&ObjectPath::new(kind, namespace, name));
    let is_whole = matches!(part, "" | "status");
    let allowed = match (group.as_str(), plural.as_str(), verb) {
        ("", "nodes", Get) if part.is_empty() => name == node,
        ("", "nodes", List | Watch) if part.is_empty() => {
            return Permission::Within(format!("metadata.name={node}"));
        }
        ("", "pods", Get) if part.is_empty() => holds(ObjectKind::Pod),
        ("", "pods", Delete) if part.is_empty() => holds(ObjectKind::Pod),
        ("", "pods", Create) if part == "eviction" => holds(ObjectKind::Pod),
        ("", "pods", List | Watch) if part.is_empty() => {
            return Permission::Within(format!("spec.nodeName={node}"));
        }
        ("", "configmaps", Get) if part.is_empty() => holds(ObjectKind::ConfigMap),
        ("", "secrets", Get) if part.is_empty() => holds(ObjectKind::Secret),
        // nodes may read the access, and the account, of their own pods' accounts
        ("", "serviceaccounts", Get) if part.is_empty() => holds(ObjectKind::Access),
        ("", "services" | "endpoints", Get | List | Watch) => is_whole,
        ("discovery.k8s.io", "endpointslices", Get | List | Watch) => is_whole,
        // without these nothing on the node could discover the kinds
        ("apiextensions.k8s.io", "customresourcedefinitions", Get | List | Watch) => is_whole,
        ("coordination.k8s.io", "leases", Get | Update | Patch) => {
            namespace == LEASES && name == node
        }
        ("", "serviceaccounts", Create) if part == "token" => return Permission::Token,
        _ => false,
    };
    if allowed {
        Permission::Yes
    } else if matches!(verb, Get | List | Watch) {
        Permission::AsGranted
    } else {
        write_permission(group, plural)
    }
}

/// Decides about a write that the node may not make by itself.
fn write_permission(group: &str, plural: &str) -> Permission {
    match (group, plural) {
        // roles would give the node all rights, and certificate requests another name
        ("rbac.authorization.k8s.io" | "certificates.k8s.io", _) => Permission::Never,
        // NodeRestriction applies to nodes, whatever their roles allow
        ("", "nodes" | "pods" | "serviceaccounts" | "persistentvolumeclaims")
        | ("coordination.k8s.io", "leases")
        | ("storage.k8s.io", "csinodes")
        | ("resource.k8s.io", "resourceslices") => Permission::AsAccount,
        _ => Permission::AsGranted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Own;

    impl NodeObjects for Own {
        fn holds(&self, path: &ObjectPath) -> bool {
            path.name == "mine"
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table or one story")]
    fn a_node_reads_its_own_and_no_others() {
        let target = |key: &str| Target::parse(key).unwrap();
        let within = |selector: &str| Permission::Within(selector.to_owned());
        let rows = [
            (Verb::Get, "/core/v1/nodes/null/edge-1", "", Permission::Yes),
            (
                Verb::Get,
                "/core/v1/nodes/null/edge-2",
                "",
                Permission::AsGranted,
            ),
            (
                Verb::List,
                "/core/v1/nodes/null/null",
                "",
                within("metadata.name=edge-1"),
            ),
            (
                Verb::Update,
                "/core/v1/nodes/null/edge-1",
                "",
                Permission::AsAccount,
            ),
            (Verb::Get, "/core/v1/pods/ns/mine", "", Permission::Yes),
            (
                Verb::Get,
                "/core/v1/pods/ns/theirs",
                "",
                Permission::AsGranted,
            ),
            (
                Verb::Get,
                "/core/v1/pods/ns/mine",
                "exec",
                Permission::AsGranted,
            ),
            (
                Verb::Delete,
                "/core/v1/pods/ns/theirs",
                "",
                Permission::AsAccount,
            ),
            (
                Verb::Watch,
                "/core/v1/pods/null/null",
                "",
                within("spec.nodeName=edge-1"),
            ),
            (
                Verb::Create,
                "/core/v1/pods/ns/null",
                "",
                Permission::AsAccount,
            ),
            (Verb::Get, "/core/v1/secrets/ns/mine", "", Permission::Yes),
            (
                Verb::Get,
                "/core/v1/secrets/ns/theirs",
                "",
                Permission::AsGranted,
            ),
            (
                Verb::List,
                "/core/v1/secrets/ns/null",
                "",
                Permission::AsGranted,
            ),
            (
                Verb::Watch,
                "/core/v1/configmaps/null/null",
                "",
                Permission::AsGranted,
            ),
            (
                Verb::List,
                "/core/v1/services/null/null",
                "",
                Permission::Yes,
            ),
            (
                Verb::Patch,
                "/coordination.k8s.io/v1/leases/kube-node-lease/edge-1",
                "",
                Permission::Yes,
            ),
            (
                Verb::Patch,
                "/coordination.k8s.io/v1/leases/kube-node-lease/edge-2",
                "",
                Permission::AsAccount,
            ),
            (
                Verb::Patch,
                "/coordination.k8s.io/v1/leases/ns/edge-1",
                "",
                Permission::AsAccount,
            ),
            (
                Verb::Create,
                "/core/v1/pods/ns/mine",
                "eviction",
                Permission::Yes,
            ),
            (
                Verb::Create,
                "/core/v1/pods/ns/theirs",
                "eviction",
                Permission::AsAccount,
            ),
            (
                Verb::Get,
                "/core/v1/serviceaccounts/ns/mine",
                "",
                Permission::Yes,
            ),
            (
                Verb::Get,
                "/core/v1/serviceaccounts/ns/theirs",
                "",
                Permission::AsGranted,
            ),
            (
                Verb::Create,
                "/core/v1/serviceaccounts/ns/mine",
                "token",
                Permission::Token,
            ),
            (
                Verb::Create,
                "/core/v1/serviceaccounts/ns/theirs",
                "token",
                Permission::Token,
            ),
            (
                Verb::Create,
                "/core/v1/configmaps/ns/mine",
                "",
                Permission::AsGranted,
            ),
            (
                Verb::Create,
                "/rbac.authorization.k8s.io/v1/roles/ns/mine",
                "",
                Permission::Never,
            ),
            (
                Verb::Create,
                "/certificates.k8s.io/v1/certificatesigningrequests/null/null",
                "",
                Permission::Never,
            ),
            (
                Verb::Get,
                "/rbac.authorization.k8s.io/v1/clusterroles/null/mine",
                "",
                Permission::AsGranted,
            ),
        ];
        for (verb, key, part, expected) in rows {
            let wanted = CallAttributes {
                target: &target(key),
                verb,
                part,
            };
            assert_eq!(
                permission("edge-1", wanted, &Own),
                expected,
                "{verb:?} {key} {part}"
            );
        }
    }
}
