//! The table of cases for edges, in the order in which they run.

use super::{
    devices, jobs, joining, mqtt, node, pods, reconnection, robustness, state::Cloud, tunnel,
};
use crate::{Case, case::cases};

/// All cases, for one edge, one after the other.
pub(super) const CASES: &[Case<Cloud>] = cases! { Cloud:
    joining::ca, "enrolment.ca", Core, "The edge fetches /ca.crt before it asks for a certificate.", "edge/pkg/edgehub/certificate/certmanager.go";
    joining::request, "enrolment.request", Core, "The request is for system:node:NAME, with the token without the CA's hash.", "edge/pkg/edgehub/certificate/http/http.go";
    joining::headers, "session.headers", Core, "The session's path and headers name project, node and use.", "edge/pkg/edgehub/clients/wsclient/websocket.go";
    joining::certificate, "session.certificate", Core, "The session shows the certificate that was issued.", "edge/pkg/edgehub/clients/wsclient/websocket.go";
    joining::first_keepalive, "session.first-keepalive", Core, "A keepalive is sent within 5 s of connecting.", "edge/pkg/edgehub/process.go";
    joining::keepalive_period, "session.keepalive-period", Core, "Keepalives are less than 30 s apart.", "edge/pkg/edgehub/process.go";
    node::registration, "node.registered", Core, "The Node is registered with the labels of an edge node.", "edge/pkg/edged/edged.go";
    node::ready, "node.ready", Core, "The node reports that it is Ready.", "edge/pkg/edged/edged.go";
    node::lease, "node.lease", Core, "The node's lease is renewed within 40 s.", "edge/pkg/edged/edged.go";
    node::update, "node.update", Core, "A changed Node is acknowledged.", "edge/pkg/metamanager/process.go";
    pods::runs, "pod.runs", Core, "A pod is acknowledged, started, and reported as Running with its UID.", "edge/pkg/metamanager/process.go";
    pods::sent_again, "pod.sent-again", Core, "The same message again is acknowledged, and restarts nothing.", "edge/pkg/metamanager/process.go";
    pods::configuration, "pod.configuration", Core, "A pod's ConfigMap, Secret and token are asked for, and the pod runs with them.", "edge/pkg/edged/kubeclientbridge";
    pods::changed_configuration, "pod.changed-configuration", Core, "A changed ConfigMap is acknowledged.", "edge/pkg/metamanager/process.go";
    pods::failed_query, "pod.failed-query", Core, "A pod whose ConfigMap does not exist starts as soon as it does.", "edge/pkg/edged/kubeclientbridge";
    pods::graceful_deletion, "pod.graceful-deletion", Core, "A pod with deletionTimestamp is stopped, and deleted with its UID as a precondition.", "edge/pkg/edged/edged.go";
    pods::deletion_by_stub, "pod.deletion-by-stub", Core, "A deletion with name and UID only is acknowledged.", "cloud/pkg/synccontroller";
    pods::other_uid, "pod.other-uid", Extended, "A deletion of another UID does not stop the pod.", "cloud/pkg/synccontroller";
    devices::delivery, "device.delivery", Core, "Membership, model and device are accepted and acknowledged.", "edge/pkg/devicetwin";
    mqtt::twin_get, "device.twin-get", Extended, "twin/get over MQTT is answered with the reported values.", "edge/pkg/devicetwin/dtmanager/twin.go";
    mqtt::twin_update, "device.twin-update", Extended, "twin/update over MQTT is answered, and reported to the cloud.", "edge/pkg/devicetwin/dtmanager/twin.go";
    mqtt::twin_document, "device.twin-document", Extended, "A changed value is published with its predecessor.", "edge/pkg/devicetwin/dtmanager/twin.go";
    mqtt::rule_to_bus, "rule.publish", Extended, "A publication of the cloud arrives at MQTT clients.", "edge/pkg/eventbus/eventbus.go";
    mqtt::rule_from_bus, "rule.subscribe", Extended, "MQTT messages on a topic of a rule are uploaded.", "edge/pkg/eventbus/eventbus.go";
    mqtt::rule_to_service, "rule.service-call", Extended, "A call of a service that does not listen is answered.", "edge/pkg/servicebus/servicebus.go (disabled by default)";
    jobs::pull, "job.pull", Extended, "A job that pulls images is carried out, and each action is reported.", "edge/pkg/taskmanager (disabled by default)";
    robustness::unknown_kind, "delivery.unknown-kind", Core, "An object of an unknown kind is acknowledged.", "edge/pkg/metamanager/process.go";
    robustness::unknown_messages, "delivery.unknown-messages", Core, "Messages of unknown groups and operations do not end the session.", "edge/pkg/edgehub/messagehandler";
    robustness::late_answer, "delivery.late-answer", Core, "An answer that nobody waits for is dropped.", "edge/pkg/edgehub/messagehandler";
    robustness::binary, "delivery.binary-frame", Core, "A message in a binary frame is read.", "pkg/viaduct/pkg/conn";
    robustness::large, "delivery.large", Core, "A ConfigMap of 900 KiB is acknowledged.", "pkg/viaduct/pkg/conn";
    robustness::burst, "delivery.burst", Core, "Eighty objects at once are all acknowledged.", "edge/pkg/edgehub/process.go";
    robustness::largest, "limits.largest-object", Core, "A Secret of 1 MiB, the largest that Kubernetes accepts, is acknowledged.", "pkg/viaduct/pkg/conn/ws.go";
    robustness::many, "limits.many-objects", Core, "Three hundred objects, one after the other, are all acknowledged.", "edge/pkg/edgehub/process.go";
    robustness::malformed_json, "malformed.json", Core, "After damaged messages the edge accepts the next ones, at the latest in a new session.", "pkg/viaduct/pkg/packer";
    robustness::bad_objects, "malformed.objects", Core, "Damaged objects do not stop the edge.", "edge/pkg/metamanager/process.go";
    reconnection::reconnection, "session.reconnection", Core, "The edge connects again, and restarts no pod.", "edge/pkg/edgehub/edgehub.go";
    reconnection::changed_while_away, "session.changed-while-away", Core, "Statuses that change without the cloud are reported afterwards.", "edge/pkg/edged/kubeclientbridge";
    reconnection::lost_acknowledgement, "session.lost-acknowledgement", Core, "A message that is sent again in the next session is acknowledged, and restarts nothing.", "edge/pkg/metamanager/process.go";
    reconnection::changes_across_sessions, "session.changes-across-sessions", Core, "Changes before and after a broken session are acknowledged.", "edge/pkg/metamanager/process.go";
    reconnection::successor, "session.deleted-while-away", Core, "A pod that was deleted without the edge is replaced by the next one of its name.", "edge/pkg/edged/edged.go";
    tunnel::open, "tunnel.open", Extended, "The edge opens its stream tunnel with its name.", "edge/pkg/edgestream (disabled by default)";
    tunnel::logs, "tunnel.logs", Extended, "A container's log is read through the tunnel.", "edge/pkg/edgestream (disabled by default)";
};
