//! Variables, words, names: what a container is told of itself and the world.

use e2e::containerd::RealRig;
use serde_json::json;

use crate::case::{Case, apply, check, leaves_nothing};

#[test]
fn environment() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        "data": {"colour": "blue", "shape": "round"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"password": "open sesame"}});
    apply(&rig, &[config, secret])?;
    check(
        &rig,
        &[
            Case {
                name: "variables",
                spec: json!({"containers": [{
                    "env": [
                        {"name": "FIRST", "value": "1"},
                        {"name": "SECOND", "value": "$(FIRST)-2 $$(FIRST) $(NONE)"},
                        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
                        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}}},
                        {"name": "MISSING", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": true}}},
                        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                    ],
                    "envFrom": [{"prefix": "CM_", "configMapRef": {"name": "settings"}}],
                    "resources": {"limits": {"memory": "64Mi"}},
                }]}),
                inside: vec![
                    ("echo $SECOND", "1-2 $(FIRST) $(NONE)"),
                    ("echo $COLOUR $PASSWORD ${MISSING-unset}", "blue open sesame unset"),
                    ("echo $POD $NODE $LABEL $MEMORY", "default edge-1 variables 64"),
                    ("echo $CM_colour $CM_shape", "blue round"),
                    ("ip -4 -o address show eth0 | grep -c \" $IP/\"", "1"),
                ],
            },
            Case {
                name: "words",
                spec: json!({"containers": [{
                    "command": ["sh", "-c", "echo \"$0 $1\" > /tmp/said; trap 'exit 0' TERM; sleep 1000000 & wait"],
                    "args": ["$(WHO)", "$$(WHO)"],
                    "env": [{"name": "WHO", "value": "me"}],
                    "workingDir": "/var",
                    "readinessProbe": {"exec": {"command": ["test", "-s", "/tmp/said"]}, "periodSeconds": 1},
                }]}),
                inside: vec![("cat /tmp/said", "me $(WHO)"), ("readlink /proc/1/cwd", "/var")],
            },
            Case {
                name: "names",
                spec: json!({
                    "hostname": "sir",
                    "hostAliases": [{"ip": "192.0.2.7", "hostnames": ["far", "away"]}],
                    "dnsPolicy": "None",
                    "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["example.org"], "options": [{"name": "ndots", "value": "2"}]},
                }),
                inside: vec![
                    ("hostname", "sir"),
                    ("grep 192.0.2.7 /etc/hosts", "192.0.2.7\tfar\taway"),
                    ("grep -c \"$(hostname -i)\" /etc/hosts", "1"),
                    ("cat /etc/resolv.conf", "search example.org\nnameserver 192.0.2.53\noptions ndots:2"),
                ],
            },
            Case { name: "named-by-itself", spec: json!({}), inside: vec![("hostname", "named-by-itself")] },
        ],
    )?;
    leaves_nothing(&rig)
}
