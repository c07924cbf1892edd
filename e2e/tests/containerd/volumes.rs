//! Volumes of all kinds, seen from inside.

use std::{fs, os::unix::net::UnixListener};

use e2e::{containerd::RealRig, until};
use serde_json::{Value, json};

use crate::{
    case::{Case, apply, check, leaves_nothing},
    confinement::waits_with,
    probes::wait_event,
    subject::{Subject, for_both},
};

#[test]
fn volumes_from_objects() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let settings = |colour: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {"colour": colour, "shape": "round"}})
    };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"password": "open sesame"}});
    apply(&rig, &[settings("blue"), secret])?;
    let downward = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "deep/cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}}]);
    check(
        &rig,
        &[Case {
            name: "objects",
            spec: json!({
                "volumes": [
                    {"name": "whole", "configMap": {"name": "settings"}},
                    {"name": "chosen", "configMap": {"name": "settings", "defaultMode": 256,
                        "items": [{"key": "shape", "path": "a/b", "mode": 292}, {"key": "colour", "path": "c"}]}},
                    {"name": "absent", "configMap": {"name": "none", "optional": true}},
                    {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 384}},
                    {"name": "self", "downwardAPI": {"items": downward}},
                    {"name": "mixed", "projected": {"sources": [
                        {"configMap": {"name": "settings", "items": [{"key": "colour", "path": "colour"}]}},
                        {"secret": {"name": "keys", "items": [{"key": "password", "path": "password"}]}},
                        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                    ]}},
                ],
                "containers": [{
                    "resources": {"limits": {"cpu": "250m"}},
                    "volumeMounts": [
                        {"name": "whole", "mountPath": "/whole"},
                        {"name": "chosen", "mountPath": "/chosen"},
                        {"name": "absent", "mountPath": "/absent"},
                        {"name": "keys", "mountPath": "/keys"},
                        {"name": "self", "mountPath": "/self"},
                        {"name": "mixed", "mountPath": "/mixed"},
                        {"name": "whole", "mountPath": "/etc/one-file", "subPath": "colour"},
                    ],
                }],
            }),
            inside: vec![
                ("cat /whole/colour /whole/shape", "blueround"),
                (
                    "stat -L -c %a /whole/colour /chosen/a/b /chosen/c /keys/password",
                    "644\n444\n400\n600",
                ),
                ("cat /chosen/a/b /chosen/c; ls /absent", "roundblue"),
                ("cat /keys/password", "open sesame"),
                (
                    "cat /self/labels; echo; cat /self/deep/cpu",
                    "app=\"objects\"\n250",
                ),
                (
                    "cat /mixed/colour /mixed/password /mixed/name",
                    "blueopen sesameobjects",
                ),
                ("tr -cd . < /mixed/token | wc -c", "2"),
                ("cat /etc/one-file", "blue"),
                (
                    "echo x 2>/dev/null > /whole/colour || echo refused",
                    "refused",
                ),
            ],
        }],
    )?;
    apply(&rig, &[settings("green")])?;
    until("the new colour in the pod", || {
        match rig.inside(
            "objects",
            "cat /whole/colour /chosen/c /mixed/colour /etc/one-file",
        ) {
            // a subPath is bound once, when the container starts
            Ok(found) if found == "greengreengreenblue" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    leaves_nothing(&rig)
}

#[test]
fn volumes_of_the_node() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let host = rig.directory.path().join("host");
    fs::create_dir(&host)?;
    fs::write(host.join("file"), "of the node")?;
    let _socket = UnixListener::bind(host.join("socket"))?;
    let at = |name: &str| host.join(name).display().to_string();
    let path = |name: &str, kind: &str| json!({"name": name, "hostPath": {"path": at(name), "type": kind}});
    let mounts: Vec<Value> = ["file", "socket", "made", "new"]
        .iter()
        .map(|name| json!({"name": name, "mountPath": format!("/h/{name}")}))
        .collect();
    check(
        &rig,
        &[
            Case {
                name: "host",
                spec: json!({
                    "volumes": [path("file", "File"), path("socket", "Socket"), path("made", "DirectoryOrCreate"), path("new", "FileOrCreate")],
                    "containers": [{"volumeMounts": mounts}],
                }),
                inside: vec![
                    ("cat /h/file", "of the node"),
                    (
                        "stat -c %F /h/socket /h/made /h/new",
                        "socket\ndirectory\nregular empty file",
                    ),
                    ("echo more > /h/made/more; cat /h/made/more", "more"),
                ],
            },
            Case {
                name: "empty",
                spec: json!({
                    "volumes": [
                        {"name": "disk", "emptyDir": {}},
                        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                    ],
                    "initContainers": [{
                        "name": "fill", "image": e2e::containerd::IMAGE,
                        "command": ["sh", "-c", "echo of-init > /disk/a && mkdir /disk/sub && echo deep > /disk/sub/b && ln -s /etc /disk/link"],
                        "volumeMounts": [{"name": "disk", "mountPath": "/disk"}],
                    }],
                    "containers": [{"volumeMounts": [
                        {"name": "disk", "mountPath": "/disk"},
                        {"name": "disk", "mountPath": "/only", "readOnly": true, "subPath": "sub"},
                        {"name": "disk", "mountPath": "/mine", "subPathExpr": "$(WHO)/x"},
                        {"name": "memory", "mountPath": "/memory"},
                    ], "env": [{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
                }),
                inside: vec![
                    ("cat /disk/a /only/b", "of-init\ndeep"),
                    ("echo x 2>/dev/null > /only/b || echo refused", "refused"),
                    ("echo y > /mine/z; cat /disk/empty/x/z", "y"),
                    ("grep ' /memory ' /proc/mounts | cut -d' ' -f3", "tmpfs"),
                    (
                        "dd if=/dev/zero of=/memory/big bs=1M count=2 2>/dev/null; stat -c %s /memory/big",
                        "1048576",
                    ),
                ],
            },
        ],
    )?;
    anyhow::ensure!(
        fs::read_to_string(host.join("made/more"))? == "more\n",
        "what the pod wrote is not on the node"
    );
    leaves_nothing(&rig)?;
    anyhow::ensure!(
        host.join("made/more").exists(),
        "a hostPath went with its pod"
    );
    Ok(())
}

/// Reads both files of one state of the volume again and again, and notes each pair that does not belong together, and whom it saw.
const READS: &str = "trap 'exit 0' TERM; while :; do usleep 1000; cd -P /whole/..data || continue; \
                     a=$(cat colour 2>/dev/null) && b=$(cat shape 2>/dev/null) || continue; \
                     [ \"$a\" = \"$b\" ] || echo \"$a $b\" >> /tmp/mixed; \
                     [ \"$a\" = \"$c\" ] || { c=$a; echo $a >> /tmp/seen; }; done";

#[test]
fn files_follow_what_they_are_made_of() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let settings = |version: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {"colour": version, "shape": version}})
    };
    let later = json!({"secret": {"name": "later", "optional": true, "items": [{"key": "password", "path": "deep/p", "mode": 256}]}});
    let own = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}}]);
    let mounts = ["whole", "maybe", "mixed", "self"]
        .map(|name| json!({"name": name, "mountPath": format!("/{name}")}));
    let follows = json!({
        "volumes": [
            {"name": "whole", "configMap": {"name": "settings"}},
            {"name": "maybe", "secret": {"secretName": "later", "optional": true}},
            {"name": "mixed", "projected": {"sources": [later, {"configMap": {"name": "none", "optional": true}},
                {"downwardAPI": {"items": own}}]}},
            {"name": "self", "downwardAPI": {"items": own}},
        ],
        "containers": [{"command": ["sh", "-c", READS], "volumeMounts": mounts}],
    });
    apply(
        &rig,
        &[settings("0"), crate::case::pod("follows", &follows)],
    )?;
    rig.wait_ready("follows")?;
    let inside = |words: &str, expected: &str| {
        until(&format!("{words}: {expected:?}"), || {
            match rig.inside("follows", words) {
                Ok(found) if found == expected => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
    };
    // of what is optional and not there, there is nothing
    inside("ls /maybe; ls /mixed", "labels\nnote\n")?;
    let mut last = rig.inside("follows", "readlink /whole/..data")?;
    for version in ["1", "2", "3", "4"] {
        apply(&rig, &[settings(version)])?;
        inside(
            "cat /whole/colour /whole/shape",
            &format!("{version}{version}"),
        )?;
        inside("tail -n 1 /tmp/seen", &format!("{version}\n"))?;
        let now = rig.inside("follows", "readlink /whole/..data")?;
        anyhow::ensure!(now != last, "the files were changed where they were: {now}");
        // what the link led to before is gone
        inside("ls -A /whole | wc -l", "4\n")?;
        last = now;
    }
    inside(
        "cat /tmp/mixed 2>/dev/null; cat /tmp/seen",
        "0\n1\n2\n3\n4\n",
    )?;
    rig.cloud.kubectl.run(&[
        "label",
        "pod",
        "follows",
        "app=changed",
        "more=yes",
        "--overwrite",
    ])?;
    rig.cloud
        .kubectl
        .run(&["annotate", "pod", "follows", "note=another", "--overwrite"])?;
    for place in ["/self", "/mixed"] {
        let words = format!("cat {place}/labels; echo; cat {place}/note");
        inside(&words, "app=\"changed\"\nmore=\"yes\"\nanother")?;
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "later"}, "stringData": {"password": "open sesame"}});
    apply(&rig, &[secret])?;
    inside(
        "cat /maybe/password; echo; cat /mixed/deep/p; stat -L -c %a /mixed/deep/p",
        "open sesame\nopen sesame400\n",
    )?;
    let seen = rig.wait_ready("follows")?;
    anyhow::ensure!(
        seen["status"]["containerStatuses"][0]["restartCount"] == 0,
        "{}",
        seen["status"]
    );
    leaves_nothing(&rig)
}

for_both!(volumes_that_cannot_be);

fn volumes_that_cannot_be(rig: Subject) -> anyhow::Result<()> {
    let pod = |name: &str, volume: Value, mount: Value| {
        let mut mount = mount;
        mount["name"] = "v".into();
        mount["mountPath"] = "/v".into();
        let mut volume = volume;
        volume["name"] = "v".into();
        crate::case::pod(
            name,
            &json!({"volumes": [volume], "containers": [{"volumeMounts": [mount]}]}),
        )
    };
    let etc = json!({"hostPath": {"path": rig.directory().join("links"), "type": ""}});
    let links = rig.directory().join("links");
    fs::create_dir(&links)?;
    std::os::unix::fs::symlink("/etc", links.join("out"))?;
    apply(
        &rig,
        &[
            pod(
                "wrong-type",
                json!({"hostPath": {"path": "/etc/passwd", "type": "Directory"}}),
                json!({}),
            ),
            pod("no-map", json!({"configMap": {"name": "none"}}), json!({})),
            pod(
                "no-key",
                json!({"secret": {"secretName": "half", "items": [{"key": "other", "path": "p"}]}}),
                json!({}),
            ),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "half"}, "stringData": {"one": "1"}}),
            pod("escape", etc, json!({"subPath": "out/ssl"})),
            pod("fine", json!({"emptyDir": {}}), json!({})),
        ],
    )?;
    rig.as_ref().wait_ready("fine")?;
    let (mount, container) = (
        ("ContainerCreating", "FailedMount"),
        ("CreateContainerConfigError", "Failed"),
    );
    let set_up = "MountVolume.SetUp failed for volume \"v\" : ";
    for (name, (reason, event), begin, text) in [
        (
            "wrong-type",
            mount,
            set_up,
            "hostPath type check failed: /etc/passwd is not a directory",
        ),
        ("no-map", mount, set_up, "configmap \"none\" not found"),
        ("no-key", mount, set_up, "other"),
        ("escape", container, "Error: ", "is outside of the volume"),
    ] {
        waits_with(&rig, name, reason, text)?;
        wait_event(&rig, name, event, begin)?;
        wait_event(&rig, name, event, text)?;
    }
    // what is missing comes, and the pods need not be made anew
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none"}, "data": {"a": "b"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "half"}, "stringData": {"other": "2"}});
    apply(&rig, &[map, secret])?;
    for name in ["no-map", "no-key"] {
        rig.as_ref().wait_ready(name)?;
    }
    rig.leaves_nothing()
}
