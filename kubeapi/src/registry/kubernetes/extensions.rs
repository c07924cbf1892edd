//! Kinds that extend a cluster: admission policies and webhooks, devices, flow control, aggregated API servers. They are served so
//! that a scheduler, a controller manager and charts find them, and most are only stored.

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admission, autoscaling::v1 as autoscaling,
        flowcontrol::v1 as flowcontrol,
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};

use crate::registry::{
    builtin::Builtin as B,
    declare::{kind, newer},
    kind::Kind,
};
use objectstore::Resource;

const ADMISSION: &str = "admissionregistration.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    of_admission()
        .into_iter()
        .chain(of_devices())
        .chain(of_the_api())
}

fn of_admission() -> [Kind; 6] {
    let extension = |kind: Kind| {
        kind.in_group(ADMISSION)
            .category("api-extensions")
            .cluster()
    };
    [
        extension(kind::<admission::ValidatingAdmissionPolicy>(
            B::ValidatingAdmissionPolicy,
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
        ))
        .with_status(),
        extension(kind::<admission::ValidatingAdmissionPolicyBinding>(
            B::ValidatingAdmissionPolicyBinding,
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        )),
        extension(newer(
            B::MutatingAdmissionPolicy,
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
        )),
        extension(newer(
            B::MutatingAdmissionPolicyBinding,
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
        )),
        extension(kind::<admission::ValidatingWebhookConfiguration>(
            B::ValidatingWebhookConfiguration,
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
        )),
        extension(kind::<admission::MutatingWebhookConfiguration>(
            B::MutatingWebhookConfiguration,
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
        )),
    ]
}

fn of_devices() -> [Kind; 5] {
    let device = |builtin, kind: &str, plural: &str, name| {
        newer(builtin, kind, plural, name).in_group(DEVICES)
    };
    [
        device(
            B::ResourceClaim,
            "ResourceClaim",
            "resourceclaims",
            "io.k8s.api.resource.v1.ResourceClaim",
        )
        .with_status(),
        device(
            B::ResourceClaimTemplate,
            "ResourceClaimTemplate",
            "resourceclaimtemplates",
            "io.k8s.api.resource.v1.ResourceClaimTemplate",
        ),
        device(
            B::ResourceSlice,
            "ResourceSlice",
            "resourceslices",
            "io.k8s.api.resource.v1.ResourceSlice",
        )
        .cluster(),
        device(
            B::DeviceClass,
            "DeviceClass",
            "deviceclasses",
            "io.k8s.api.resource.v1.DeviceClass",
        )
        .cluster(),
        newer(
            B::VolumeAttributesClass,
            "VolumeAttributesClass",
            "volumeattributesclasses",
            "io.k8s.api.storage.v1.VolumeAttributesClass",
        )
        .in_group("storage.k8s.io")
        .short("vac")
        .cluster(),
    ]
}

fn of_the_api() -> [Kind; 4] {
    [
        kind::<flowcontrol::FlowSchema>(B::FlowSchema, "FlowSchema", "flowschemas")
            .in_group(FLOW_CONTROL)
            .cluster()
            .with_status(),
        kind::<flowcontrol::PriorityLevelConfiguration>(
            B::PriorityLevelConfiguration,
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
        )
        .in_group(FLOW_CONTROL)
        .cluster()
        .with_status(),
        kind::<APIService>(B::ApiService, "APIService", "apiservices")
            .in_group("apiregistration.k8s.io")
            .category("api-extensions")
            .cluster()
            .with_status(),
        kind::<autoscaling::HorizontalPodAutoscaler>(
            B::AutoscalerV1,
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
        )
        .in_group("autoscaling")
        .stored_as(Resource::new("autoscaling", "horizontalpodautoscalers"))
        .short("hpa")
        .category("all")
        .with_status(),
    ]
}
