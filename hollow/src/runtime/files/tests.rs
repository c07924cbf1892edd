//! Tests what a container can read, and what its log looks like.

use std::os::unix::fs::symlink;

use super::*;

fn mount(container: &str, host: &Path) -> Mount {
    Mount {
        container_path: container.into(),
        host_path: host.display().to_string(),
        ..Default::default()
    }
}

#[test]
fn a_container_reads_its_mounts_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let host = |name: &str| dir.path().join(name);
    for part in ["config/..v1", "deep"] {
        fs::create_dir_all(host(part)).unwrap();
    }
    fs::write(host("config/..v1/key"), "value").unwrap();
    // The layout of a ConfigMap volume.
    symlink("..v1", host("config/..data")).unwrap();
    symlink("..data/key", host("config/key")).unwrap();
    symlink("/etc/passwd", host("config/out")).unwrap();
    fs::write(host("secret"), "of the host").unwrap();
    symlink("../secret", host("config/up")).unwrap();
    fs::write(host("deep/key"), "deeper").unwrap();
    fs::write(host("large"), vec![b'x'; MAX_READ as usize + 1]).unwrap();
    let mounts = [
        mount("/etc/config", &host("config")),
        mount("/etc/config/deep", &host("deep")),
        mount("/one", &host("config/key")),
        mount("/large", &host("large")),
        mount("/gone", &host("gone")),
    ];
    let seen = |path: &str| read(&mounts, path).map_err(|e| e.kind());
    assert_eq!(seen("/etc/config/key"), Ok(b"value".to_vec()));
    assert_eq!(seen("/etc/config/deep/key"), Ok(b"deeper".to_vec()));
    assert_eq!(seen("/one"), Ok(b"value".to_vec()));
    for (path, kind) in [
        ("/etc/passwd", ErrorKind::NotFound),
        ("/etc/configuration", ErrorKind::NotFound),
        ("/etc/config/none", ErrorKind::NotFound),
        ("/gone", ErrorKind::NotFound),
        ("/etc/config/out", ErrorKind::PermissionDenied),
        ("/etc/config/up", ErrorKind::PermissionDenied),
        ("/etc/config/../secret", ErrorKind::InvalidInput),
        ("etc/config/key", ErrorKind::InvalidInput),
        ("/etc/config", ErrorKind::InvalidInput),
        ("/large", ErrorKind::FileTooLarge),
    ] {
        assert_eq!(seen(path), Err(kind), "{path}");
    }
}

#[test]
fn logs_are_appended_in_the_format_of_cri() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_path(&dir.path().display().to_string(), "0.log")
        .unwrap()
        .unwrap();
    let now: jiff::Timestamp = "2025-01-02T03:04:05.000000006Z".parse().unwrap();
    log(&path, &["hello".into()], now).unwrap();
    log(&path, &["again".into()], now).unwrap();
    let stamp = "2025-01-02T03:04:05.000000006Z";
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{stamp} stdout F hello\n{stamp} stdout F again\n")
    );
}

#[test]
fn a_log_stays_in_its_directory() {
    assert_eq!(log_path("", "0.log"), Ok(None));
    assert_eq!(log_path("/var/log", ""), Ok(None));
    for (directory, log) in [
        ("/var/log", "../x"),
        ("/var/log", "/etc/x"),
        ("/var/../etc", "x"),
        ("log", "x"),
    ] {
        assert!(log_path(directory, log).is_err(), "{directory} {log}");
    }
}

#[test]
fn links_lead_to_what_they_name_inside_of_the_container() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("key"), "value").unwrap();
    let files = Files::new(
        vec![mount("/etc/config", dir.path())],
        "pod".to_owned(),
        String::new(),
        &Shared::default(),
    );
    files.make_directory("/tmp/a/b", true).unwrap();
    files.write("/tmp/a/file", b"content", false).unwrap();
    for (path, target) in [
        ("/tmp/absolute", "/tmp/a/file"),
        ("/tmp/a/b/up", "../file"),
        ("/tmp/folder", "a"),
        ("/tmp/mounted", "/etc/config/key"),
        ("/tmp/chain", "folder/b/up"),
        ("/tmp/out", "../../../../../../etc/hostname"),
        ("/tmp/dangling", "none"),
        ("/tmp/round", "turn"),
        ("/tmp/turn", "round"),
    ] {
        files.link(path, target, false).unwrap();
        assert_eq!(files.target(path).unwrap().as_deref(), Some(target));
    }
    let read = |path: &str| {
        files
            .read(path)
            .map(|bytes| String::from_utf8(bytes).unwrap())
    };
    for path in [
        "/tmp/absolute",
        "/tmp/a/b/up",
        "/tmp/folder/file",
        "/tmp/chain",
    ] {
        assert_eq!(read(path).unwrap(), "content", "{path}");
    }
    assert_eq!(read("/tmp/mounted").unwrap(), "value");
    assert_eq!(
        read("/tmp/out").unwrap(),
        "pod\n",
        "of the container, not of the host"
    );
    assert_eq!(
        read("/tmp/dangling").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(
        read("/tmp/round")
            .unwrap_err()
            .to_string()
            .contains("Too many levels")
    );
    assert_eq!(files.kind("/tmp/folder").unwrap(), Kind::Directory);
    assert!(files.list("/tmp/folder").unwrap().contains("file"));
    // What is written through a link goes to its target.
    files.write("/tmp/dangling", b"made", false).unwrap();
    assert_eq!(read("/tmp/none").unwrap(), "made");
    files.make_directory("/tmp/folder/new", false).unwrap();
    assert_eq!(files.kind("/tmp/a/new").unwrap(), Kind::Directory);
    // A link is removed alone, without its target.
    files.remove("/tmp/folder").unwrap();
    assert_eq!(read("/tmp/a/file").unwrap(), "content");
    files.remove("/tmp/round").unwrap();
    assert!(files.kind("/tmp/round").is_err());
    assert_eq!(
        files.link("/tmp/a", "x", true).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        files.link("/tmp/absolute", "x", false).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    files.link("/tmp/absolute", "none", true).unwrap();
    assert_eq!(read("/tmp/absolute").unwrap(), "made");
}

#[test]
fn only_an_empty_directory_of_a_provisioned_volume_can_be_removed() {
    let directory = tempfile::tempdir().unwrap();
    let name = |number: u8| format!("pvc-00000000-0000-4000-8000-00000000000{number}_default_data");
    for name in [
        name(1),
        name(2),
        name(3),
        name(5),
        "pvc-other".to_owned(),
        "config".to_owned(),
    ] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    fs::write(
        directory.path().join(name(2)).join("file"),
        "of a real container",
    )
    .unwrap();
    std::os::unix::fs::symlink(
        directory.path().join(name(5)),
        directory.path().join(name(4)),
    )
    .unwrap();
    let host = |path: &str| directory.path().join(path).display().to_string();
    let mount = |host_path: String, container_path: &str, readonly| Mount {
        host_path,
        container_path: container_path.into(),
        readonly,
        ..Mount::default()
    };
    let own = format!("/volumes/{}", name(3));
    for (readonly, name, removed) in [
        (true, name(1), false),
        (false, name(1), true),
        // it is not empty, mounted itself, a link, not a volume's
        (false, name(2), false),
        (false, name(3), false),
        (false, name(4), false),
        (false, "pvc-other".to_owned(), false),
        (false, "config".to_owned(), false),
    ] {
        let mounts = vec![
            mount(host(""), "/volumes", readonly),
            mount(host(&name), &own, false),
        ];
        let files = Files::new(mounts, "host".into(), String::new(), &Shared::default());
        assert_eq!(
            files.remove(&format!("/volumes/{name}")).is_ok(),
            removed,
            "{name}"
        );
        assert_eq!(
            fs::symlink_metadata(directory.path().join(&name)).is_err(),
            removed,
            "{name}"
        );
    }
    assert!(
        directory.path().join(name(5)).exists(),
        "the target of a link"
    );
}
