//! The built-in kinds of Kubernetes.

use k8s_openapi::{
    api::{
        apps::v1 as apps, autoscaling::v2 as autoscaling, batch::v1 as batch,
        certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, events::v1 as events, networking::v1 as networking,
        node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling,
        storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};

mod extensions;

use super::{builtin::Builtin, declare::kind, kind::Kind};
use objectstore::Resource;

pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    of_core()
        .into_iter()
        .chain(of_workloads())
        .chain(of_the_rest())
        .chain(of_hosts())
        .chain(extensions::kinds())
}

fn of_core() -> [Kind; 15] {
    use Builtin as B;
    [
        kind::<core::Namespace>(B::Namespace, "Namespace", "namespaces")
            .short("ns")
            .cluster()
            .with_status(),
        kind::<core::Node>(B::Node, "Node", "nodes")
            .short("no")
            .cluster()
            .with_status(),
        kind::<core::Pod>(B::Pod, "Pod", "pods")
            .short("po")
            .category("all")
            .with_status(),
        kind::<core::ConfigMap>(B::ConfigMap, "ConfigMap", "configmaps").short("cm"),
        kind::<core::Secret>(B::Secret, "Secret", "secrets"),
        kind::<core::ServiceAccount>(B::ServiceAccount, "ServiceAccount", "serviceaccounts")
            .short("sa"),
        kind::<core::Event>(B::Event, "Event", "events").short("ev"),
        kind::<core::Service>(B::Service, "Service", "services")
            .short("svc")
            .category("all")
            .with_status(),
        kind::<core::Endpoints>(B::Endpoints, "Endpoints", "endpoints").short("ep"),
        kind::<core::PersistentVolume>(
            B::PersistentVolume,
            "PersistentVolume",
            "persistentvolumes",
        )
        .short("pv")
        .cluster()
        .with_status(),
        kind::<core::PersistentVolumeClaim>(
            B::PersistentVolumeClaim,
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
        )
        .short("pvc")
        .with_status(),
        kind::<core::PodTemplate>(B::PodTemplate, "PodTemplate", "podtemplates"),
        kind::<core::ReplicationController>(
            B::ReplicationController,
            "ReplicationController",
            "replicationcontrollers",
        )
        .short("rc")
        .category("all")
        .with_status(),
        kind::<core::ResourceQuota>(B::ResourceQuota, "ResourceQuota", "resourcequotas")
            .short("quota")
            .with_status(),
        kind::<core::LimitRange>(B::LimitRange, "LimitRange", "limitranges").short("limits"),
    ]
}

fn of_workloads() -> [Kind; 9] {
    use Builtin as B;
    let workload = |kind: Kind, group, short| {
        kind.in_group(group)
            .short(short)
            .category("all")
            .with_status()
    };
    [
        workload(
            kind::<apps::Deployment>(B::Deployment, "Deployment", "deployments"),
            "apps",
            "deploy",
        ),
        workload(
            kind::<apps::ReplicaSet>(B::ReplicaSet, "ReplicaSet", "replicasets"),
            "apps",
            "rs",
        ),
        workload(
            kind::<apps::DaemonSet>(B::DaemonSet, "DaemonSet", "daemonsets"),
            "apps",
            "ds",
        ),
        workload(
            kind::<apps::StatefulSet>(B::StatefulSet, "StatefulSet", "statefulsets"),
            "apps",
            "sts",
        ),
        kind::<apps::ControllerRevision>(
            B::ControllerRevision,
            "ControllerRevision",
            "controllerrevisions",
        )
        .in_group("apps"),
        kind::<batch::Job>(B::Job, "Job", "jobs")
            .in_group("batch")
            .category("all")
            .with_status(),
        workload(
            kind::<batch::CronJob>(B::CronJob, "CronJob", "cronjobs"),
            "batch",
            "cj",
        ),
        workload(
            kind::<autoscaling::HorizontalPodAutoscaler>(
                B::HorizontalPodAutoscaler,
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
            ),
            "autoscaling",
            "hpa",
        )
        .in_version("v2"),
        kind::<policy::PodDisruptionBudget>(
            B::PodDisruptionBudget,
            "PodDisruptionBudget",
            "poddisruptionbudgets",
        )
        .in_group("policy")
        .short("pdb")
        .with_status(),
    ]
}

fn of_the_rest() -> [Kind; 17] {
    const RBAC: &str = "rbac.authorization.k8s.io";
    const STORAGE: &str = "storage.k8s.io";
    const NETWORKING: &str = "networking.k8s.io";
    use Builtin as B;
    [
        kind::<certificates::CertificateSigningRequest>(
            B::CertificateSigningRequest,
            "CertificateSigningRequest",
            "certificatesigningrequests",
        )
        .in_group("certificates.k8s.io")
        .short("csr")
        .cluster()
        .with_status(),
        kind::<coordination::Lease>(B::Lease, "Lease", "leases").in_group("coordination.k8s.io"),
        kind::<discovery::EndpointSlice>(B::EndpointSlice, "EndpointSlice", "endpointslices")
            .in_group("discovery.k8s.io"),
        kind::<events::Event>(B::NewEvent, "Event", "events")
            .in_group("events.k8s.io")
            .stored_as(Resource::new("", "events"))
            .short("ev"),
        kind::<networking::Ingress>(B::Ingress, "Ingress", "ingresses")
            .in_group(NETWORKING)
            .short("ing")
            .with_status(),
        kind::<networking::IngressClass>(B::IngressClass, "IngressClass", "ingressclasses")
            .in_group(NETWORKING)
            .cluster(),
        kind::<networking::NetworkPolicy>(B::NetworkPolicy, "NetworkPolicy", "networkpolicies")
            .in_group(NETWORKING)
            .short("netpol"),
        kind::<rbac::Role>(B::Role, "Role", "roles").in_group(RBAC),
        kind::<rbac::RoleBinding>(B::RoleBinding, "RoleBinding", "rolebindings").in_group(RBAC),
        kind::<rbac::ClusterRole>(B::ClusterRole, "ClusterRole", "clusterroles")
            .in_group(RBAC)
            .cluster(),
        kind::<rbac::ClusterRoleBinding>(
            B::ClusterRoleBinding,
            "ClusterRoleBinding",
            "clusterrolebindings",
        )
        .in_group(RBAC)
        .cluster(),
        kind::<scheduling::PriorityClass>(B::PriorityClass, "PriorityClass", "priorityclasses")
            .in_group("scheduling.k8s.io")
            .short("pc")
            .cluster(),
        kind::<storage::StorageClass>(B::StorageClass, "StorageClass", "storageclasses")
            .in_group(STORAGE)
            .short("sc")
            .cluster(),
        kind::<storage::VolumeAttachment>(
            B::VolumeAttachment,
            "VolumeAttachment",
            "volumeattachments",
        )
        .in_group(STORAGE)
        .cluster()
        .with_status(),
        kind::<storage::CSIDriver>(B::CsiDriver, "CSIDriver", "csidrivers")
            .in_group(STORAGE)
            .cluster(),
        kind::<storage::CSINode>(B::CsiNode, "CSINode", "csinodes")
            .in_group(STORAGE)
            .cluster(),
        kind::<CustomResourceDefinition>(
            B::CustomResourceDefinition,
            "CustomResourceDefinition",
            "customresourcedefinitions",
        )
        .in_group("apiextensions.k8s.io")
        .short("crd")
        .short("crds")
        .category("api-extensions")
        .cluster()
        .with_status(),
    ]
}

/// Returns the kinds that describe machines, storage and addresses; they are only stored.
fn of_hosts() -> [Kind; 4] {
    use Builtin as B;
    [
        kind::<storage::CSIStorageCapacity>(
            B::CsiStorageCapacity,
            "CSIStorageCapacity",
            "csistoragecapacities",
        )
        .in_group("storage.k8s.io"),
        kind::<networking::ServiceCIDR>(B::ServiceCidr, "ServiceCIDR", "servicecidrs")
            .in_group("networking.k8s.io")
            .cluster()
            .with_status(),
        kind::<networking::IPAddress>(B::IpAddress, "IPAddress", "ipaddresses")
            .in_group("networking.k8s.io")
            .short("ip")
            .cluster(),
        kind::<node::RuntimeClass>(B::RuntimeClass, "RuntimeClass", "runtimeclasses")
            .in_group("node.k8s.io")
            .cluster(),
    ]
}
