//! How volumes are mounted, and what keeps them fresh.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use e2e::{
    containerd::{IMAGE, RealRig},
    until,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::{Value, json};

use crate::{
    case::{Case, apply, check, leaves_nothing, pod},
    confinement::waits_with,
    probes::wait_event,
};

/// A mount of the test's own, which ends with it.
struct Mounted(PathBuf);

impl Mounted {
    /// A directory whose mounts are seen wherever it is mounted.
    fn shared(path: &Path) -> anyhow::Result<Self> {
        let nothing: Option<&str> = None;
        mount(Some(path), path, nothing, MsFlags::MS_BIND, nothing)?;
        let mounted = Self(path.to_owned());
        mount(nothing, path, nothing, MsFlags::MS_SHARED, nothing)?;
        Ok(mounted)
    }

    fn memory(path: &Path) -> anyhow::Result<Self> {
        mount(
            Some("tmpfs"),
            path,
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // fails only where it is gone
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn mounts_spread_as_they_should() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let host = rig.directory.path().join("host");
    fs::create_dir_all(host.join("later"))?;
    fs::create_dir_all(host.join("theirs"))?;
    let _shared = Mounted::shared(&host)?;
    let with = |propagation: Option<&str>, privileged: bool| {
        let mut mount = json!({"name": "v", "mountPath": "/v", "mountPropagation": propagation});
        if propagation.is_none() {
            mount = json!({"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": "IfPossible"});
        }
        json!({"volumes": [{"name": "v", "hostPath": {"path": host, "type": "Directory"}}],
            "containers": [{"securityContext": {"privileged": privileged}, "volumeMounts": [mount]}]})
    };
    check(
        &rig,
        &[
            Case {
                name: "alone",
                spec: with(None, false),
                inside: vec![("echo x 2>/dev/null > /v/x || echo refused", "refused")],
            },
            Case {
                name: "follows",
                spec: with(Some("HostToContainer"), false),
                inside: vec![],
            },
            Case {
                name: "leads",
                spec: with(Some("Bidirectional"), true),
                inside: vec![("mount -t tmpfs none /v/theirs && echo mounted", "mounted")],
            },
        ],
    )?;
    let later = Mounted::memory(&host.join("later"))?;
    fs::write(host.join("later/file"), "")?;
    ensure!(
        rig.inside("follows", "ls /v/later")? == "file\n",
        "a mount of the node is not seen"
    );
    ensure!(
        rig.inside("alone", "ls /v/later")?.is_empty(),
        "a mount is seen that should not be"
    );
    rig.inside("leads", "touch /v/theirs/file")?;
    ensure!(
        host.join("theirs/file").exists(),
        "a mount of the pod is not seen on the node"
    );
    ensure!(
        rig.inside("follows", "ls /v/theirs")? == "file\n",
        "a mount of one pod is not seen in another"
    );
    drop(later);
    rig.inside("leads", "umount /v/theirs")?;
    drop(_shared);
    leaves_nothing(&rig)
}

#[test]
fn host_paths_of_every_type() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let host = rig.directory.path().join("host");
    fs::create_dir(&host)?;
    fs::write(host.join("file"), "")?;
    let _socket = std::os::unix::net::UnixListener::bind(host.join("socket"))?;
    let block = nix::sys::stat::SFlag::S_IFBLK;
    nix::sys::stat::mknod(
        &host.join("block"),
        block,
        nix::sys::stat::Mode::from_bits_truncate(0o600),
        nix::sys::stat::makedev(7, 0),
    )?;
    let on = |name: &str, path: &Path, kind: &str| {
        let volume = json!({"name": "v", "hostPath": {"path": path, "type": kind}});
        pod(
            name,
            &json!({"volumes": [volume], "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
        )
    };
    let at = |name: &str| host.join(name);
    let null = Path::new("/dev/null");
    let good = [
        on("any", &at("file"), ""),
        on("directory", &host, "Directory"),
        on("directory-made", &at("a/b"), "DirectoryOrCreate"),
        on("file", &at("file"), "File"),
        on("file-made", &at("made"), "FileOrCreate"),
        on("socket", &at("socket"), "Socket"),
        on("char", null, "CharDevice"),
        on("block", &at("block"), "BlockDevice"),
    ];
    let bad = [
        (
            "no-directory",
            on("no-directory", &at("file"), "Directory"),
            "file is not a directory",
        ),
        (
            "no-dir-made",
            on("no-dir-made", &at("file"), "DirectoryOrCreate"),
            "file is not a directory",
        ),
        (
            "no-file",
            on("no-file", &host, "File"),
            "host is not a file",
        ),
        (
            "none",
            on("none", &at("none"), "File"),
            "none is not a file",
        ),
        (
            "no-socket",
            on("no-socket", &at("file"), "Socket"),
            "file is not a socket",
        ),
        (
            "no-char",
            on("no-char", &at("block"), "CharDevice"),
            "block is not a chardevice",
        ),
        (
            "no-block",
            on("no-block", null, "BlockDevice"),
            "null is not a blockdevice",
        ),
    ];
    apply(&rig, &good)?;
    apply(
        &rig,
        &bad.iter()
            .map(|(_, pod, _)| pod.clone())
            .collect::<Vec<_>>(),
    )?;
    for pod in &good {
        rig.wait_ready(pod["metadata"]["name"].as_str().unwrap_or_default())?;
    }
    for (name, _, text) in &bad {
        waits_with(
            &rig,
            name,
            "ContainerCreating",
            "hostPath type check failed",
        )?;
        wait_event(&rig, name, "FailedMount", text)?;
    }
    // what was not there comes, and the pod need not be made anew
    fs::write(host.join("none"), "")?;
    rig.wait_ready("none")?;
    leaves_nothing(&rig)
}

#[test]
fn a_token_is_replaced_before_it_expires() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let source = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 600, "audience": "store"}});
    let volume = json!({"name": "t", "projected": {"sources": [source], "defaultMode": 256}});
    check(
        &rig,
        &[Case {
            name: "bearer",
            spec: json!({"volumes": [volume], "containers": [{"volumeMounts": [{"name": "t", "mountPath": "/t"}]}]}),
            inside: vec![],
        }],
    )?;
    let claims = |token: &str| -> anyhow::Result<Value> {
        let middle = token.trim().split('.').nth(1).context("no claims")?;
        Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(middle)?)?)
    };
    let first = rig.inside("bearer", "cat /t/token")?;
    let read = claims(&first)?;
    let number = |field: &str| read[field].as_i64().unwrap_or_default();
    ensure!(
        read["aud"] == json!(["store"]) || read["aud"] == "store",
        "for whom: {read}"
    );
    ensure!(number("exp") - number("iat") == 600, "how long: {read}");
    // as if five sixths of its life had passed: one that was given 500 s earlier
    let mut old = read.clone();
    old["iat"] = (number("iat") - 500).into();
    old["exp"] = (number("exp") - 500).into();
    let old = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(old.to_string()));
    let uid = rig.pod("bearer")?.context("no pod")?["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let file = rig
        .node
        .pods
        .join(uid)
        .join("volumes/kubernetes.io~projected/t/..data/token");
    rig.node.process.terminate()?;
    fs::write(&file, &old)?;
    ensure!(
        rig.inside("bearer", "cat /t/token")? == old,
        "the pod sees another file"
    );
    rig.node.process.start_again()?;
    until("a new token", || {
        let now = rig.inside("bearer", "cat /t/token")?;
        let read = claims(&now)?;
        ensure!(
            now != old && read["exp"].as_i64() >= Some(number("exp")),
            "{read}"
        );
        Ok(())
    })?;
    ensure!(
        rig.wait_ready("bearer")?["status"]["containerStatuses"][0]["restartCount"] == 0,
        "it was restarted"
    );
    leaves_nothing(&rig)
}

#[test]
fn sub_paths_are_parts_of_volumes() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let fill = "mkdir -p /disk/real /disk/deep/er && echo in > /disk/real/file && ln -s real /disk/inner && ln -s /etc /disk/outer";
    let init = json!([{"name": "fill", "image": IMAGE, "command": ["sh", "-c", fill], "volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}]);
    let with = |sub: Value| {
        let mut mount = json!({"name": "disk", "mountPath": "/part"});
        if let (Value::Object(mount), Value::Object(sub)) = (&mut mount, sub) {
            mount.extend(sub);
        }
        json!({"volumes": [{"name": "disk", "emptyDir": {}}], "initContainers": init,
            "containers": [{"volumeMounts": [{"name": "disk", "mountPath": "/disk"}, mount], "env": [{"name": "WHERE", "value": "deep"}]}]})
    };
    check(
        &rig,
        &[
            Case {
                name: "directory",
                spec: with(json!({"subPath": "real"})),
                inside: vec![("cat /part/file", "in")],
            },
            Case {
                name: "file",
                spec: with(json!({"subPath": "real/file"})),
                inside: vec![("cat /part", "in")],
            },
            Case {
                name: "link",
                spec: with(json!({"subPath": "inner"})),
                inside: vec![("cat /part/file", "in")],
            },
            Case {
                name: "made",
                spec: with(json!({"subPath": "new/dir"})),
                inside: vec![("touch /part/x; ls /disk/new/dir", "x")],
            },
            Case {
                name: "expression",
                spec: with(json!({"subPathExpr": "$(WHERE)/er"})),
                inside: vec![("touch /part/x; ls /disk/deep/er", "x")],
            },
        ],
    )?;
    apply(&rig, &[pod("out", &with(json!({"subPath": "outer/ssl"})))])?;
    waits_with(
        &rig,
        "out",
        "CreateContainerConfigError",
        "is outside of the volume",
    )?;
    // the part is bound again when the container starts again, to what is there then
    rig.inside(
        "directory",
        "mv /disk/real /disk/away; mkdir /disk/real; echo new > /disk/real/file",
    )?;
    rig.containerd.raw_cri.stop(
        &RealRig::container_id(&rig.wait_ready("directory")?, "main")?,
        20,
    )?;
    until("the new part", || {
        let found = rig.inside("directory", "cat /part/file")?;
        ensure!(found == "new\n", "{found:?}");
        Ok(())
    })?;
    leaves_nothing(&rig)
}
