//! Tests containers whose own command uses files or the time of day.

use testkit::eventually;

use super::*;

/// A pod whose containers run one after the other, with the directory of their logs.
struct World {
    runtime: SimRuntime,
    agent: Agent,
    sandbox: String,
    dir: tempfile::TempDir,
}

impl World {
    async fn new(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, mut agent) = in_process(options);
        agent.pull("nginx").await.unwrap();
        let log_directory = dir.path().display().to_string();
        let config = cri::PodSandboxConfig {
            log_directory,
            ..pod("pod", &[])
        };
        let sandbox = agent.run_pod(config).await.unwrap();
        Self {
            runtime,
            agent,
            sandbox,
            dir,
        }
    }

    async fn start(
        &mut self,
        name: &str,
        command: &[&str],
        change: impl FnOnce(&mut cri::ContainerConfig),
    ) -> String {
        let mut config = cri::ContainerConfig {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            log_path: format!("{name}.log"),
            ..container(name)
        };
        change(&mut config);
        let id = self.agent.create(&self.sandbox, config).await.unwrap();
        self.agent.start(&id).await.unwrap();
        id
    }

    /// Returns the exit code and the log of a container that ends.
    async fn end(&mut self, id: &str) -> (i32, String) {
        within(
            "the end of the container",
            self.runtime.core.until_ended(id),
        )
        .await;
        let status = self.agent.status(id).await.unwrap();
        assert_eq!(status.state(), ContainerState::ContainerExited);
        let text = fs::read_to_string(&status.log_path).unwrap_or_default();
        let lines = text.lines().map(|line| line.splitn(4, ' ').last().unwrap());
        (status.exit_code, lines.collect::<Vec<_>>().join("|"))
    }

    /// Waits until the container has logged something.
    async fn until_logged(&mut self, id: &str) {
        let path = self.agent.status(id).await.unwrap().log_path;
        until("a line of the log", || {
            !fs::read_to_string(&path).unwrap_or_default().is_empty()
        })
        .await;
    }

    /// Waits until an exec returns this exit code.
    async fn until_exec(&mut self, id: &str, command: &str, code: i32) {
        eventually(command, async || {
            match self.agent.exec(id, command).await.unwrap() {
                (found, ..) if found == code => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }
}

fn mount(config: &mut cri::ContainerConfig, place: &str, host: &Path, readonly: bool) {
    config.mounts.push(cri::Mount {
        container_path: place.into(),
        host_path: host.display().to_string(),
        readonly,
        ..Default::default()
    });
}

#[tokio::test]
async fn one_shot_commands_print_and_end() {
    let mut world = World::new(Options::default()).await;
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("key"), "value\n").unwrap();
    for (name, command, code, log) in [
        ("cat", &["cat", "/config/key"][..], 0, "value"),
        ("ls", &["ls", "/config"], 0, "key"),
        (
            "missing",
            &["cat", "/none"],
            1,
            "cat: /none: No such file or directory",
        ),
        ("id", &["id", "-u"], 0, "0"),
        (
            "script",
            &[
                "sh",
                "-c",
                "cat /config/key; echo x > /tmp/a; cat /tmp/a; exit 7",
            ],
            7,
            "value|x",
        ),
        (
            "condition",
            &[
                "sh",
                "-c",
                "if [ -f /tmp/a ]; then exit 1; elif ! false; then echo b; fi",
            ],
            0,
            "b",
        ),
        (
            "loop",
            &[
                "sh",
                "-c",
                "n=0; while [ $n -lt 3 ]; do n=$((n + 1)); [ $n = 2 ] && continue; echo $n; done",
            ],
            0,
            "1|3",
        ),
        (
            "until",
            &[
                "sh",
                "-c",
                "until cat /tmp/a; do touch /tmp/a; done; rm /tmp/a; ls /tmp",
            ],
            0,
            "cat: /tmp/a: No such file or directory",
        ),
        (
            "image",
            &["sh", "-c", "cp -n /usr/local/bin/tool /tmp && ls /tmp"],
            0,
            "tool",
        ),
        (
            "mounted",
            &["cp", "/config/none", "/tmp/a"],
            1,
            "cp: /config/none: No such file or directory",
        ),
        (
            "break",
            &["sh", "-c", "while true; do echo once; break; done; exit 4"],
            4,
            "once",
        ),
    ] {
        let id = world
            .start(name, command, |config| {
                mount(config, "/config", host.path(), true)
            })
            .await;
        assert_eq!(world.end(&id).await, (code, log.to_owned()), "{name}");
    }
    let id = world.start("date", &["date", "+%Y"], |_| {}).await;
    let (code, log) = world.end(&id).await;
    assert!(code == 0 && log.parse::<u16>().unwrap() > 2000, "{log}");
}

#[tokio::test]
async fn what_is_not_known_serves_after_what_is() {
    let mut world = World::new(Options::default()).await;
    let id = world
        .start(
            "serves",
            &["sh", "-c", "touch /tmp/ready; exec server --fast"],
            |_| {},
        )
        .await;
    world.until_exec(&id, "test -f /tmp/ready", 0).await;
    assert!(world.runtime.core.read(|state| state.is_running(&id)));
    world.until_logged(&id).await;
    world.agent.stop(&id, 1).await.unwrap();
    let (code, log) = world.end(&id).await;
    assert_eq!(
        (code, log.as_str()),
        (143, "started: sh -c touch /tmp/ready; exec server --fast")
    );

    let is_init = |config: &mut cri::ContainerConfig| {
        config.annotations.insert(
            "outrigger.kubeedge.io/container-kind".to_owned(),
            "init".to_owned(),
        );
    };
    let id = world
        .start(
            "init",
            &["sh", "-c", "touch /tmp/a; migrate && exit 3"],
            is_init,
        )
        .await;
    assert_eq!(world.end(&id).await.0, 3);
}

#[tokio::test]
async fn script_that_cannot_be_run_is_reported_and_not_printed() {
    let mut world = World::new(Options::default()).await;
    for (script, what) in [
        ("case $A in a) echo b;; esac", "case"),
        ("f() { echo a; }; f", "functions and subshells"),
        (
            "trap 'echo bye' TERM; sleep 5",
            "trap with other actions than exit",
        ),
        ("server & client", "processes in the background"),
        ("cat <<E\na\nE", "here documents"),
        ("echo ${A%b}", "this form of ${ }"),
        ("[[ a && b ]]", "in [[ ]]"),
        ("echo `echo $(`", ""),
    ] {
        let mut config = cri::ContainerConfig {
            log_path: "a.log".into(),
            ..container("a")
        };
        config.command = ["sh", "-c", script].map(str::to_owned).into();
        let container_id = world.agent.create(&world.sandbox, config).await.unwrap();
        let request = cri::StartContainerRequest {
            container_id: container_id.clone(),
        };
        let started = world.agent.runtime.start_container(request).await.unwrap();
        let warning = started
            .metadata()
            .get_bin(cri::WARNING)
            .expect(script)
            .to_bytes()
            .unwrap();
        let warning = String::from_utf8_lossy(&warning).into_owned();
        assert!(
            warning.contains("container a: cannot run its script") && warning.contains(what),
            "{warning}"
        );
        let log = world.agent.status(&container_id).await.unwrap().log_path;
        assert_eq!(fs::read_to_string(log).unwrap(), "", "{script}");
        world
            .agent
            .runtime
            .remove_container(cri::RemoveContainerRequest { container_id })
            .await
            .unwrap();
        let _ = fs::remove_file(world.dir.path().join("a.log"));
    }
}

#[tokio::test]
async fn only_mounts_can_be_written_to_if_the_root_is_read_only() {
    let mut world = World::new(Options::default()).await;
    let host = tempfile::tempdir().unwrap();
    let script = "touch /tmp/a; mkdir /b; rm /etc/hostname; touch /data/c && ls /data; echo x > /dev/null && id -G";
    let id = world
        .start("read-only", &["sh", "-c", script], |config| {
            mount(config, "/data", host.path(), false);
            let security_context = Some(cri::LinuxContainerSecurityContext {
                readonly_rootfs: true,
                supplemental_groups: vec![2000],
                ..Default::default()
            });
            config.linux = Some(cri::LinuxContainerConfig {
                security_context,
                ..Default::default()
            });
        })
        .await;
    let (code, log) = world.end(&id).await;
    assert_eq!(code, 0, "{log}");
    // The two outputs are written concurrently.
    let (errors, lines): (Vec<&str>, Vec<&str>) = log
        .split('|')
        .partition(|line| line.ends_with("Read-only file system"));
    assert_eq!((errors.len(), lines), (3, vec!["c", "0 2000"]), "{log}");
}

#[tokio::test]
async fn probes_see_what_the_containers_own_script_does() {
    let mut world = World::new(Options::default()).await;
    let script = "touch /tmp/healthy; sleep 1; rm -f /tmp/healthy; sleep 600";
    let id = world
        .start("liveness", &["/bin/sh", "-c", script], |_| {})
        .await;
    world.until_exec(&id, "cat /tmp/healthy", 0).await;
    world.until_exec(&id, "cat /tmp/healthy", 1).await;
    assert!(world.runtime.core.read(|state| state.is_running(&id)));
}

#[tokio::test]
async fn who_mounts_the_same_sees_what_is_written_there_and_the_host_does_not() {
    let mut world = World::new(Options::default()).await;
    let host = tempfile::tempdir().unwrap();
    let writes = &[
        "sh",
        "-c",
        "mkdir -p /disk/deep && echo of-a > /disk/deep/file",
    ];
    let id = world
        .start("a", writes, |config| {
            mount(config, "/disk", host.path(), false)
        })
        .await;
    assert_eq!(world.end(&id).await.0, 0);
    let reads = &[
        "sh",
        "-c",
        "cat /other/deep/file; ls /other/deep; echo no > /other/x || rm /other/deep/file",
    ];
    let id = world
        .start("b", reads, |config| {
            mount(config, "/other", host.path(), true)
        })
        .await;
    let (code, log) = world.end(&id).await;
    // The two outputs are written concurrently.
    let mut lines: Vec<&str> = log.split('|').collect();
    lines.sort_unstable();
    let refusals = [
        "rm: /other/deep/file: Read-only file system",
        "sh: can't create /other/x: Read-only file system",
    ];
    assert_eq!(
        (code, lines.as_slice()),
        (1, &["file", "of-a", refusals[0], refusals[1]][..])
    );
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0);
    // Another directory is not shared.
    let other = tempfile::tempdir().unwrap();
    let id = world
        .start("c", &["ls", "/disk"], |config| {
            mount(config, "/disk", other.path(), false)
        })
        .await;
    assert_eq!(world.end(&id).await, (0, String::new()));
}

#[tokio::test]
async fn last_words_are_written_where_the_node_reads_them() {
    let mut world = World::new(Options::default()).await;
    let directory = tempfile::tempdir().unwrap();
    let change_to = |host: &Path| {
        let host = host.to_owned();
        move |config: &mut cri::ContainerConfig| {
            mount(config, "/dev/termination-log", &host, false);
            let place = "io.kubernetes.container.terminationMessagePath".to_owned();
            config
                .annotations
                .insert(place, "/dev/termination-log".to_owned());
            config
                .labels
                .insert("io.kubernetes.pod.uid".to_owned(), "uid".to_owned());
        }
    };
    let command = &[
        "sh",
        "-c",
        "echo -n DO > /dev/termination-log; echo -n NE >> /dev/termination-log; exit 1",
    ];
    // A file that the pod itself has mounted there is not the node's termination message file.
    for (name, above, expected) in [
        ("a", "uid/containers/a", "DONE"),
        ("b", "uid/containers/a", ""),
        ("c", "c", ""),
    ] {
        let host = directory.path().join(above).join(name);
        fs::create_dir_all(host.parent().unwrap()).unwrap();
        fs::write(&host, "").unwrap();
        let id = world.start(name, command, change_to(&host)).await;
        assert_eq!(world.end(&id).await.0, 1);
        assert_eq!(fs::read_to_string(&host).unwrap(), expected, "{name}");
    }
}

#[tokio::test]
async fn the_tests_of_mounts_tell_modes_and_contents() {
    let mut world = World::new(Options::default()).await;
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("key"), "value").unwrap();
    let arguments = [
        "mounttest",
        "--file_content=/v/key",
        "--file_mode=/v/key",
        "--new_file_0666=/v/new",
        "--file_perm=/v/new",
    ];
    let change = |config: &mut cri::ContainerConfig| {
        mount(config, "/v", host.path(), false);
        config.image = Some(cri::ImageSpec {
            image: "nginx".into(),
            user_specified_image: "registry.k8s.io/e2e-test-images/agnhost:2.56".into(),
            ..Default::default()
        });
        config.args = arguments.map(str::to_owned).to_vec();
    };
    let id = world.start("a", &[], change).await;
    let expected = "content of file \"/v/new\": mount-tester new file||mode of file \"/v/key\": -rw-r--r--|perms of file \"/v/new\": -rw-rw-rw-|content of file \"/v/key\": value";
    assert_eq!(world.end(&id).await, (0, expected.to_owned()));
}

#[tokio::test]
async fn a_script_that_never_waits_is_slowed_down() {
    let mut world = World::new(Options::default()).await;
    let id = world
        .start("busy", &["sh", "-c", "while true; do echo x; done"], |_| {})
        .await;
    // Other commands are served meanwhile.
    let (code, out, _) = world.agent.exec(&id, "echo still there").await.unwrap();
    assert_eq!((code, out.as_str()), (0, "still there\n"));
    let path = world.dir.path().join("busy.log");
    let lines = || {
        fs::read_to_string(&path)
            .unwrap_or_default()
            .lines()
            .count()
    };
    eventually("900 lines", async || match lines() {
        seen if seen >= 900 => Ok(()),
        seen => Err(seen),
    })
    .await;
    world.agent.stop(&id, 1).await.unwrap();
    assert!(lines() < 20_000, "{} lines", lines());
}

#[tokio::test]
async fn a_command_begins_anew_with_the_next_runtime() {
    let root = tempfile::tempdir().unwrap();
    let options = Options {
        root: Some(root.path().into()),
        ..Options::default()
    };
    let mut world = World::new(options.clone()).await;
    let id = world
        .start("a", &["sh", "-c", "touch /tmp/there; sleep 600"], |_| {})
        .await;
    world.until_exec(&id, "test -f /tmp/there", 0).await;
    let World {
        runtime,
        agent,
        sandbox,
        dir,
    } = world;
    wait_ended(runtime, agent).await;
    let (runtime, agent) = in_process(options);
    let mut world = World {
        runtime,
        agent,
        sandbox,
        dir,
    };
    world.until_exec(&id, "test -f /tmp/there", 0).await;
}
