//! Tests of [`super`].

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;
use crate::{
    downward::Downward,
    env::Environment,
    names::Dirs,
    references::{Fetched, Objects, Reference},
};

struct World {
    dir: tempfile::TempDir,
    pod: Pod,
    inputs: Inputs,
    secrets_in_memory: bool,
}

impl World {
    fn new(volumes: serde_json::Value) -> Self {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u-1", "labels": {"app": "web"}},
            "spec": {"serviceAccountName": "sa", "volumes": volumes, "containers": [{"name": "c"}]}
        }))
        .unwrap();
        let inputs = Inputs {
            objects: Objects::default(),
            tokens: Tokens::new(),
            claims: Claims::new(),
        };
        let dir = tempfile::tempdir().unwrap();
        let mut world = Self {
            dir,
            pod,
            inputs,
            secrets_in_memory: false,
        };
        world.config_map(&[("a.conf", "one"), ("b.conf", "two")]);
        world
    }

    fn config_map(&mut self, data: &[(&str, &str)]) {
        let data: BTreeMap<String, Vec<u8>> = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        self.inputs.objects.insert(
            Reference::ConfigMap("cm".into()),
            Fetched::Found(Arc::new(data)),
        );
    }

    fn dirs(&self) -> Dirs {
        let (root, logs) = (self.dir.path().into(), self.dir.path().join("logs"));
        Dirs {
            root,
            logs,
            secrets_in_memory: self.secrets_in_memory,
        }
    }

    fn set_up(&self) -> Result<(), String> {
        let downward = Downward {
            pod: &self.pod,
            host_ips: &[],
            pod_ips: &[],
            allocatable: Default::default(),
        };
        set_up(&self.dirs(), &downward, &self.inputs)
            .map_err(|error| format!("{error}: {}", error.source))
    }

    fn volume(&self, plugin: &str) -> PathBuf {
        self.dirs().volume("u-1", plugin, "v")
    }

    fn mounts(&self, mounts: serde_json::Value) -> Result<Vec<(String, bool)>, Error> {
        let container =
            serde_json::from_value(json!({"name": "c", "volumeMounts": mounts})).unwrap();
        let (etc_hosts, termination_message) = ("/hosts".into(), "/words".into());
        let places = MountInputs {
            dirs: &self.dirs(),
            pod: &self.pod,
            etc_hosts,
            termination_message,
            recursive: false,
        };
        let mut all = of_container(&places, &container, &Environment::default())?;
        let own: Vec<String> = all
            .split_off(all.len() - 2)
            .into_iter()
            .map(|m| m.container_path)
            .collect();
        assert_eq!(own, ["/etc/hosts", "/dev/termination-log"]);
        Ok(all
            .into_iter()
            .map(|mount| (mount.host_path, mount.readonly))
            .collect())
    }
}

/// Names in a directory that users see, with what is in them.
fn visible_files(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, path)| !name.starts_with("..") && path.is_file())
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect()
}

fn pairs(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

#[test]
fn config_map_files_are_updated_atomically() {
    let mut world = World::new(json!([{"name": "v", "configMap": {"name": "cm"}}]));
    world.set_up().unwrap();
    let volume = world.volume("configmap");
    assert_eq!(
        visible_files(&volume),
        pairs(&[("a.conf", "one"), ("b.conf", "two")])
    );
    let first = fs::read_link(volume.join("..data")).unwrap();
    world.set_up().unwrap();
    assert_eq!(
        fs::read_link(volume.join("..data")).unwrap(),
        first,
        "nothing changed, nothing written"
    );
    world.config_map(&[("a.conf", "new"), ("c.conf", "three")]);
    world.set_up().unwrap();
    assert_eq!(
        visible_files(&volume),
        pairs(&[("a.conf", "new"), ("c.conf", "three")])
    );
    assert!(!volume.join(&first).exists(), "the old content is gone");
    assert!(fs::symlink_metadata(volume.join("b.conf")).is_err());
    assert_eq!(
        fs::read_link(volume.join("a.conf")).unwrap(),
        Path::new("..data/a.conf")
    );
}

#[test]
fn files_stay_when_their_object_is_unavailable() {
    let mut world = World::new(json!([{"name": "v", "configMap": {"name": "cm"}}]));
    world.set_up().unwrap();
    world.inputs.objects.insert(
        Reference::ConfigMap("cm".into()),
        Fetched::Unavailable("offline".into()),
    );
    world.set_up().unwrap();
    assert_eq!(
        visible_files(&world.volume("configmap")),
        pairs(&[("a.conf", "one"), ("b.conf", "two")])
    );
}

#[test]
fn items_choose_paths_and_modes() {
    let mut world = World::new(
        json!([{"name": "v", "configMap": {"name": "cm", "defaultMode": 0o400,
        "items": [{"key": "a.conf", "path": "deep/x"}, {"key": "b.conf", "path": "y", "mode": 0o644}]}},
        {"name": "d", "downwardAPI": {"defaultMode": 0o440, "items": [
            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "uid", "mode": 0o404, "fieldRef": {"fieldPath": "metadata.uid"}}]}},
        {"name": "s", "secret": {"secretName": "s", "items": [{"key": "k", "path": "deep/k"}]}}]),
    );
    world.inputs.objects.insert(
        Reference::Secret("s".into()),
        Fetched::Found(Arc::new(
            [
                ("k".to_owned(), b"v".to_vec()),
                ("other".to_owned(), b"w".to_vec()),
            ]
            .into(),
        )),
    );
    world.set_up().unwrap();
    let of = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mode = |path: &str| of(world.volume("configmap").join(path));
    assert_eq!((mode("deep/x"), mode("y")), (0o400, 0o644));
    let own = world.dirs().volume("u-1", "downward-api", "d");
    assert_eq!((of(own.join("name")), of(own.join("uid"))), (0o440, 0o404));
    let secret = world.dirs().volume("u-1", "secret", "s");
    assert_eq!(fs::read_to_string(secret.join("deep/k")).unwrap(), "v");
    assert!(!secret.join("other").exists());
    assert_eq!(
        fs::read_to_string(world.volume("configmap").join("deep/x")).unwrap(),
        "one"
    );
}

#[test]
fn missing_and_escaping_paths_are_named() {
    for (source, wanted) in [
        (
            json!({"configMap": {"name": "no"}}),
            "configmap \"no\" not found",
        ),
        (
            json!({"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}}),
            "couldn't find key z in configmap \"cm\"",
        ),
        (
            json!({"configMap": {"name": "cm", "items": [{"key": "a.conf", "path": "../../x"}]}}),
            "is outside of the volume",
        ),
        (
            json!({"configMap": {"name": "cm", "items": [{"key": "a.conf", "path": "..data"}]}}),
            "is outside of the volume",
        ),
        (
            json!({"nfs": {"path": "/x", "server": "y"}}),
            "nfs is not supported on this node: mount it on the node and use a hostPath volume",
        ),
        (
            json!({"hostPath": {"path": "/dev/null", "type": "Directory"}}),
            "/dev/null is not a directory",
        ),
        (
            json!({"hostPath": {"path": "/a/../b"}}),
            "is outside of the volume",
        ),
        (
            json!({"projected": {"sources": [{"configMap": {"name": "cm"}}, {"configMap": {"name": "cm"}}]}}),
            "used twice",
        ),
    ] {
        let mut volume = source;
        volume["name"] = json!("v");
        let error = World::new(json!([volume])).set_up().unwrap_err();
        assert!(
            error.starts_with("MountVolume.SetUp failed for volume \"v\" : "),
            "{error}"
        );
        assert!(error.contains(wanted), "{error}");
    }
    World::new(json!([{"name": "v", "configMap": {"name": "no", "optional": true}}]))
        .set_up()
        .unwrap();
    let error = World::new(json!([{"name": "../../v", "emptyDir": {}}]))
        .set_up()
        .unwrap_err();
    assert!(error.contains("outside of"), "{error}");
}

#[test]
fn a_projected_volume_puts_all_sources_together() {
    let mut world = World::new(json!([{"name": "v", "projected": {"sources": [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "cm", "items": [{"key": "a.conf", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
    ]}}]));
    world.inputs.tokens.insert(
        ("v".into(), "token".into()),
        Err("the cloud is not connected".into()),
    );
    let error = world.set_up().unwrap_err();
    assert!(
        error.ends_with("cannot get a token of service account \"sa\": the cloud is not connected"),
        "{error}"
    );
    world
        .inputs
        .tokens
        .insert(("v".into(), "token".into()), Ok("t0k3n".into()));
    world.set_up().unwrap();
    let wanted = pairs(&[("token", "t0k3n"), ("ca.crt", "one"), ("namespace", "n")]);
    assert_eq!(visible_files(&world.volume("projected")), wanted);
}

#[test]
fn an_empty_dir_keeps_its_content_until_the_pod_goes() {
    let world = World::new(json!([{"name": "v", "emptyDir": {}}]));
    world.set_up().unwrap();
    let volume = world.volume("empty-dir");
    assert_eq!(
        fs::metadata(&volume).unwrap().permissions().mode() & 0o777,
        0o777
    );
    fs::write(volume.join("x"), "kept").unwrap();
    world.set_up().unwrap();
    assert_eq!(visible_files(&volume), pairs(&[("x", "kept")]));
    tear_down(&world.dirs(), "u-1").unwrap();
    assert!(!world.dirs().pod("u-1").exists());
    tear_down(&world.dirs(), "u-1").unwrap();
    assert!(matches!(
        tear_down(&world.dirs(), ".."),
        Err(Error::PathEscape(_))
    ));
}

#[test]
fn volumes_belong_to_the_pods_group() {
    use std::os::unix::fs::MetadataExt;
    let mut world = World::new(
        json!([{"name": "v", "configMap": {"name": "cm", "defaultMode": 0o600,
        "items": [{"key": "a.conf", "path": "deep/x"}]}}, {"name": "w", "emptyDir": {}},
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]),
    );
    world
        .inputs
        .tokens
        .insert(("t".into(), "token".into()), Ok("t0k3n".into()));
    // One that whoever runs the tests may give files to.
    let group = nix::unistd::getgid().as_raw();
    let context = json!({"fsGroup": group});
    world.pod.spec.as_mut().unwrap().security_context = serde_json::from_value(context).unwrap();
    world.set_up().unwrap();
    let of = |path: PathBuf| {
        let meta = fs::metadata(path).unwrap();
        (meta.gid(), meta.permissions().mode() & 0o7777)
    };
    let volume = world.volume("configmap");
    assert_eq!(of(volume.join("deep/x")), (group, 0o640));
    assert_eq!(of(volume.join("..data/deep")), (group, 0o2755));
    assert_eq!(of(volume), (group, 0o2755));
    assert_eq!(
        of(world.dirs().volume("u-1", "empty-dir", "w")),
        (group, 0o2777)
    );
    assert_eq!(
        of(world.dirs().volume("u-1", "projected", "t").join("token")),
        (group, 0o640)
    );
}

#[test]
fn termination_messages_have_a_file_for_each_attempt_and_two_are_kept() {
    let world = World::new(json!([]));
    let path = |attempt| world.dirs().termination_message("u-1", "c", attempt);
    for attempt in 0..4 {
        make_termination_message_file(&path(attempt), attempt).unwrap();
    }
    assert_eq!(
        [0, 1, 2, 3].map(|attempt| path(attempt).exists()),
        [false, false, true, true]
    );
    assert_eq!(
        fs::metadata(path(3)).unwrap().permissions().mode() & 0o777,
        0o666
    );
}

#[test]
fn host_paths_are_made_where_that_is_asked_for() {
    let outside = tempfile::tempdir().unwrap();
    let (dir, file) = (outside.path().join("d"), outside.path().join("f"));
    let world = World::new(json!([
        {"name": "d", "hostPath": {"path": dir, "type": "DirectoryOrCreate"}},
        {"name": "f", "hostPath": {"path": file, "type": "FileOrCreate"}}
    ]));
    world.set_up().unwrap();
    assert!(dir.is_dir() && file.is_file());
    let mounts = world
        .mounts(json!([{"name": "d", "mountPath": "/d"}]))
        .unwrap();
    assert_eq!(mounts, [(dir.to_string_lossy().into_owned(), false)]);
}

#[test]
fn a_sub_path_is_made_and_never_leads_out() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new(json!([{"name": "v", "emptyDir": {}}]));
    world.set_up().unwrap();
    let volume = fs::canonicalize(world.volume("empty-dir")).unwrap();
    let mount = |sub: &str| {
        world.mounts(json!([{"name": "v", "mountPath": "/x", "subPath": sub, "readOnly": true}]))
    };
    // Bound elsewhere, where mounting is allowed: the same directory all the same.
    let inode = |path: &Path| {
        fs::metadata(path)
            .map(|meta| (meta.dev(), meta.ino()))
            .unwrap()
    };
    let leads_to = |sub: &str, wanted: &str| {
        let found = mount(sub).unwrap();
        assert_eq!(
            inode(Path::new(&found[0].0)),
            inode(&volume.join(wanted)),
            "{sub}"
        );
        assert!(found[0].1);
    };
    leads_to("a/b", "a/b");
    assert_eq!(
        fs::metadata(volume.join("a/b"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o777
    );
    std::os::unix::fs::symlink("/etc", volume.join("out")).unwrap();
    std::os::unix::fs::symlink("/nowhere", volume.join("dangling")).unwrap();
    std::os::unix::fs::symlink("a", volume.join("in")).unwrap();
    for bad in ["out", "out/passwd", "../x", "/etc"] {
        assert!(matches!(mount(bad), Err(Error::PathEscape(_))), "{bad}");
    }
    assert!(mount("dangling").is_err());
    leads_to("in/b", "a/b");
    fs::write(volume.join("file"), "text").unwrap();
    leads_to("file", "file");
    let expr = json!([{"name": "v", "mountPath": "/x", "subPathExpr": "$(NONE)"}]);
    assert!(matches!(world.mounts(expr), Err(Error::Variable(_))));
    let none = world.mounts(json!([{"name": "w", "mountPath": "/x"}]));
    assert!(matches!(none, Err(Error::NoVolume(_))));
    tear_down(&world.dirs(), "u-1").unwrap();
    assert!(!world.dirs().pod("u-1").exists(), "nothing stays mounted");
}

#[test]
fn a_missing_object_is_left_out_of_a_projection() {
    let sources = |optional: bool| {
        let none = |kind: &str| json!({kind: {"name": "none", "optional": optional}});
        json!([{"name": "v", "projected": {"sources": [none("configMap"), none("secret"),
            {"configMap": {"name": "cm", "optional": true, "items": [{"key": "a.conf", "path": "a"}, {"key": "none", "path": "n"}]}}]}}])
    };
    let world = World::new(sources(true));
    world.set_up().unwrap();
    assert_eq!(
        visible_files(&world.volume("projected")),
        pairs(&[("a", "one")])
    );
    assert!(
        World::new(sources(false))
            .set_up()
            .unwrap_err()
            .contains("configmap \"none\" not found")
    );
    World::new(json!([{"name": "v", "secret": {"secretName": "none", "optional": true}}]))
        .set_up()
        .unwrap();
}

/// A claim's volume, as its pod has it.
#[test]
fn a_claimed_volume_is_kept_and_outlives_the_pod() {
    let mut world = World::new(
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}}]),
    );
    let disk = world.dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    fs::write(disk.join("kept"), "x").unwrap();
    world
        .inputs
        .claims
        .insert("v".into(), Err(ClaimError::Unbound));
    let error = world.set_up().unwrap_err();
    assert!(
        error.contains("volume \"v\"") && error.contains("error processing PVC n/data"),
        "{error}"
    );
    let claim = json!({"metadata": {"uid": "c-1"}});
    let volume = json!({"metadata": {"name": "pv"}, "spec": {"local": {"path": disk}, "claimRef": {"uid": "c-1"}}});
    let found = backing_path(
        &serde_json::from_value(claim).unwrap(),
        &serde_json::from_value(volume).unwrap(),
        &Default::default(),
    );
    world.inputs.claims.insert("v".into(), found);
    world.set_up().unwrap();
    // without the cloud, or with a claim that is gone
    world.inputs.claims.clear();
    world.set_up().unwrap();
    let mounts = world
        .mounts(json!([{"name": "v", "mountPath": "/v"}]))
        .unwrap();
    assert_eq!(
        mounts,
        [(disk.display().to_string(), true)],
        "claimed to be read only"
    );
    tear_down(&world.dirs(), "u-1").unwrap();
    assert!(fs::symlink_metadata(world.volume("local-volume")).is_err());
    assert_eq!(fs::read_to_string(disk.join("kept")).unwrap(), "x");
}

#[test]
fn missing_local_volume_is_an_error() {
    let mut world =
        World::new(json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]));
    let claim = json!({"metadata": {"uid": "c-1"}});
    let volume = json!({"metadata": {"name": "pv"}, "spec": {"local": {"path": "/no/such"}, "claimRef": {"uid": "c-1"}}});
    let found = backing_path(
        &serde_json::from_value(claim).unwrap(),
        &serde_json::from_value(volume).unwrap(),
        &Default::default(),
    );
    world.inputs.claims.insert("v".into(), found);
    let error = world.set_up().unwrap_err();
    assert!(error.contains("/no/such is not a directory"), "{error}");
}

/// Unmounts what a test has mounted, also where it fails.
struct Unmounted<'a>(&'a World);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = tear_down(&self.0.dirs(), "u-1");
    }
}

fn secret(text: &str) -> Fetched {
    Fetched::Found(Arc::new(
        [("k".to_owned(), text.as_bytes().to_vec())].into(),
    ))
}

#[test]
fn secrets_are_only_in_memory() {
    let mut world = World::new(json!([
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "d", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "c", "configMap": {"name": "cm"}}]));
    world.secrets_in_memory = true;
    world
        .inputs
        .objects
        .insert(Reference::Secret("s".into()), secret("first"));
    world
        .inputs
        .tokens
        .insert(("p".into(), "t".into()), Ok("token".into()));
    let of = |world: &World, plugin, name| world.dirs().volume("u-1", plugin, name);
    {
        let world = Unmounted(&world);
        world.0.set_up().unwrap();
        let files = [
            (of(world.0, "secret", "s").join("k"), "first"),
            (of(world.0, "projected", "p").join("t"), "token"),
            (of(world.0, "downward-api", "d").join("name"), "p"),
        ];
        for (path, text) in &files {
            assert_eq!(fs::read_to_string(path).unwrap(), *text);
            let file_system = nix::sys::statfs::statfs(path).unwrap().filesystem_type();
            assert_eq!(
                file_system,
                nix::sys::statfs::TMPFS_MAGIC,
                "{}",
                path.display()
            );
        }
        let disk = nix::sys::statfs::statfs(world.0.dir.path())
            .unwrap()
            .filesystem_type();
        let config =
            nix::sys::statfs::statfs(&of(world.0, "configmap", "c").join("a.conf")).unwrap();
        assert_eq!(config.filesystem_type(), disk);
        // what lies below the mounts, as after the machine has lost its power
        for (path, _) in &files {
            let volume = path.parent().unwrap();
            nix::mount::umount2(volume, nix::mount::MntFlags::MNT_DETACH).unwrap();
            assert_eq!(
                fs::read_dir(volume).unwrap().count(),
                0,
                "{}",
                volume.display()
            );
        }
        world.0.set_up().unwrap();
        assert!(
            files
                .iter()
                .all(|(path, text)| fs::read_to_string(path).unwrap() == *text)
        );
    }
    assert!(!world.dirs().pod("u-1").exists(), "it cannot be removed");
}

#[test]
fn existing_secret_files_on_disk_are_not_hidden_by_a_mount() {
    let mut world = World::new(json!([{"name": "s", "secret": {"secretName": "s"}}]));
    world
        .inputs
        .objects
        .insert(Reference::Secret("s".into()), secret("first"));
    world.set_up().unwrap();
    let volume = world.dirs().volume("u-1", "secret", "s");
    let used = fs::File::open(&volume).unwrap();
    world.secrets_in_memory = true;
    world
        .inputs
        .objects
        .insert(Reference::Secret("s".into()), secret("second"));
    let world = Unmounted(&world);
    world.0.set_up().unwrap();
    let through = format!("/proc/self/fd/{}/k", std::os::fd::AsRawFd::as_raw_fd(&used));
    assert_eq!(fs::read_to_string(through).unwrap(), "second");
}
