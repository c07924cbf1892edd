//! The messages of the edge.

use super::{
    Content::{AnyObject, AnyText, Base64, Json, JsonText, Null, Object, Only, OnlyNull, Text},
    MessageKind,
    Resent::{Fails, Never, Periodic, SameId, UntilAnswered},
    Resource::{Absent, Any, Cluster, Device, Exact, Namespaced},
    Shape::{
        ActionStatus, Application, Base64Payload, CsiResponse, DeleteOptions, EventPatch,
        LocalCall, MembershipQuestion, ServiceResponse, StateResult, StatusPatch, TaskStatus,
        TwinUpdate, Watches,
    },
    Users::{Nobody, Outrigger, Since, Until},
    forms, kinds,
};
use crate::{
    Group,
    Operation::{
        self, Delete, Error, Get, Insert, Keepalive, Patch, Prepull, Query, Response, Update,
        UpdateNodeActionStatus, Upgrade, Upload,
    },
    ResourceType as Type,
    Source::{Bus, Edged, MetaManager, MetaServer, Other, ServiceBus, Twin, WebSocket},
};

forms! {
    /// How messages of the edge are decoded: the variants of [`crate::Upstream`].
    UpForm {
        Keepalive = "keepalive",
        Shutdown = "shutdown",
        Ack = "acknowledgement",
        Object = "object",
        Patch = "patch",
        Query = "query",
        RootCa = "query for the root CA",
        MembershipDetail = "membership query",
        Device = "device report",
        BusUpload = "MQTT upload",
        BusAnswer = "answer to a publication",
        ServiceUpload = "service upload",
        Application = "application",
        WatchSync = "watches",
        ActionStatus = "status of a job",
        TaskStatus = "status of a task",
        Unknown = "unknown message",
    }
}

const RESOURCE: Option<Group> = Some(Group::Resource);
const META: Option<Group> = Some(Group::Meta);
const USER: Option<Group> = Some(Group::User);
const HUB: Option<Group> = Some(Group::Hub);
const DYNAMIC: Option<Group> = Some(Group::DynamicController);

kinds! {
/// The kinds of messages that an edge node sends.
UP of UpForm {
    "keepalive" Keepalive "The session is alive. Only this message keeps it so: the cloud ends a session without one for 30 seconds."
        from [WebSocket] to RESOURCE, [Keepalive] of Exact("node");
        has [Text("ping")], replies [], Periodic(15), Since("0.3");
    "shutdown" Shutdown "An empty message, which EdgeCore may send while it stops. It has no meaning."
        from [Other(String::new())] to Some(Group::Other(String::new())), [Operation::Other(String::new())] of Absent;
        has [OnlyNull], replies [], Never, Since("1.23");
    "publication-response" BusAnswer "The broker of the node has a publication (`response`), or publishing failed (`error`)."
        from [Bus] to USER, [Response, Error] of Any("{topic}");
        has [AnyText("`OK`, or the reason")], replies [], Never, Outrigger;
    "acknowledgement" Ack "The node has stored the message that `parent_msg_id` names. Source and group are those of that message, or `meta` and `twin` for new and deleted devices and models."
        from [] to None, [Response] of Any("{resource}");
        has [Only("OK")], replies [], Never, Since("1.2");
    "node-registration" Object "Creates the node's Node. The label `node-role.kubernetes.io/edge` makes it an edge node."
        from [Edged] to META, [Insert] of Cluster(Type::Node);
        has [Object("v1", "Node")], replies ["node-response"], Fails(60), Since("1.12");
    "node-update" Object "Replaces the Node."
        from [Edged] to META, [Update] of Cluster(Type::Node);
        has [Object("v1", "Node")], replies ["node-response"], Fails(60), Until("1.1", "1.11");
    "node-query" Query "Requests the Node. EdgeCore answers it from its database."
        from [Edged] to META, [Query] of Cluster(Type::Node);
        has [Null], replies ["node-response"], Fails(60), Until("1.1", "1.11");
    "node-status" Patch "Patches the status of the Node."
        from [Edged] to META, [Patch] of Cluster(Type::NodePatch);
        has [JsonText(StatusPatch)], replies ["node-status-response"], Fails(60), Since("1.12");
    "node-status-report" Object "The status of the Node, before patches."
        from [Edged] to META, [Insert, Update] of Cluster(Type::NodeStatus);
        has [AnyObject], replies [], Never, Until("0.3", "1.11");
    "lease" Object "Creates or renews the Lease of the node in `kube-node-lease`, by which the cluster knows that the node is alive."
        from [Edged] to META, [Insert, Update] of Namespaced(Type::Lease);
        has [Object("coordination.k8s.io/v1", "Lease")], replies ["lease-response"], Fails(60), Since("1.12");
    "lease-query" Query "Requests the Lease of the node."
        from [Edged] to META, [Query] of Namespaced(Type::Lease);
        has [Null], replies ["lease-response"], Fails(60), Since("1.12");
    "mirror-pod" Object "Creates the mirror pod of a static pod."
        from [Edged] to META, [Insert] of Namespaced(Type::Pod);
        has [Object("v1", "Pod")], replies ["pod-response"], Fails(60), Since("1.15");
    "pod-status" Patch "Patches the status of a pod."
        from [Edged] to META, [Patch] of Namespaced(Type::PodPatch);
        has [JsonText(StatusPatch)], replies ["pod-status-response"], Fails(60), Since("1.12");
    "pod-deletion" Object "Deletes a pod whose containers have stopped: grace period 0, with the uid as precondition."
        from [Edged] to META, [Delete] of Namespaced(Type::Pod);
        has [Json(DeleteOptions)], replies ["pod-response"], Fails(60), Since("1.3");
    "pod-status-report" Object "The status of a pod, or of several, before patches."
        from [Edged] to META, [Insert, Update] of Namespaced(Type::PodStatus);
        has [AnyObject], replies [], Never, Until("0.3", "1.11");
    "configmap-query" Query "Requests a ConfigMap that a pod of the node references."
        from [Edged] to META, [Query] of Namespaced(Type::ConfigMap);
        has [Null], replies ["configmap-response"], Fails(60), Since("0.3");
    "secret-query" Query "Requests a Secret that a pod of the node references."
        from [Edged] to META, [Query] of Namespaced(Type::Secret);
        has [Null], replies ["secret-response"], Fails(60), Since("0.3");
    "token-request" Query "Requests a token of a service account for a pod of the node."
        from [Edged] to META, [Query] of Namespaced(Type::ServiceAccountToken);
        has [Object("authentication.k8s.io/v1", "TokenRequest")], replies ["token-response"], Fails(60), Since("1.8");
    "persistent-volume-query" Query "Requests the PersistentVolume of a claim."
        from [Edged] to META, [Query] of Cluster(Type::PersistentVolume);
        has [Null], replies ["persistent-volume-response"], Fails(60), Since("1.1");
    "persistent-volume-claim-query" Query "Requests a PersistentVolumeClaim of a pod of the node."
        from [Edged] to META, [Query] of Namespaced(Type::PersistentVolumeClaim);
        has [Null], replies ["persistent-volume-claim-response"], Fails(60), Since("1.1");
    "volume-attachment-query" Query "Requests the VolumeAttachment of a volume."
        from [Edged] to META, [Query] of Namespaced(Type::VolumeAttachment);
        has [Null], replies ["volume-attachment-response"], Fails(60), Since("1.1");
    "certificate-request" Object "Creates a CertificateSigningRequest for a serving certificate of the node."
        from [Edged] to META, [Insert] of Namespaced(Type::CertificateSigningRequest);
        has [Object("certificates.k8s.io/v1", "CertificateSigningRequest")], replies ["certificate-request-response"], Fails(60), Since("1.17");
    "certificate-request-query" Query "Requests a CertificateSigningRequest, to find out whether the certificate was issued."
        from [Edged] to META, [Query] of Namespaced(Type::CertificateSigningRequest);
        has [Null], replies ["certificate-request-response"], Fails(60), Since("1.17");
    "event" Object "Records an event about the node or a pod."
        from [Edged] to META, [Insert, Update] of Namespaced(Type::Event);
        has [Object("v1", "Event")], replies [], Never, Since("1.19");
    "event-patch" Patch "Patches an event, usually its count."
        from [Edged] to META, [Patch] of Namespaced(Type::Event);
        has [Json(EventPatch)], replies [], Never, Since("1.19");
    "other-request" Object "Another change of an object."
        from [Edged] to META, [Insert, Update, Delete] of Any("{resource}");
        has [AnyObject], replies ["other-response"], Fails(60), Nobody;
    "other-patch" Patch "Another patch."
        from [Edged] to META, [Patch] of Any("{resource}");
        has [JsonText(StatusPatch)], replies ["other-response"], Fails(60), Nobody;
    "other-query" Query "Another query."
        from [Edged] to META, [Query] of Any("{resource}");
        has [Null], replies ["other-response"], Fails(60), Nobody;
    "root-ca-query" RootCa "Requests the certificate of the cluster's CA."
        from [MetaManager] to META, [Query] of Exact("k8s/ca.crt");
        has [Null], replies ["root-ca"], Fails(60), Since("1.17");
    "membership-query" MembershipDetail "Requests all devices of the node. CloudCore never answers; `twin-confirmation` stops the repetition."
        from [Twin] to RESOURCE, [Get] of Exact("membership/detail");
        has [JsonText(MembershipQuestion)], replies ["twin-confirmation"], SameId(60), Since("0.3");
    "twin-report" Device "Reported values of a device."
        from [Twin] to RESOURCE, [Update] of Device("/twin/edge_updated");
        has [Json(TwinUpdate)], replies ["twin-confirmation"], SameId(60), Since("0.3");
    "device-state" Device "The state of a device."
        from [Twin] to RESOURCE, [Update] of Device("/state/update");
        has [JsonText(StateResult)], replies ["twin-confirmation"], SameId(60), Since("0.3");
    "other-device-report" Device "Another report about a device."
        from [Twin] to RESOURCE, [Update] of Any("{resource}");
        has [AnyObject], replies [], Never, Nobody;
    "mqtt-upload" BusUpload "An MQTT message on a topic that the cloud subscribed to, or on one that is always uploaded."
        from [Bus] to USER, [Upload] of Any("{topic}");
        has [AnyText("the payload"), Json(Base64Payload)], replies ["upload-response"], UntilAnswered, Since("1.6");
    "service-response" ServiceUpload "The response of a service on the node to the call that `parent_msg_id` names."
        from [ServiceBus] to USER, [Upload] of Absent;
        has [Json(ServiceResponse)], replies [], Never, Since("1.7");
    "application-call" ServiceUpload "A program on the node calls a URL of the cloud through ServiceBus."
        from [ServiceBus] to USER, [Upload] of Any("{url}");
        has [Base64(LocalCall)], replies ["application-response"], Fails(60), Since("1.16");
    "api-call" Application "A call of the Kubernetes API through MetaServer."
        from [MetaServer] to DYNAMIC, [Operation::Null] of Exact("null");
        has [Json(Application)], replies ["api-response"], Fails(10), Since("1.6");
    "watches" WatchSync "The open watches of MetaServer, after one has ended."
        from [MetaServer] to DYNAMIC, [Operation::Null] of Exact("watchapp/sync");
        has [Json(Watches)], replies ["watches-response"], Fails(10), Since("1.13");
    "job-status" ActionStatus "The outcome of an action of a node job."
        from [WebSocket] to HUB, [UpdateNodeActionStatus] of Any("operations.kubeedge.io/v1alpha2/{type}/{job}/node/{node}");
        has [Json(ActionStatus)], replies [], Never, Since("1.21");
    "task-status" TaskStatus "The outcome of a task's step."
        from [WebSocket] to HUB, [Upgrade, Prepull] of Any("task/{task}/node/{node}");
        has [Json(TaskStatus)], replies [], Never, Until("1.12", "1.20");
    "volume-response" Unknown "The response of a CSI driver, in base64. This project's agent calls no CSI driver."
        from [MetaManager, Edged] to None, [Response] of Namespaced(Type::Volume);
        has [Base64(CsiResponse), AnyObject], replies [], Never, Since("1.1");
    "request-error" Unknown "The node could not process the message that `parent_msg_id` names. It does not acknowledge the message."
        from [MetaManager] to None, [Error] of Any("{resource}");
        has [AnyText("the reason")], replies [], Never, Since("0.3");
}
}
