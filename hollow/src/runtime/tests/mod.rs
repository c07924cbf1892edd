//! Tests the runtime as an agent sees it, over both kinds of connection.

use std::{collections::BTreeMap, fs, path::Path};

use edged::RuntimeChannel;
use futures::StreamExt;
use hyper_util::rt::TokioIo;
use testkit::{until, within};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, transport::Endpoint};
use tower::service_fn;
use wire::cri::{
    self, ContainerEventType as Event, ContainerState, image_service_client::ImageServiceClient,
    runtime_service_client::RuntimeServiceClient,
};

use super::*;

mod own_command;

/// A client of both services, with short calls for the tests.
pub(super) struct Agent {
    pub(super) runtime: RuntimeServiceClient<RuntimeChannel>,
    images: ImageServiceClient<RuntimeChannel>,
}

impl Agent {
    fn new(channel: RuntimeChannel) -> Self {
        Self {
            runtime: RuntimeServiceClient::new(channel.clone()),
            images: ImageServiceClient::new(channel),
        }
    }

    pub(super) async fn pull(&mut self, image: &str) -> Result<String, Status> {
        let image = Some(cri::ImageSpec {
            image: image.into(),
            ..Default::default()
        });
        let request = cri::PullImageRequest {
            image,
            ..Default::default()
        };
        Ok(self
            .images
            .pull_image(request)
            .await?
            .into_inner()
            .image_ref)
    }

    pub(super) async fn run_pod(
        &mut self,
        config: cri::PodSandboxConfig,
    ) -> Result<String, Status> {
        let request = cri::RunPodSandboxRequest {
            config: Some(config),
            ..Default::default()
        };
        Ok(self
            .runtime
            .run_pod_sandbox(request)
            .await?
            .into_inner()
            .pod_sandbox_id)
    }

    pub(super) async fn create(
        &mut self,
        sandbox: &str,
        config: cri::ContainerConfig,
    ) -> Result<String, Status> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.into(),
            config: Some(config),
            sandbox_config: None,
        };
        Ok(self
            .runtime
            .create_container(request)
            .await?
            .into_inner()
            .container_id)
    }

    pub(super) async fn start(&mut self, id: &str) -> Result<(), Status> {
        self.runtime
            .start_container(cri::StartContainerRequest {
                container_id: id.into(),
            })
            .await
            .map(|_| ())
    }

    pub(super) async fn stop(&mut self, id: &str, timeout: i64) -> Result<(), Status> {
        let request = cri::StopContainerRequest {
            container_id: id.into(),
            timeout,
        };
        self.runtime.stop_container(request).await.map(|_| ())
    }

    pub(super) async fn status(&mut self, id: &str) -> Result<cri::ContainerStatus, Status> {
        let request = cri::ContainerStatusRequest {
            container_id: id.into(),
            verbose: false,
        };
        Ok(self
            .runtime
            .container_status(request)
            .await?
            .into_inner()
            .status
            .unwrap())
    }

    pub(super) async fn exec(
        &mut self,
        id: &str,
        command: &str,
    ) -> Result<(i32, String, String), Status> {
        let cmd = command.split(' ').map(str::to_owned).collect();
        let request = cri::ExecSyncRequest {
            container_id: id.into(),
            cmd,
            timeout: 1,
        };
        let answer = self.runtime.exec_sync(request).await?.into_inner();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok((answer.exit_code, text(&answer.stdout), text(&answer.stderr)))
    }

    async fn remove_pod(&mut self, id: &str) -> Result<(), Status> {
        let request = cri::RemovePodSandboxRequest {
            pod_sandbox_id: id.into(),
        };
        self.runtime.remove_pod_sandbox(request).await.map(|_| ())
    }

    /// Runs a pod `pod` with a running container `web`, and returns the ids of both.
    pub(super) async fn running(&mut self, annotations: &[(&str, &str)]) -> (String, String) {
        self.pull("nginx").await.unwrap();
        let sandbox = self.run_pod(pod("pod", annotations)).await.unwrap();
        let container = self.create(&sandbox, container("web")).await.unwrap();
        self.start(&container).await.unwrap();
        (sandbox, container)
    }
}

pub(super) fn pod(name: &str, annotations: &[(&str, &str)]) -> cri::PodSandboxConfig {
    let metadata = cri::PodSandboxMetadata {
        name: name.into(),
        uid: format!("uid-{name}"),
        namespace: "default".into(),
        attempt: 0,
    };
    let annotation =
        |(key, value): &(&str, &str)| (format!("sim.outrigger.dev/{key}"), (*value).to_owned());
    cri::PodSandboxConfig {
        metadata: Some(metadata),
        hostname: name.into(),
        annotations: annotations.iter().map(annotation).collect(),
        ..Default::default()
    }
}

pub(super) fn container(name: &str) -> cri::ContainerConfig {
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: name.into(),
            attempt: 0,
        }),
        image: Some(cri::ImageSpec {
            image: "nginx".into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(super) fn in_process(options: Options) -> (SimRuntime, Agent) {
    let runtime = SimRuntime::new(options).unwrap();
    let agent = Agent::new(runtime.channel());
    (runtime, agent)
}

fn unix_channel(path: &Path) -> RuntimeChannel {
    let path = path.to_owned();
    let connect = service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://unix.invalid")
        .connect_with_connector_lazy(connect)
        .into()
}

/// Drops the last handles and waits until nothing of the runtime is left.
async fn wait_ended(runtime: SimRuntime, agent: Agent) {
    let core = Arc::downgrade(&runtime.core);
    drop((runtime, agent));
    until("the end of whatever holds the runtime", || {
        core.strong_count() == 0
    })
    .await;
}

/// Checks a pod's whole life: events, mounts, environment, logs, end.
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn whole_life(mut agent: Agent, dir: &Path) {
    let host = |name: &str| dir.join(name).display().to_string();
    fs::create_dir_all(host("logs/web")).unwrap();
    fs::write(host("key"), "value").unwrap();
    let mut events = agent
        .runtime
        .get_container_events(cri::GetEventsRequest {})
        .await
        .unwrap()
        .into_inner();

    let image_ref = agent.pull("nginx").await.unwrap();
    let config = cri::PodSandboxConfig {
        log_directory: host("logs"),
        ..pod("pod", &[("web.log-lines", "one\ntwo")])
    };
    let sandbox = agent.run_pod(config).await.unwrap();
    let config = cri::ContainerConfig {
        command: vec!["serve".into(), "--fast".into()],
        envs: vec![cri::KeyValue {
            key: "COLOR".into(),
            value: "blue".into(),
        }],
        mounts: vec![cri::Mount {
            container_path: "/etc/key".into(),
            host_path: host("key"),
            ..Default::default()
        }],
        log_path: "web/0.log".into(),
        ..container("web")
    };
    let id = agent.create(&sandbox, config).await.unwrap();
    assert_eq!(
        agent.exec(&id, "true").await.unwrap_err().code(),
        Code::Unknown
    );
    agent.start(&id).await.unwrap();
    let status = agent.status(&id).await.unwrap();
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    assert_eq!(status.image_id, image_ref);
    assert!(status.created_at > 0 && status.started_at >= status.created_at);

    for (command, code, stdout) in [
        ("true", 0, ""),
        ("false", 1, ""),
        ("echo a b", 0, "a b\n"),
        ("/bin/hostname", 0, "pod\n"),
        ("env", 0, "HOSTNAME=pod\nCOLOR=blue\n"),
        ("cat /etc/key", 0, "value"),
        ("cat /etc/passwd", 1, ""),
    ] {
        let answer = agent.exec(&id, command).await.unwrap();
        assert_eq!((answer.0, answer.1.as_str()), (code, stdout), "{command}");
    }
    assert!(
        agent
            .exec(&id, "reboot")
            .await
            .unwrap_err()
            .message()
            .contains("executable file not found")
    );
    let log = fs::read_to_string(&status.log_path).unwrap();
    let lines: Vec<_> = log
        .lines()
        .map(|line| line.split_once(" stdout F ").unwrap().1)
        .collect();
    assert_eq!(lines, ["started: serve --fast", "one", "two"]);

    agent.stop(&id, 30).await.unwrap();
    agent.remove_pod(&sandbox).await.unwrap();
    agent.remove_pod(&sandbox).await.unwrap();
    assert_eq!(agent.status(&id).await.unwrap_err().code(), Code::NotFound);
    let mut seen = Vec::new();
    while seen.len() < 8 {
        let event = events.next().await.unwrap().unwrap();
        assert_eq!(
            event
                .pod_sandbox_status
                .as_ref()
                .unwrap()
                .metadata
                .as_ref()
                .unwrap()
                .uid,
            "uid-pod"
        );
        seen.push((event.container_event_type(), event.container_id == id));
    }
    use Event::{ContainerCreatedEvent as Created, ContainerDeletedEvent as Deleted};
    use Event::{ContainerStartedEvent as Started, ContainerStoppedEvent as Stopped};
    let (own, of_sandbox) = (true, false);
    assert_eq!(
        seen[..4],
        [
            (Created, of_sandbox),
            (Started, of_sandbox),
            (Created, own),
            (Started, own)
        ]
    );
    assert_eq!(
        seen[4..],
        [
            (Stopped, own),
            (Stopped, of_sandbox),
            (Deleted, own),
            (Deleted, of_sandbox)
        ]
    );
}

#[tokio::test]
async fn a_whole_life_in_process() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, agent) = in_process(Options::default());
    whole_life(agent, dir.path()).await;
    assert_eq!(
        (
            runtime.calls("RunPodSandbox"),
            runtime.calls("StopContainer")
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn a_whole_life_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/sim.sock");
    let runtime = SimRuntime::new(Options::default()).unwrap();
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(runtime.serve_unix(&socket, shutdown.clone()).unwrap());
    let other = SimRuntime::new(Options::default()).unwrap();
    assert!(matches!(
        other.serve_unix(&socket, shutdown.clone()),
        Err(Error::Bind { .. })
    ));

    let mut agent = Agent::new(unix_channel(&socket));
    let mut events = agent
        .runtime
        .get_container_events(cri::GetEventsRequest {})
        .await
        .unwrap()
        .into_inner();
    whole_life(agent, dir.path()).await;
    shutdown.cancel();
    // Neither the open stream nor the idle connection keeps the server running.
    while events.next().await.is_some_and(|event| event.is_ok()) {}
    serving.await.unwrap().unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_socket_left_behind_is_replaced_and_another_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (stale, file) = (dir.path().join("stale.sock"), dir.path().join("file"));
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    fs::write(&file, "mine").unwrap();
    let runtime = SimRuntime::new(Options::default()).unwrap();
    assert!(runtime.serve_unix(&stale, CancellationToken::new()).is_ok());
    assert!(runtime.serve_unix(&file, CancellationToken::new()).is_err());
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[tokio::test]
async fn the_clock_ends_containers_and_stop_waits_for_the_end() {
    let (_runtime, mut agent) = in_process(Options::default());
    let mut events = agent
        .runtime
        .get_container_events(cri::GetEventsRequest {})
        .await
        .unwrap()
        .into_inner();
    let annotations = [
        ("web.exit-after", "5ms"),
        ("web.exit-code", "3"),
        ("slow.stop-time", "5ms"),
    ];
    let (sandbox, id) = agent.running(&annotations).await;
    while events.next().await.unwrap().unwrap().container_event_type()
        != Event::ContainerStoppedEvent
    {}
    assert_eq!(agent.status(&id).await.unwrap().exit_code, 3);
    let slow = agent.create(&sandbox, container("slow")).await.unwrap();
    agent.start(&slow).await.unwrap();
    agent.stop(&slow, 30).await.unwrap();
    let status = agent.status(&slow).await.unwrap();
    assert_eq!(
        (status.state(), status.exit_code),
        (ContainerState::ContainerExited, 0)
    );
    assert!(status.finished_at - status.started_at >= 5_000_000);
}

#[tokio::test]
async fn faults_crashes_and_bad_images() {
    let (runtime, mut agent) = in_process(Options::default());
    runtime.fail_next("RunPodSandbox", Status::unavailable("no network yet"));
    let refused = agent.run_pod(pod("pod", &[])).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::Unavailable, "no network yet")
    );
    let (sandbox, id) = agent
        .running(&[("bad.start-error", "no such device")])
        .await;
    assert_eq!(runtime.calls("RunPodSandbox"), 2);

    assert_eq!(
        runtime.container_ids_of("uid-pod"),
        std::slice::from_ref(&id)
    );
    assert!(runtime.crash_container(&id, 139) && !runtime.crash_container(&id, 1));
    assert_eq!(agent.status(&id).await.unwrap().exit_code, 139);

    let bad = agent.create(&sandbox, container("bad")).await.unwrap();
    assert!(
        agent
            .start(&bad)
            .await
            .unwrap_err()
            .message()
            .contains("no such device")
    );
    assert_eq!(agent.status(&bad).await.unwrap().reason, "StartError");

    for (image, code) in [
        ("absent.sim/a", Code::NotFound),
        ("denied.sim/a", Code::Unknown),
        ("No Image", Code::InvalidArgument),
        ("", Code::InvalidArgument),
    ] {
        assert_eq!(agent.pull(image).await.unwrap_err().code(), code, "{image}");
    }
    agent.pull("slow-5ms.sim/a").await.unwrap();
    let images = agent
        .images
        .list_images(cri::ListImagesRequest::default())
        .await
        .unwrap()
        .into_inner()
        .images;
    assert_eq!(images.len(), 2);
}

#[tokio::test]
async fn commands_can_have_answers_that_take_too_long() {
    let (_runtime, mut agent) = in_process(Options::default());
    let answers = r#"{"check": {"code": 2, "stderr": "not yet"}, "hang": {"delay": "1h"}}"#;
    let (_, id) = agent.running(&[("web.exec", answers)]).await;
    assert_eq!(
        agent.exec(&id, "check").await.unwrap(),
        (2, String::new(), "not yet".into())
    );
    assert_eq!(
        agent.exec(&id, "hang").await.unwrap_err().code(),
        Code::DeadlineExceeded
    );
}

#[tokio::test]
async fn a_log_that_cannot_be_written_fails_the_start() {
    let (_runtime, mut agent) = in_process(Options::default());
    agent.pull("nginx").await.unwrap();
    let config = cri::PodSandboxConfig {
        log_directory: "/nonexistent/logs".into(),
        ..pod("pod", &[])
    };
    let sandbox = agent.run_pod(config).await.unwrap();
    let logged = |name: &str, log: &str| cri::ContainerConfig {
        log_path: log.into(),
        ..container(name)
    };
    let escaping = agent
        .create(&sandbox, logged("a", "../0.log"))
        .await
        .unwrap_err();
    assert_eq!(escaping.code(), Code::InvalidArgument);
    let id = agent.create(&sandbox, logged("b", "0.log")).await.unwrap();
    assert!(
        agent
            .start(&id)
            .await
            .unwrap_err()
            .message()
            .contains("failed to open log file")
    );
}

#[tokio::test]
async fn a_slow_reader_of_events_is_cut_off() {
    let (_runtime, mut agent) = in_process(Options {
        event_buffer: 1,
        ..Options::default()
    });
    let mut events = agent
        .runtime
        .get_container_events(cri::GetEventsRequest {})
        .await
        .unwrap()
        .into_inner();
    // Two events come at once: more than the queue holds before the stream can take one.
    agent.run_pod(pod("pod", &[])).await.unwrap();
    assert_eq!(
        events.next().await.unwrap().unwrap().container_event_type(),
        Event::ContainerCreatedEvent
    );
    let cut = events.next().await.unwrap().unwrap_err();
    assert_eq!(cut.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn the_next_runtime_goes_on_with_what_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        root: Some(dir.path().into()),
        ..Options::default()
    };
    let (runtime, mut agent) = in_process(options.clone());
    let (sandbox, web) = agent.running(&[("job.exit-after", "20ms")]).await;
    let job = agent.create(&sandbox, container("job")).await.unwrap();
    agent.start(&job).await.unwrap();
    let gone = agent.run_pod(pod("gone", &[])).await.unwrap();
    agent.remove_pod(&gone).await.unwrap();
    let before = agent.status(&web).await.unwrap();
    wait_ended(runtime, agent).await;

    let (next, mut agent) = in_process(options.clone());
    assert_eq!(agent.status(&web).await.unwrap(), before);
    assert_eq!(next.containers().len(), 2);
    let sandboxes = agent
        .runtime
        .list_pod_sandbox(cri::ListPodSandboxRequest::default())
        .await
        .unwrap();
    assert_eq!(sandboxes.into_inner().items.len(), 1);
    // Its end comes now, or has come while no runtime was there.
    agent
        .runtime
        .stop_container(cri::StopContainerRequest {
            container_id: job.clone(),
            timeout: 3600,
        })
        .await
        .unwrap();
    assert_eq!(agent.status(&job).await.unwrap().exit_code, 0);
    // Neither the name nor the address is given twice, and the image is still present.
    assert_eq!(
        agent.run_pod(pod("pod", &[])).await.unwrap_err().code(),
        Code::Unknown
    );
    let other = agent.run_pod(pod("other", &[])).await.unwrap();
    agent.create(&other, container("web")).await.unwrap();
    let mut addresses = BTreeMap::new();
    for id in [&sandbox, &other] {
        let request = cri::PodSandboxStatusRequest {
            pod_sandbox_id: id.clone(),
            verbose: false,
        };
        let answer = agent
            .runtime
            .pod_sandbox_status(request)
            .await
            .unwrap()
            .into_inner();
        addresses.insert(
            answer.status.unwrap().network.unwrap().ip,
            answer.containers_statuses.len(),
        );
    }
    assert_eq!(addresses.into_values().collect::<Vec<_>>(), [2, 1]);
    drop((next, agent));

    // a power cut leaves what was not synced without its bytes
    let record = dir.path().join("sandboxes").join(format!("{other}.json"));
    fs::write(&record, "{").unwrap();
    fs::write(dir.path().join("images.json"), "").unwrap();
    let (_damaged, mut agent) = in_process(options);
    let sandboxes = agent
        .runtime
        .list_pod_sandbox(cri::ListPodSandboxRequest::default())
        .await
        .unwrap();
    let left: Vec<_> = sandboxes
        .into_inner()
        .items
        .into_iter()
        .map(|sandbox| sandbox.id)
        .collect();
    assert_eq!(left, [sandbox]);
    assert!(!record.exists() && record.with_extension("damaged").exists());
    agent.pull("nginx").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_pods_from_ten_clients() {
    let runtime = SimRuntime::new(Options::default()).unwrap();
    let mut agent = Agent::new(runtime.channel());
    agent.pull("nginx").await.unwrap();
    let clients = (0..10).map(|client| {
        let mut agent = Agent::new(runtime.channel());
        tokio::spawn(async move {
            for n in 0..100 {
                let sandbox = agent
                    .run_pod(pod(&format!("pod-{client}-{n}"), &[]))
                    .await
                    .unwrap();
                let id = agent.create(&sandbox, container("web")).await.unwrap();
                agent.start(&id).await.unwrap();
                if n % 2 == 0 {
                    agent.stop(&id, 30).await.unwrap();
                    agent.remove_pod(&sandbox).await.unwrap();
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(
        (runtime.containers().len(), runtime.calls("StartContainer")),
        (500, 1000)
    );
    wait_ended(runtime, agent).await;
}

#[tokio::test]
async fn what_the_node_wants_to_know() {
    let (_runtime, mut agent) = in_process(Options::default());
    let (sandbox, id) = agent.running(&[]).await;
    let version = agent
        .runtime
        .version(cri::VersionRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (
            version.runtime_name.as_str(),
            version.runtime_api_version.as_str()
        ),
        ("outrigger-sim", "v1")
    );
    let status = agent
        .runtime
        .status(cri::StatusRequest::default())
        .await
        .unwrap()
        .into_inner()
        .status
        .unwrap();
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .map(|c| (c.r#type.as_str(), c.status))
        .collect();
    assert_eq!(conditions, [("RuntimeReady", true), ("NetworkReady", true)]);
    let stats = agent
        .runtime
        .list_pod_sandbox_stats(cri::ListPodSandboxStatsRequest::default())
        .await
        .unwrap();
    let stats = stats.into_inner().stats.remove(0);
    assert_eq!(stats.attributes.unwrap().id, sandbox);
    assert!(stats.linux.unwrap().containers[0].memory.is_some());
    let limits = cri::LinuxContainerResources {
        cpu_shares: 512,
        ..Default::default()
    };
    let update = cri::UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(limits.clone()),
        ..Default::default()
    };
    agent
        .runtime
        .update_container_resources(update)
        .await
        .unwrap();
    assert_eq!(
        agent.status(&id).await.unwrap().resources.unwrap().linux,
        Some(limits)
    );
    let attach = cri::AttachRequest {
        container_id: id,
        ..Default::default()
    };
    assert_eq!(
        agent.runtime.attach(attach).await.unwrap_err().code(),
        Code::InvalidArgument,
        "no streams"
    );
}

#[tokio::test]
async fn a_container_ends_and_logs_as_its_command_says() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, mut agent) = in_process(Options::default());
    agent.pull("nginx").await.unwrap();
    let logs = dir.path().display().to_string();
    let sandbox = agent
        .run_pod(cri::PodSandboxConfig {
            log_directory: logs,
            ..pod("pod", &[])
        })
        .await
        .unwrap();
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let init = BTreeMap::from([(
        "outrigger.kubeedge.io/container-kind".to_owned(),
        "init".to_owned(),
    )]);
    for (name, command, annotations, code, log) in [
        ("a", vec!["echo", "hi"], BTreeMap::new(), 0, vec!["hi"]),
        (
            "b",
            vec!["sh", "-c", "echo one; sleep 0.2; echo two; exit 3"],
            BTreeMap::new(),
            3,
            vec!["one", "two"],
        ),
        ("c", vec!["migrate"], init, 0, vec!["started: migrate"]),
    ] {
        let config = cri::ContainerConfig {
            command: words(&command),
            log_path: format!("{name}.log"),
            annotations,
            ..container(name)
        };
        let id = agent.create(&sandbox, config).await.unwrap();
        agent.start(&id).await.unwrap();
        within(&format!("the end of {name}"), runtime.core.until_ended(&id)).await;
        let status = agent.status(&id).await.unwrap();
        assert_eq!(
            (status.state(), status.exit_code),
            (ContainerState::ContainerExited, code),
            "{name}"
        );
        let text = fs::read_to_string(&status.log_path).unwrap();
        let lines: Vec<_> = text
            .lines()
            .map(|line| line.split_once(" stdout F ").unwrap().1)
            .collect();
        assert_eq!(lines, log, "{name}");
    }
}
