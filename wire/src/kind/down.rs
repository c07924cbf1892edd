//! The messages of the cloud.

use super::{
    Content::{AnyObject, AnyText, Json, JsonText, Null, Object, Text},
    MessageKind,
    Resent::{self, Never},
    Resource::{self, Any, Cluster, Device, Exact, Namespaced},
    Shape::{
        Application, Base64Payload, CsiRequest, ErrStatus, JobSpec, MembershipList,
        MembershipUpdate, ObjectResp, ServiceRequest, ServiceResponse, Task, Terms, TwinUpdate,
        Watches,
    },
    Users::{Nobody, Outrigger, Since, Until},
    forms, kinds,
};
use crate::{
    Group,
    Operation::{
        ApplicationResponse, ControllerPublishVolume, ControllerUnpublishVolume, CreateVolume,
        Delete, DeleteVolume, Error, Insert, Prepull, Publish, Response, Start, Stop, Subscribe,
        Unsubscribe, Update, Upgrade,
    },
    ResourceType as Type,
    Source::{
        Bus, CloudHub, DeviceController, DynamicController, EdgeController, PolicyController,
        RouterEventBus, RouterServiceBus, ServiceBus, TaskManager,
    },
};

forms! {
    /// How messages of the cloud are decoded: the variants of [`crate::Downstream`].
    DownForm {
        Object = "object",
        Answer = "answer",
        RootCa = "root CA",
        TwinConfirmed = "confirmation of a twin",
        Membership = "membership",
        MembershipDetail = "membership in detail",
        TwinDesired = "desired twin",
        Subscription = "subscription",
        Publish = "publication",
        ServiceTarget = "service target",
        ServiceCall = "service call",
        UploadAnswer = "answer to an upload",
        Application = "application",
        WatchSync = "watches",
        Job = "job",
        Volume = "volume",
        Unknown = "unknown message",
    }
}

const RESOURCE: Option<Group> = Some(Group::Resource);
const TWIN: Option<Group> = Some(Group::Twin);
const USER: Option<Group> = Some(Group::User);
const TASKS: Option<Group> = Some(Group::TaskManager);

kinds! {
/// The kinds of messages that a cloud sends.
DOWN of DownForm {
    "pod" Object "A pod of the node was created, changed or deleted. A pod to delete is first changed: it gets a `deletionTimestamp`."
        from [EdgeController] to RESOURCE, [Insert, Update, Delete] of Namespaced(Type::Pod);
        has [Object("v1", "Pod")], replies [], Never, Since("0.3");
    "configmap" Object "A ConfigMap that a pod of the node references was created, changed or deleted."
        from [EdgeController] to RESOURCE, [Insert, Update, Delete] of Namespaced(Type::ConfigMap);
        has [Object("v1", "ConfigMap")], replies [], Never, Since("0.3");
    "secret" Object "A Secret that a pod of the node references was created, changed or deleted. A new one is sent as an update."
        from [EdgeController] to RESOURCE, [Insert, Update, Delete] of Namespaced(Type::Secret);
        has [Object("v1", "Secret")], replies [], Never, Since("0.3");
    "node" Object "The node's own Node was changed."
        from [EdgeController] to RESOURCE, [Update] of Cluster(Type::Node);
        has [Object("v1", "Node")], replies [], Never, Since("1.1");
    "device-model" Object "The model of a device of the node was created, changed or deleted."
        from [DeviceController] to RESOURCE, [Insert, Update, Delete] of Namespaced(Type::DeviceModel);
        has [Object("devices.kubeedge.io/v1beta1", "DeviceModel")], replies [], Never, Since("1.12");
    "device" Object "A device of the node was created, changed or deleted. The desired values of its properties are in its spec."
        from [DeviceController] to RESOURCE, [Insert, Update, Delete] of Namespaced(Type::Device);
        has [Object("devices.kubeedge.io/v1beta1", "Device")], replies [], Never, Since("1.12");
    "service-account-access" Object "The permissions of a service account of the node's pods, for MetaServer."
        from [PolicyController] to RESOURCE, [Insert, Update, Delete] of Namespaced(Type::ServiceAccountAccess);
        has [Object("policy.kubeedge.io/v1alpha1", "ServiceAccountAccess")], replies [], Never, Since("1.14");
    "watched-object" Object "An object that a watch of MetaServer selects was created, changed or deleted. The type is the kind in lower case."
        from [DynamicController] to RESOURCE, [Insert, Update, Delete] of Resource::AnyObject;
        has [AnyObject], replies [], Never, Since("1.6");
    "resync" Object "SyncController found another version of an object at the node. A delete has only name, namespace and uid."
        from [EdgeController] to RESOURCE, [Update, Delete] of Resource::AnyObject;
        has [AnyObject], replies [], Never, Since("1.2");
    "other-object" Object "An object of another controller."
        from [] to RESOURCE, [Insert, Update, Delete] of Resource::AnyObject;
        has [AnyObject], replies [], Never, Nobody;
    "node-response" Answer "The outcome of a registration or a change of the Node, or the requested Node."
        from [EdgeController] to RESOURCE, [Response] of Cluster(Type::Node);
        has [Json(ObjectResp), Object("v1", "Node"), Text("OK"), Json(ErrStatus)], replies [], Never, Since("1.1");
    "node-status-response" Answer "The outcome of a patch of the Node's status, with the whole Node."
        from [EdgeController] to RESOURCE, [Response] of Cluster(Type::NodePatch);
        has [Json(ObjectResp)], replies [], Never, Since("1.12");
    "pod-response" Answer "The outcome of a creation or deletion of a pod."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::Pod);
        has [Json(ObjectResp), Text("OK"), Json(ErrStatus)], replies [], Never, Since("1.3");
    "pod-status-response" Answer "The outcome of a patch of a pod's status, with the whole pod."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::PodPatch);
        has [Json(ObjectResp)], replies [], Never, Since("1.12");
    "lease-response" Answer "The outcome of a creation, renewal or query of the node's Lease."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::Lease);
        has [Json(ObjectResp)], replies [], Never, Since("1.12");
    "configmap-response" Answer "The requested ConfigMap, or why there is none."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::ConfigMap);
        has [Object("v1", "ConfigMap"), Json(ErrStatus)], replies [], Never, Since("0.3");
    "secret-response" Answer "The requested Secret, or why there is none."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::Secret);
        has [Object("v1", "Secret"), Json(ErrStatus)], replies [], Never, Since("0.3");
    "token-response" Answer "The token of a service account, or why there is none."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::ServiceAccountToken);
        has [Object("authentication.k8s.io/v1", "TokenRequest"), Json(ErrStatus)], replies [], Never, Since("1.8");
    "persistent-volume-response" Answer "The requested PersistentVolume, or why there is none."
        from [EdgeController] to RESOURCE, [Response] of Cluster(Type::PersistentVolume);
        has [Object("v1", "PersistentVolume"), Json(ErrStatus)], replies [], Never, Since("1.1");
    "persistent-volume-claim-response" Answer "The requested PersistentVolumeClaim, or why there is none."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::PersistentVolumeClaim);
        has [Object("v1", "PersistentVolumeClaim"), Json(ErrStatus)], replies [], Never, Since("1.1");
    "volume-attachment-response" Answer "The requested VolumeAttachment, or why there is none."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::VolumeAttachment);
        has [Object("storage.k8s.io/v1", "VolumeAttachment"), Json(ErrStatus)], replies [], Never, Since("1.1");
    "certificate-request-response" Answer "The outcome of a certificate request, or the requested one."
        from [EdgeController] to RESOURCE, [Response] of Namespaced(Type::CertificateSigningRequest);
        has [Json(ObjectResp), Object("certificates.k8s.io/v1", "CertificateSigningRequest"), Json(ErrStatus)], replies [], Never, Since("1.17");
    "other-response" Answer "The outcome of another request."
        from [EdgeController] to RESOURCE, [Response] of Any("{resource}");
        has [Json(ObjectResp), AnyObject, Text("OK"), Json(ErrStatus)], replies [], Never, Nobody;
    "root-ca" RootCa "The certificate of the cluster's CA, in PEM."
        from [CloudHub] to RESOURCE, [Response] of Exact("k8s/ca.crt");
        has [AnyText("a certificate in PEM")], replies [], Never, Since("1.17");
    "api-response" Application "The outcome of an API call of MetaServer: `Approved` with the response, or `Rejected` with the error."
        from [DynamicController] to RESOURCE, [ApplicationResponse] of Exact("ignore/Application/ignore");
        has [Json(Application)], replies [], Never, Since("1.6");
    "watches-response" WatchSync "The watches that the cloud could not take over."
        from [DynamicController] to RESOURCE, [ApplicationResponse] of Exact("watchapp/sync");
        has [Json(Watches)], replies [], Never, Since("1.13");
    "volume-call" Volume "A call of a CSI driver on the node."
        from [CloudHub] to RESOURCE, [CreateVolume, DeleteVolume, ControllerPublishVolume, ControllerUnpublishVolume] of Any("{namespace}/volume/{id}");
        has [JsonText(CsiRequest)], replies ["volume-response"], Resent::Fails(60), Since("1.1");
    "twin-confirmation" TwinConfirmed "DeviceController has received a twin report, a state or a membership query."
        from [DeviceController] to TWIN, [Response] of Exact("twin");
        has [Text("OK")], replies [], Never, Since("0.3");
    "membership" Membership "Devices were bound to the node or removed from it."
        from [DeviceController] to TWIN, [Update] of Exact("membership");
        has [Json(MembershipUpdate)], replies [], Never, Since("0.3");
    "membership-list" MembershipDetail "All devices of the node. EdgeCore handles it; the examined versions of CloudCore do not send it."
        from [DeviceController] to TWIN, [Update] of Exact("membership/detail");
        has [Json(MembershipList)], replies [], Never, Outrigger;
    "desired-twin" TwinDesired "Desired values of a device. Since 1.12 they are in the device's spec."
        from [DeviceController] to TWIN, [Update] of Device("/twin/cloud_updated");
        has [Json(TwinUpdate)], replies [], Never, Until("0.3", "1.14");
    "publication" Publish "A rule publishes on an MQTT topic of the node."
        from [RouterEventBus] to USER, [Publish] of Any("{topic}");
        has [AnyText("the payload"), Json(Base64Payload)], replies ["publication-response"], Never, Since("1.6");
    "subscription" Subscription "A rule listens to an MQTT topic of the node, or no longer does."
        from [RouterEventBus] to USER, [Subscribe, Unsubscribe] of Any("{namespace}/{topic}");
        has [Null, Json(Terms)], replies [], Never, Since("1.6");
    "service-target" ServiceTarget "Programs on the node may call this URL through ServiceBus, or no longer may."
        from [RouterServiceBus] to USER, [Start, Stop] of Any("{url}");
        has [Null], replies [], Never, Since("1.16");
    "service-call" ServiceCall "An HTTP request for a service on the node. The operation is the HTTP method."
        from [RouterServiceBus] to USER, [] of Any("{port}:{path}");
        has [Json(ServiceRequest)], replies ["service-response"], Resent::Fails(60), Since("1.7");
    "upload-response" UploadAnswer "The cloud is responsible for an MQTT message now (`response`), or has rejected it for good (`error`)."
        from [Bus] to USER, [Response, Error] of Any("{topic}");
        has [AnyText("`OK`, or the reason")], replies [], Never, Outrigger;
    "application-response" UploadAnswer "The response to the call of a program on the node, or why it failed."
        from [ServiceBus] to USER, [Response, Error] of Any("{url}");
        has [AnyText("the body of the response, or the reason"), Json(ServiceResponse)], replies [], Never, Since("1.16");
    "task" Job "An upgrade of the node or a download of images, before node jobs."
        from [TaskManager] to TASKS, [Upgrade, Prepull] of Any("{type}/{task}/node/{node}");
        has [Json(Task)], replies ["task-status"], Never, Until("1.12", "1.20");
    "job" Job "An action of a node job. The operation is the action: `Check`, `BackUp`, `Upgrade`, `Pull`, `Update` or `RollBack`."
        from [TaskManager] to TASKS, [] of Any("operations.kubeedge.io/v1alpha2/{type}/{job}/node/{node}");
        has [Json(JobSpec)], replies ["job-status"], Never, Since("1.21");
    "other-job" Job "An action of another module."
        from [] to TASKS, [] of Any("{resource}");
        has [Json(JobSpec)], replies [], Never, Nobody;
}
}
