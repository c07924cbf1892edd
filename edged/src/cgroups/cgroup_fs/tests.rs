//! Tests of [`super`].

use std::os::unix::process::ExitStatusExt;

use super::*;

#[test]
fn only_listed_pids_are_killed() {
    let listed = "0\n1\n-1\n-7\nx\n\n4000000\n";
    assert_eq!(
        parse_pids(listed).collect::<Vec<_>>(),
        [Pid::from_raw(4_000_000)]
    );
}

fn group(base: &Path, files: &[&str]) {
    for file in files {
        let path = base.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
}

fn limits() -> Limits {
    Limits {
        shares: Some(2),
        memory: Some(4096),
        ..Limits::default()
    }
}

#[test]
fn limits_are_written_only_to_existing_groups() {
    let place = tempfile::tempdir().unwrap();
    let read = |file: &str| fs::read_to_string(place.path().join(file)).unwrap();
    let cgroup_fs = CgroupFs::new(place.path().to_owned());
    assert!(
        !cgroup_fs
            .set_limits(Path::new("kubepods/podu"), &limits())
            .unwrap(),
        "no group, and none is made"
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    group(place.path(), &["cpu/kubepods/podu/cpu.shares"]);
    assert!(
        cgroup_fs
            .set_limits(Path::new("kubepods/podu"), &limits())
            .unwrap(),
        "without a memory controller"
    );
    assert_eq!(read("cpu/kubepods/podu/cpu.shares"), "2");
    group(
        place.path(),
        &[
            "cgroup.controllers",
            "k.slice/cpu.weight",
            "k.slice/memory.max",
        ],
    );
    let cgroup_fs = CgroupFs::new(place.path().to_owned());
    assert!(
        cgroup_fs
            .set_limits(Path::new("k.slice"), &limits())
            .unwrap()
    );
    assert_eq!(
        (read("k.slice/cpu.weight"), read("k.slice/memory.max")),
        ("1".into(), "4096".into())
    );
}

fn sleeper() -> std::process::Child {
    std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap()
}

/// A directory is no group: its file of processes is one that nobody else empties.
#[test]
fn processes_of_a_group_are_killed_but_not_this_one() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    let mut sleeper = sleeper();
    group(
        place.path(),
        &["pids/podu/below/cgroup.procs", "freezer/podu/freezer.state"],
    );
    let cgroup_fs = CgroupFs::new(place.path().to_owned());
    let own = std::process::id();
    fs::write(at("pids/podu/below/cgroup.procs"), format!("{own}\n")).unwrap();
    cgroup_fs.kill_processes(Path::new("podu"));
    let state = || fs::read_to_string(at("freezer/podu/freezer.state")).unwrap();
    assert_eq!(state(), "", "a group with the killer in it is not held");
    fs::write(at("pids/podu/below/cgroup.procs"), sleeper.id().to_string()).unwrap();
    cgroup_fs.kill_processes(Path::new("podu"));
    assert_eq!(
        sleeper.wait().unwrap().signal(),
        Some(Signal::SIGKILL as i32)
    );
    assert_eq!(state(), THAWED);
}

#[test]
fn cgroup_kill_is_used_if_the_kernel_has_it() {
    let place = tempfile::tempdir().unwrap();
    let mut sleeper = sleeper();
    group(place.path(), &["cgroup.controllers", "podu/cgroup.kill"]);
    fs::write(
        place.path().join("podu/cgroup.procs"),
        sleeper.id().to_string(),
    )
    .unwrap();
    CgroupFs::new(place.path().to_owned()).kill_processes(Path::new("podu"));
    assert_eq!(
        fs::read_to_string(place.path().join("podu/cgroup.kill")).unwrap(),
        "1"
    );
    assert!(
        sleeper.try_wait().unwrap().is_none(),
        "it is the kernel's to kill"
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn unknown_populated_groups_are_found() {
    let place = tempfile::tempdir().unwrap();
    for (name, listed) in [
        ("known", "4000000"),
        ("empty", ""),
        ("lost/deeper", "4000001"),
    ] {
        let group = place.path().join("pids/kubepods/podu").join(name);
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cgroup.procs"), listed).unwrap();
    }
    let cgroup_fs = CgroupFs::new(place.path().to_owned());
    let found = cgroup_fs.populated_groups(&["kubepods/podu".into()], |name| name == "known");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["lost"]);
    assert!(
        cgroup_fs
            .populated_groups(&["kubepods/podother".into()], |_| false)
            .is_empty()
    );
}

#[test]
fn only_the_processes_of_one_container_are_killed() {
    let place = tempfile::tempdir().unwrap();
    let mut sleepers = ["cri-containerd-aaaa.scope", "bbbb"].map(|name| {
        let sleeper = sleeper();
        let group = place.path().join("pids/kubepods/podu").join(name);
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
        sleeper
    });
    CgroupFs::new(place.path().to_owned()).kill_container(Path::new("kubepods/podu"), "aaaa");
    assert_eq!(
        sleepers[0].wait().unwrap().signal(),
        Some(Signal::SIGKILL as i32)
    );
    assert!(sleepers[1].try_wait().unwrap().is_none());
    sleepers[1].kill().unwrap();
    sleepers[1].wait().unwrap();
}

#[test]
fn group_is_removed_from_all_hierarchies_with_its_children() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    for path in [
        "cpu,cpuacct/kubepods/podu/a/b",
        "pids/kubepods/podu",
        "pids/kubepods/podother",
        "empty",
    ] {
        fs::create_dir_all(at(path)).unwrap();
    }
    std::os::unix::fs::symlink("cpu,cpuacct", at("cpu")).unwrap();
    let cgroup_fs = CgroupFs::new(place.path().to_owned());
    cgroup_fs.remove(Path::new("kubepods/podu")).unwrap();
    assert!(!at("cpu/kubepods/podu").exists() && !at("pids/kubepods/podu").exists());
    assert!(at("cpu/kubepods").exists() && at("pids/kubepods/podother").exists());
    cgroup_fs.remove(Path::new("kubepods/podu")).unwrap();
    // what only a kernel's own files do not hold back
    fs::write(at("pids/kubepods/podother/file"), "").unwrap();
    assert!(cgroup_fs.remove(Path::new("kubepods/podother")).is_err());
}
