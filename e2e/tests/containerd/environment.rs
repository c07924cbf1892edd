//! Variables, words, names: what a container is told of itself and the world.

use anyhow::ensure;
use e2e::{NODE, containerd::RealRig};
use serde_json::{Value, json};

use crate::{
    case::{Case, apply, check, leaves_nothing, pod},
    confinement::waits_with,
    probes::wait_event,
};

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
                    (
                        "echo $COLOUR $PASSWORD ${MISSING-unset}",
                        "blue open sesame unset",
                    ),
                    (
                        "echo $POD $NODE $LABEL $MEMORY",
                        "default edge-1 variables 64",
                    ),
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
                inside: vec![
                    ("cat /tmp/said", "me $(WHO)"),
                    ("readlink /proc/1/cwd", "/var"),
                ],
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
                    (
                        "cat /etc/resolv.conf",
                        "search example.org\nnameserver 192.0.2.53\noptions ndots:2",
                    ),
                ],
            },
            Case {
                name: "named-by-itself",
                spec: json!({}),
                inside: vec![("hostname", "named-by-itself")],
            },
        ],
    )?;
    what_only_the_node_knows(&rig)?;
    what_comes_later(&rig)?;
    leaves_nothing(&rig)
}

fn what_only_the_node_knows(rig: &RealRig) -> anyhow::Result<()> {
    let field = |(name, path): (&str, &str)| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let fields = [
        ("POD_UID", "metadata.uid"),
        ("POD_NAME", "metadata.name"),
        ("NOTE", "metadata.annotations['note']"),
        ("HOST", "status.hostIP"),
        ("HOSTS", "status.hostIPs"),
        ("IPS", "status.podIPs"),
        ("ACCOUNT", "spec.serviceAccountName"),
    ];
    let resource = |(name, resource, divisor): (&str, &str, &str)| json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}});
    let resources = [
        ("CPU", "requests.cpu", "1m"),
        ("CORES", "requests.cpu", "1"),
        ("MEMORY", "requests.memory", "1Ki"),
        ("STORAGE", "requests.ephemeral-storage", "1Mi"),
        ("MOST_STORAGE", "limits.ephemeral-storage", "0"),
        ("ALL_CORES", "limits.cpu", "1"),
        ("ALL_MEMORY", "limits.memory", "1Ki"),
    ];
    let env: Vec<_> = fields
        .map(field)
        .into_iter()
        .chain(resources.map(resource))
        .collect();
    let amounts = json!({"requests": {"cpu": "150m", "memory": "48Mi", "ephemeral-storage": "3Mi"},
        "limits": {"ephemeral-storage": "4Mi"}});
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let told = json!({"serviceAccountName": "robot", "containers": [{"env": env, "resources": amounts,
        "envFrom": [{"secretRef": {"name": "keys"}}, {"prefix": "S_", "secretRef": {"name": "keys"}},
            {"secretRef": {"name": "none", "optional": true}}]}]});
    apply(rig, &[account, pod("told", &told)])?;
    let seen = rig.wait_ready("told")?;
    let (meta, status) = (&seen["metadata"], &seen["status"]);
    let node = rig.cloud.kubectl.json(&["get", "node", NODE])?["status"]["allocatable"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let memory = text(&node["memory"]);
    let of_suffix =
        |(suffix, kib): &(&str, u64)| Some(memory.strip_suffix(suffix)?.parse::<u64>().ok()? * kib);
    let memory = [("Ki", 1), ("Mi", 1 << 10), ("Gi", 1 << 20)]
        .iter()
        .find_map(of_suffix)
        .unwrap_or_default();
    for (words, expected) in [
        ("$POD_UID $POD_NAME", format!("{} told", text(&meta["uid"]))),
        ("$NOTE $ACCOUNT", "of e2e robot".to_owned()),
        ("$HOST $HOSTS", format!("{0} {0}", text(&status["hostIP"]))),
        ("$IPS", text(&status["podIPs"][0]["ip"])),
        (
            "$CPU $CORES $MEMORY $STORAGE $MOST_STORAGE",
            "150 1 49152 3 4194304".to_owned(),
        ),
        // without a limit, all that pods may have
        (
            "$ALL_CORES $ALL_MEMORY",
            format!("{} {memory}", text(&node["cpu"])),
        ),
        (
            "$password, $S_password",
            "open sesame, open sesame".to_owned(),
        ),
    ] {
        let found = rig.inside("told", &format!("echo {words}"))?;
        ensure!(
            found.trim_end() == expected,
            "{words}: {found:?}, not {expected:?}"
        );
    }
    Ok(())
}

/// What a container refers to and is not there holds it up, and nothing else has to be done than to make it.
fn what_comes_later(rig: &RealRig) -> anyhow::Result<()> {
    let late = json!({"configMapKeyRef": {"name": "settings", "key": "late"}});
    let with = |more: Value| json!({"containers": [more]});
    apply(
        rig,
        &[
            pod(
                "no-key",
                &with(json!({"env": [{"name": "LATE", "valueFrom": late}]})),
            ),
            pod(
                "no-secret",
                &with(json!({"envFrom": [{"secretRef": {"name": "later"}}]})),
            ),
        ],
    )?;
    for (name, text) in [
        ("no-key", "couldn't find key late in "),
        ("no-secret", "secret \"later\" not found"),
    ] {
        waits_with(rig, name, "CreateContainerConfigError", text)?;
        wait_event(rig, name, "Failed", &format!("Error: {text}"))?;
    }
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        "data": {"late": "at last"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "later"},
        "stringData": {"LATE": "at last"}});
    apply(rig, &[config, secret])?;
    for name in ["no-key", "no-secret"] {
        let seen = rig.wait_ready(name)?;
        ensure!(
            seen["status"]["containerStatuses"][0]["restartCount"] == 0,
            "{}",
            seen["status"]
        );
        ensure!(
            rig.inside(name, "echo $LATE")? == "at last\n",
            "{name}: another value"
        );
    }
    Ok(())
}
