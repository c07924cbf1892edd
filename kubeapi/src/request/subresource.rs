//! Subresources of objects.

use crate::registry::{Builtin, Kind};

/// A subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `…/status`.
    Status,
    /// `…/scale`: how many replicas, the same for all kinds that have some.
    Scale,
    /// `namespaces/…/finalize`: who still has to empty it.
    Finalize,
    /// `certificatesigningrequests/…/approval`: the conditions of its status alone.
    Approval,
    /// `pods/…/binding`.
    Binding,
    /// `pods/…/eviction`: a deletion that keeps to disruption budgets.
    Eviction,
    /// `pods/…/ephemeralcontainers`.
    EphemeralContainers,
    /// `pods/…/resize`: the resources of its containers.
    Resize,
    /// `serviceaccounts/…/token`.
    Token,
    /// What only the node knows or does: `pods/…/log` and the like, and what is proxied into the cluster.
    Remote(Remote),
}

/// A subresource that is not stored: the API connects the client to a node or into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Remote {
    Log,
    Exec,
    Attach,
    PortForward,
    Proxy,
}

/// Group, version and kind.
type GroupVersionKind = (&'static str, &'static str, &'static str);

impl Subresource {
    /// Returns the subresources of `kind`, in alphabetical order.
    pub fn of(kind: &Kind) -> Vec<Self> {
        use Builtin as B;
        let mut parts = match kind.builtin {
            Some(B::Pod) => vec![
                Self::Remote(Remote::Attach),
                Self::Binding,
                Self::EphemeralContainers,
                Self::Eviction,
                Self::Remote(Remote::Exec),
                Self::Remote(Remote::Log),
                Self::Remote(Remote::PortForward),
                Self::Remote(Remote::Proxy),
                Self::Resize,
            ],
            Some(B::Node | B::Service) => vec![Self::Remote(Remote::Proxy)],
            Some(B::ServiceAccount) => vec![Self::Token],
            Some(B::Namespace) => vec![Self::Finalize],
            Some(B::CertificateSigningRequest) => vec![Self::Approval],
            _ => Vec::new(),
        };
        parts.extend(kind.scale().is_some().then_some(Self::Scale));
        parts.extend(kind.status.then_some(Self::Status));
        parts
    }

    /// Returns the subresource `name` of `kind`.
    pub fn find(kind: &Kind, name: &str) -> Option<Self> {
        Self::of(kind).into_iter().find(|part| part.name() == name)
    }

    /// Returns the last segment of its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Approval => "approval",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Token => "token",
            Self::Remote(Remote::Log) => "log",
            Self::Remote(Remote::Exec) => "exec",
            Self::Remote(Remote::Attach) => "attach",
            Self::Remote(Remote::PortForward) => "portforward",
            Self::Remote(Remote::Proxy) => "proxy",
        }
    }

    /// Returns the verbs that it supports.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Status
            | Self::Scale
            | Self::Approval
            | Self::EphemeralContainers
            | Self::Resize => &["get", "patch", "update"],
            Self::Finalize => &["update"],
            Self::Binding | Self::Eviction | Self::Token => &["create"],
            Self::Remote(Remote::Log) => &["get"],
            Self::Remote(Remote::Exec | Remote::Attach | Remote::PortForward) => &["create", "get"],
            Self::Remote(Remote::Proxy) => &["create", "delete", "get", "patch", "update"],
        }
    }

    /// Returns the group, version and kind of its representation, unless they are the object's own.
    pub fn kind(self, kind: &Kind) -> Option<GroupVersionKind> {
        match self {
            Self::Status
            | Self::Finalize
            | Self::Approval
            | Self::EphemeralContainers
            | Self::Resize
            | Self::Remote(Remote::Log) => None,
            Self::Scale => Some(("autoscaling", "v1", "Scale")),
            Self::Binding => Some(("", "v1", "Binding")),
            Self::Eviction => Some(("policy", "v1", "Eviction")),
            Self::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
            Self::Remote(Remote::Exec) => Some(("", "v1", "PodExecOptions")),
            Self::Remote(Remote::Attach) => Some(("", "v1", "PodAttachOptions")),
            Self::Remote(Remote::PortForward) => Some(("", "v1", "PodPortForwardOptions")),
            Self::Remote(Remote::Proxy) => Some(match kind.builtin {
                Some(Builtin::Node) => ("", "v1", "NodeProxyOptions"),
                Some(Builtin::Service) => ("", "v1", "ServiceProxyOptions"),
                _ => ("", "v1", "PodProxyOptions"),
            }),
        }
    }
}
