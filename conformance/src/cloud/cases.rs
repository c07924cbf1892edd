//! The table of cases for clouds.

use super::{
    Target, delivery, devices, enrolment, jobs, limits, malformed, nodes, objects, queries, rules,
    sessions, sync, tunnel,
};
use crate::{Case, case::cases};

/// All cases. They run beside each other: each has a node of its own.
pub(super) const CASES: &[Case<Target>] = cases! { Target:
    enrolment::ca, "enrolment.ca", Core, "GET /ca.crt returns the CA that the token pins, DER.", "cloud/pkg/cloudhub/servers/httpserver/server.go";
    enrolment::token, "enrolment.token", Core, "A join token gives a client certificate for the name and key of the request.", "cloud/pkg/cloudhub/servers/httpserver/certificate";
    enrolment::bad_token, "enrolment.bad-token", Core, "A damaged token gets 401.", "pkg/security/token/token.go";
    enrolment::no_token, "enrolment.no-token", Core, "A request without token and certificate gets 401.", "cloud/pkg/cloudhub/servers/httpserver/certificate";
    enrolment::renewal, "enrolment.renewal", Core, "A node's certificate gives its next one, without a token.", "edge/pkg/edgehub/certificate/certmanager.go";
    enrolment::other_name, "enrolment.other-name", Core, "A node's certificate gives none for another name.", "cloud/pkg/cloudhub/servers/httpserver/certificate";
    enrolment::bad_request, "enrolment.bad-request", Core, "Damaged requests are refused, and the server goes on.", "cloud/pkg/cloudhub/servers/httpserver/certificate";
    sessions::certificate_required, "session.certificate-required", Core, "CloudHub refuses a client without a certificate.", "cloud/pkg/cloudhub/servers/server.go";
    sessions::foreign_certificate, "session.foreign-certificate", Core, "CloudHub refuses a certificate of another CA.", "cloud/pkg/cloudhub/servers/server.go";
    sessions::other_name, "session.other-name", Extended, "CloudHub refuses a node that claims the name of another one.", "cloud/pkg/cloudhub/authorization (disabled by default); CVE-2022-31079";
    sessions::keepalive, "session.keepalive", Core, "A session with keepalives outlives the keepalive interval.", "cloud/pkg/cloudhub/session/node_session.go";
    sessions::silence, "session.silence", Core, "A session without keepalives is closed.", "cloud/pkg/cloudhub/session/node_session.go";
    sessions::replacement, "session.replaced", Core, "A second session of a node takes over.", "cloud/pkg/cloudhub/session/session_manager.go";
    sessions::fragments, "session.fragments", Core, "A message in several frames, and one in a binary frame, are read.", "RFC 6455, pkg/viaduct/pkg/conn";
    sessions::shutdown_message, "session.empty-message", Core, "The empty message of an edge that shuts down is ignored.", "edge/pkg/edgehub/process.go";
    nodes::register, "node.register", Core, "Registering a node creates a Node with its labels and answers with it.", "cloud/pkg/edgecontroller/controller/upstream.go";
    nodes::register_again, "node.register-again", Core, "Registering a node that exists is answered with AlreadyExists.", "cloud/pkg/edgecontroller/controller/upstream.go";
    nodes::status, "node.status", Core, "A status patch is applied and answered with the object.", "cloud/pkg/edgecontroller/controller/upstream.go";
    nodes::lease, "node.lease", Core, "A lease is created, queried and renewed.", "cloud/pkg/edgecontroller/controller/upstream.go";
    nodes::update, "node.update", Core, "A change of the Node is sent to the node.", "cloud/pkg/edgecontroller/controller/downstream.go";
    delivery::pod, "delivery.pod", Core, "A pod that is bound to the node is sent, with kind, UID and decimal revision.", "cloud/pkg/edgecontroller/controller/downstream.go";
    delivery::foreign_pod, "delivery.foreign-pod", Core, "Pods of other nodes are not sent.", "cloud/pkg/edgecontroller/controller/downstream.go";
    delivery::retransmission, "delivery.retransmission", Core, "An unacknowledged message is sent again with the same id.", "cloud/pkg/cloudhub/session/node_session.go";
    delivery::acknowledgement, "delivery.acknowledged", Core, "An acknowledged message is not sent again.", "cloud/pkg/cloudhub/session/node_session.go";
    delivery::error_is_no_ack, "delivery.error-is-no-ack", Core, "An error for a message does not acknowledge it.", "cloud/pkg/cloudhub/dispatcher/message_dispatcher.go";
    delivery::order, "delivery.order", Core, "The states of an object arrive in order, and the last one arrives.", "cloud/pkg/cloudhub/common/message_pool.go";
    sync::changed_while_away, "delivery.changed-while-away", Core, "An object that changed while the node was away is sent when it is back.", "cloud/pkg/synccontroller";
    sync::unchanged_while_away, "delivery.unchanged-while-away", Core, "An acknowledged object that did not change is not sent again after a reconnection.", "cloud/pkg/cloudhub/dispatcher/message_dispatcher.go";
    sync::deleted_while_away, "delivery.deleted-while-away", Core, "A deletion while the node was away is sent when it is back, with the UID.", "cloud/pkg/synccontroller";
    sync::configuration_while_away, "delivery.configuration-while-away", Core, "A ConfigMap that changed while the node was away is sent when it is back.", "cloud/pkg/synccontroller/objectsync.go";
    sync::lost_acknowledgement, "delivery.lost-acknowledgement", Core, "An object whose acknowledgement was lost with the session is sent again in the next one.", "cloud/pkg/cloudhub/session/node_session.go";
    sync::order_across_sessions, "delivery.order-across-sessions", Core, "States of an object stay in order when the session breaks between them.", "cloud/pkg/cloudhub/common/message_pool.go";
    delivery::graceful_deletion, "delivery.graceful-deletion", Core, "A deletion is an update with its time, and the node's answer finishes it.", "cloud/pkg/edgecontroller/controller/upstream.go";
    delivery::configuration, "delivery.configuration", Core, "ConfigMaps and Secrets of the node's pods are sent when they change, others are not.", "cloud/pkg/edgecontroller/manager";
    limits::large, "delivery.large", Core, "A ConfigMap of 900 KiB arrives whole.", "cloud/pkg/edgecontroller/controller/downstream.go";
    limits::burst, "delivery.burst", Core, "Sixty pods at once all arrive.", "cloud/pkg/cloudhub/session/node_session.go";
    limits::largest, "limits.largest-object", Core, "A Secret of 1 MiB, the largest that Kubernetes accepts, arrives whole.", "pkg/viaduct/pkg/conn/ws.go";
    limits::large_report, "limits.large-report", Core, "A node's report of 600 KiB is stored.", "cloud/pkg/edgecontroller/controller/upstream.go";
    limits::many, "limits.many-objects", Core, "120 pods of one node all arrive.", "cloud/pkg/cloudhub/common/message_pool.go";
    queries::configuration, "query.configuration", Core, "A ConfigMap and a Secret are answered with kind and revision.", "cloud/pkg/edgecontroller/controller/upstream.go";
    queries::missing, "query.missing", Core, "A query for an object that does not exist is answered with its Status.", "cloud/pkg/edgecontroller/controller/upstream.go";
    queries::token, "query.token", Core, "A pod's service account token is issued.", "cloud/pkg/edgecontroller/controller/upstream.go";
    queries::root_ca, "query.root-ca", Core, "The cluster's CA is answered as PEM.", "cloud/pkg/cloudhub/dispatcher/message_dispatcher.go";
    queries::foreign_secret, "query.foreign-secret", Extended, "A Secret that no pod of the node uses is refused.", "cloud/pkg/cloudhub/authorization (disabled by default)";
    objects::pod_status, "report.pod-status", Core, "A pod's status patch is applied and answered with the object.", "cloud/pkg/edgecontroller/controller/upstream.go";
    objects::event, "report.event", Core, "An event of the node is created.", "cloud/pkg/edgecontroller/controller/upstream.go";
    objects::foreign_status, "report.foreign-status", Extended, "A node cannot patch the status of another node's pod.", "cloud/pkg/cloudhub/authorization (disabled by default)";
    devices::delivery, "device.delivery", Core, "A device is sent as membership, model and device, and its change as an update.", "cloud/pkg/devicecontroller/controller/downstream.go";
    devices::report, "device.report", Core, "Reported values are confirmed and appear in the API.", "cloud/pkg/devicecontroller/controller/upstream.go";
    devices::removal, "device.removal", Core, "A removed device is sent as membership and deletion.", "cloud/pkg/devicecontroller/controller/downstream.go";
    rules::rest_to_bus, "rule.rest-to-eventbus", Extended, "A request to the router is published at the node.", "cloud/pkg/router/provider/eventbus/eventbus.go (module disabled by default)";
    rules::rest_to_service, "rule.rest-to-servicebus", Extended, "A request to the router is answered by the node's service.", "cloud/pkg/router/provider/servicebus/servicebus.go (module disabled by default)";
    rules::bus_to_rest, "rule.eventbus-to-rest", Extended, "The node is told to subscribe, and its MQTT message is posted to the rule's URL.", "cloud/pkg/router/provider/eventbus/eventbus.go (module disabled by default)";
    rules::service_to_rest, "rule.servicebus-to-rest", Extended, "The call of a program on the node is answered by the rule's URL.", "cloud/pkg/router/provider/servicebus/servicebus.go (module disabled by default)";
    jobs::pull, "job.pull", Extended, "A job that pulls images is sent with its spec, and completed by the node's reports.", "cloud/pkg/taskmanager (disabled by default), cloud/pkg/controllermanager/nodetask";
    jobs::unknown_node, "job.unknown-node", Extended, "A job for a node that does not exist fails, with the node in its status.", "cloud/pkg/controllermanager/nodetask (disabled by default)";
    malformed::json, "malformed.json", Core, "Bytes that are not JSON harm no other session.", "pkg/viaduct/pkg/packer";
    malformed::types, "malformed.types", Core, "A message with fields of other types harms no other session.", "staging/src/github.com/kubeedge/beehive/pkg/core/model/message.go";
    malformed::unknown, "malformed.unknown", Core, "Messages of unknown kinds do not end the session.", "cloud/pkg/cloudhub/dispatcher/message_dispatcher.go";
    malformed::sources, "malformed.cloud-source", Core, "A message that claims to come from a controller of the cloud has no effect.", "cloud/pkg/cloudhub/dispatcher/message_dispatcher.go";
    malformed::deep, "malformed.deep", Core, "JSON nested 100,000 deep harms no other session.", "CVE-2022-31080";
    tunnel::open, "tunnel.open", Extended, "A node opens its tunnel, and pings are answered.", "cloud/pkg/cloudstream/tunnelserver.go (disabled by default)";
    tunnel::certificate_required, "tunnel.certificate-required", Extended, "The tunnel refuses a client without a certificate.", "cloud/pkg/cloudstream/tunnelserver.go";
    tunnel::logs, "tunnel.logs", Extended, "kubectl logs reaches the node through its tunnel.", "cloud/pkg/cloudstream/streamserver.go";
};
