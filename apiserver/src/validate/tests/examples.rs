//! A valid object of each kind, from which the rows of the tables of tests differ.

use serde_json::{Value, json};

/// Returns a valid object of the kind with this plural.
pub(super) fn example(plural: &str) -> Value {
    let mut object = core(plural)
        .or_else(|| workload(plural))
        .or_else(|| network(plural))
        .or_else(|| policy(plural))
        .or_else(|| storage(plural))
        .or_else(|| admission(plural))
        .unwrap_or_else(|| json!({}));
    let metadata = object
        .as_object_mut()
        .unwrap()
        .entry("metadata")
        .or_insert_with(|| json!({}));
    let metadata = metadata.as_object_mut().unwrap();
    metadata.entry("name").or_insert_with(|| json!("a"));
    metadata.entry("namespace").or_insert_with(|| json!("n"));
    object
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn core(plural: &str) -> Option<Value> {
    Some(match plural {
        "pods" => json!({"spec": {
            "containers": [{"name": "c", "image": "i"}],
            "initContainers": [{"name": "first", "image": "i"}],
            "volumes": [{"name": "v", "emptyDir": {}}]}}),
        "services" => {
            json!({"spec": {"ports": [{"name": "web", "port": 80}], "selector": {"app": "a"}}})
        }
        "endpoints" => {
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]})
        }
        "endpointslices" => {
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]})
        }
        "podtemplates" => json!({"template": template()}),
        "events" => json!({"involvedObject": {"kind": "Pod", "namespace": "n"}}),
        "resourcequotas" => json!({"spec": {"hard": {"pods": "10", "requests.cpu": "1"}}}),
        "limitranges" => {
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}})
        }
        "leases" => json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 10}}),
        "priorityclasses" => json!({"value": 10}),
        "runtimeclasses" => json!({"handler": "runc"}),
        _ => return None,
    })
}

fn workload(plural: &str) -> Option<Value> {
    let mut jobs = template();
    jobs["spec"]["restartPolicy"] = json!("Never");
    let selector = json!({"matchLabels": {"app": "a"}});
    Some(match plural {
        "deployments" | "replicasets" | "daemonsets" => {
            json!({"spec": {"selector": selector, "template": template()}})
        }
        "statefulsets" => {
            json!({"spec": {"selector": selector, "serviceName": "a", "template": template(),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}})
        }
        "replicationcontrollers" => {
            json!({"spec": {"selector": {"app": "a"}, "template": template()}})
        }
        "jobs" => json!({"spec": {"template": jobs}}),
        "cronjobs" => {
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": jobs}}}})
        }
        "horizontalpodautoscalers" => json!({"spec": {
            "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}),
        "controllerrevisions" => json!({"revision": 1, "data": {"a": "b"}}),
        _ => return None,
    })
}

fn network(plural: &str) -> Option<Value> {
    Some(match plural {
        "networkpolicies" => {
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}})
        }
        "ingresses" => {
            json!({"spec": {"rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]}})
        }
        "ingressclasses" => json!({"spec": {"controller": "example.com/ingress"}}),
        "ipaddresses" => json!({"metadata": {"name": "10.0.0.1"}, "spec": {
            "parentRef": {"resource": "services", "namespace": "n", "name": "a"}}}),
        "servicecidrs" => json!({"spec": {"cidrs": ["10.0.0.0/24"]}}),
        _ => return None,
    })
}

fn policy(plural: &str) -> Option<Value> {
    let group = "rbac.authorization.k8s.io";
    Some(match plural {
        "poddisruptionbudgets" => {
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}})
        }
        "roles" | "clusterroles" => {
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
        }
        "rolebindings" | "clusterrolebindings" => json!({
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "apiGroup": group, "name": "u"}]}),
        "certificatesigningrequests" => json!({"spec": {
            "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K", "signerName": "example.com/signer",
            "usages": ["client auth"]}}),
        _ => return None,
    })
}

fn storage(plural: &str) -> Option<Value> {
    Some(match plural {
        "persistentvolumes" => json!({"spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}}),
        "persistentvolumeclaims" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        "storageclasses" => json!({"provisioner": "example.com/disk"}),
        "volumeattributesclasses" => json!({"driverName": "example.com", "parameters": {"a": "b"}}),
        "volumeattachments" => {
            json!({"spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}})
        }
        "csinodes" => json!({"spec": {"drivers": [{"name": "example.com", "nodeID": "n"}]}}),
        "csistoragecapacities" => json!({"storageClassName": "a"}),
        _ => return None,
    })
}

fn admission(plural: &str) -> Option<Value> {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    Some(match plural {
        "validatingadmissionpolicies" => json!({"spec": {
            "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}}),
        "validatingadmissionpolicybindings" => {
            json!({"spec": {"policyName": "a", "validationActions": ["Deny"]}})
        }
        "mutatingadmissionpolicies" => json!({"spec": {
            "matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]}}),
        "mutatingadmissionpolicybindings" => json!({"spec": {"policyName": "a"}}),
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            json!({"webhooks": [{
            "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule],
            "clientConfig": {"url": "https://example.com/check"}}]})
        }
        "apiservices" => json!({"metadata": {"name": "v1.example.com"}, "spec": {
            "group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}}),
        "flowschemas" => json!({"spec": {"priorityLevelConfiguration": {"name": "a"}}}),
        "prioritylevelconfigurations" => json!({"spec": {"type": "Exempt"}}),
        "resourceslices" => json!({"spec": {
            "driver": "example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
        _ => return None,
    })
}
