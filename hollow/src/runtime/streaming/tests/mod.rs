//! Tests the streaming server at the URLs that CRI returns: over SPDY with the crate's client, and over WebSockets.

use std::fs;

use spdy::{
    Headers, Role,
    session::{self, Session, Stream},
};
use testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use wire::cri::{AttachRequest, ContainerState, ExecRequest, PortForwardRequest};

use crate::runtime::{
    Options, SimRuntime,
    tests::{Agent, container, in_process, pod},
};

mod websocket;

/// A runtime with a running container `web`, and the ids of its sandbox and of the container.
struct World {
    _runtime: SimRuntime,
    agent: Agent,
    sandbox: String,
    id: String,
    dir: tempfile::TempDir,
}

async fn world(
    annotations: &[(&str, &str)],
    change: impl FnOnce(&mut wire::cri::ContainerConfig),
) -> World {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, mut agent) = in_process(Options::default());
    agent.pull("nginx").await.unwrap();
    let log_directory = dir.path().display().to_string();
    let sandbox = agent
        .run_pod(wire::cri::PodSandboxConfig {
            log_directory,
            ..pod("pod", annotations)
        })
        .await
        .unwrap();
    let mut config = wire::cri::ContainerConfig {
        log_path: "web.log".into(),
        ..container("web")
    };
    change(&mut config);
    let id = agent.create(&sandbox, config).await.unwrap();
    agent.start(&id).await.unwrap();
    World {
        _runtime: runtime,
        agent,
        sandbox,
        id,
        dir,
    }
}

fn words(text: &str) -> Vec<String> {
    shlex::split(text).unwrap()
}

impl World {
    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("web.log")).unwrap()
    }

    async fn exec_url(&mut self, command: &str, stdin: bool, tty: bool) -> String {
        let request = ExecRequest {
            container_id: self.id.clone(),
            cmd: words(command),
            tty,
            stdin,
            stdout: true,
            stderr: !tty,
        };
        self.agent
            .runtime
            .exec(request)
            .await
            .unwrap()
            .into_inner()
            .url
    }

    async fn attach_url(&mut self, tty: bool) -> String {
        let request = AttachRequest {
            container_id: self.id.clone(),
            tty,
            stdin: true,
            stdout: true,
            stderr: !tty,
        };
        self.agent
            .runtime
            .attach(request)
            .await
            .unwrap()
            .into_inner()
            .url
    }

    async fn ports_url(&mut self, port: Vec<i32>) -> String {
        let request = PortForwardRequest {
            pod_sandbox_id: self.sandbox.clone(),
            port,
        };
        self.agent
            .runtime
            .port_forward(request)
            .await
            .unwrap()
            .into_inner()
            .url
    }

    /// Runs an exec over SPDY and returns output, error output and status.
    async fn exec(
        &mut self,
        command: &str,
        input: Option<&[u8]>,
    ) -> (String, String, serde_json::Value) {
        let url = self.exec_url(command, input.is_some(), false).await;
        let mut client = Client::open(&url, input.is_some(), false).await;
        let mut stdin = client.stdin.take();
        let write = async {
            if let (Some(stdin), Some(input)) = (&mut stdin, input) {
                // A command need not read all of it.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        tokio::join!(write, client.finish()).1
    }
}

/// Sends a request to upgrade; returns the head of the answer, and the connection.
async fn upgrade(url: &str, method: &str, headers: &[(&str, &str)]) -> (String, TcpStream) {
    let (authority, path) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut stream = TcpStream::connect(authority).await.unwrap();
    let mut head =
        format!("{method} /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(
            within("the head of the answer", stream.read_u8())
                .await
                .unwrap(),
        );
    }
    (String::from_utf8(answer).unwrap(), stream)
}

async fn spdy_session(url: &str, protocol: &str) -> Session {
    let headers = [
        ("Upgrade", "SPDY/3.1"),
        ("X-Stream-Protocol-Version", protocol),
        ("Content-Length", "0"),
    ];
    let (head, stream) = upgrade(url, "POST", &headers).await;
    assert!(
        head.starts_with("HTTP/1.1 101 ") && head.to_ascii_lowercase().contains(protocol),
        "{head}"
    );
    let (session, _, driver) = session::new(stream, Role::Client);
    tokio::spawn(driver.run());
    session
}

/// A client of a remote command.
struct Client {
    error: Stream,
    stdin: Option<Stream>,
    stdout: Stream,
    stderr: Option<Stream>,
    _resize: Option<Stream>,
    _session: Session,
}

async fn text(stream: &mut Stream) -> String {
    let mut bytes = Vec::new();
    within("the end of a stream", stream.read_to_end(&mut bytes))
        .await
        .unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until `wanted` has come.
async fn until(stream: &mut Stream, wanted: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let read = within(wanted, stream.read(&mut buffer)).await.unwrap();
        assert!(read > 0, "only {:?} came", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

impl Client {
    async fn open(url: &str, stdin: bool, tty: bool) -> Self {
        let session = spdy_session(url, "v4.channel.k8s.io").await;
        let open = async |kind: &str| {
            session
                .open(Headers::new().with("streamType", kind), false)
                .await
                .unwrap()
        };
        let error = open("error").await;
        let stdin = if stdin {
            Some(open("stdin").await)
        } else {
            None
        };
        let stdout = open("stdout").await;
        let stderr = if tty {
            None
        } else {
            Some(open("stderr").await)
        };
        let resize = if tty {
            Some(open("resize").await)
        } else {
            None
        };
        Self {
            error,
            stdin,
            stdout,
            stderr,
            _resize: resize,
            _session: session,
        }
    }

    async fn send(&mut self, bytes: &str) {
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(bytes.as_bytes())
            .await
            .unwrap();
    }

    async fn finish(mut self) -> (String, String, serde_json::Value) {
        let stdout = text(&mut self.stdout).await;
        let stderr = if let Some(stderr) = &mut self.stderr {
            text(stderr).await
        } else {
            String::new()
        };
        let status = text(&mut self.error).await;
        (stdout, stderr, serde_json::from_str(&status).unwrap())
    }
}

#[tokio::test]
async fn commands_print_and_end_as_in_a_container() {
    let mut world = world(
        &[(
            "web.exec",
            r#"{"check it": {"code": 9, "stdout": "scripted"}}"#,
        )],
        |config| {
            config.envs = vec![wire::cri::KeyValue {
                key: "COLOR".into(),
                value: "blue".into(),
            }];
        },
    )
    .await;
    for (command, stdout, stderr, code) in [
        ("echo hi", "hi\n", "", 0),
        (
            "sh -c 'echo out; echo err >&2; exit 7'",
            "out\n",
            "err\n",
            7,
        ),
        (
            "sh -c 'echo $COLOR $HOSTNAME; false || echo \"$?\"'",
            "blue pod\n1\n",
            "",
            0,
        ),
        (
            "sh -c 'echo hello > /tmp/a; echo more >> /tmp/a; cat /tmp/a | wc -l'",
            "2\n",
            "",
            0,
        ),
        ("cat /tmp/a", "hello\nmore\n", "", 0),
        ("sh -c 'cd /tmp && pwd && ls'", "/tmp\na\n", "", 0),
        ("ls /none", "", "ls: /none: No such file or directory\n", 1),
        ("grep -c l /tmp/a", "1\n", "", 0),
        (
            "sh -c 'nothing; echo $?'",
            "127\n",
            "sh: nothing: not found\n",
            0,
        ),
        ("sh -c 'if true; then echo a; fi'", "a\n", "", 0),
        (
            "sh -c 'case a in a) echo;; esac'",
            "",
            "sh: syntax error: the simulated runtime does not support case\n",
            2,
        ),
        ("test -d /tmp", "", "", 0),
        ("test -d /tmp/a", "", "", 1),
        ("tty", "not a tty\n", "", 0),
        ("sleep 0.01", "", "", 0),
        ("check it", "scripted", "", 9),
    ] {
        let (out, err, status) = world.exec(command, None).await;
        let ended = match status["status"].as_str() {
            Some("Success") => 0,
            _ => status["details"]["causes"][0]["message"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap(),
        };
        assert_eq!(
            (out.as_str(), err.as_str(), ended),
            (stdout, stderr, code),
            "{command}"
        );
        let (code, out, _) = exec_sync(&mut world, command).await;
        if !command.contains(">>") {
            assert_eq!(
                (code, out.as_str()),
                (ended, stdout),
                "ExecSync of {command}"
            );
        }
    }
    let (_, _, status) = world.exec("reboot", None).await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains(r#"exec: "reboot": executable file not found in $PATH"#),
        "{message}"
    );
    assert_eq!(
        (&status["reason"], &status["code"]),
        (&"InternalError".into(), &500.into())
    );
}

async fn exec_sync(world: &mut World, command: &str) -> (i32, String, String) {
    let request = wire::cri::ExecSyncRequest {
        container_id: world.id.clone(),
        cmd: words(command),
        timeout: 60,
    };
    let answer = world
        .agent
        .runtime
        .exec_sync(request)
        .await
        .unwrap()
        .into_inner();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (answer.exit_code, text(&answer.stdout), text(&answer.stderr))
}

#[tokio::test]
async fn input_reaches_a_command_to_its_end() {
    let mut world = world(&[], |_| {}).await;
    let large: String = (0..100_000).map(|number| format!("{number}\n")).collect();
    let (out, _, status) = world.exec("cat", Some(large.as_bytes())).await;
    assert!(out == large && status["status"] == "Success");
    assert_eq!(
        world.exec("wc -c", Some(large.as_bytes())).await.0,
        format!("{}\n", large.len())
    );
    let (out, err, status) = world.exec("sh", Some(b"A=1\necho a$A\ncat\nrest\n")).await;
    assert_eq!(
        (out.as_str(), err.as_str(), &status["status"]),
        ("a1\nrest\n", "", &"Success".into())
    );
    let (_, err, status) = world.exec("sh", Some(b"exit 3\necho no\n")).await;
    assert_eq!(
        (err.as_str(), &status["details"]["causes"][0]["message"]),
        ("", &"3".into())
    );
}

#[tokio::test]
async fn files_go_in_and_out_as_with_kubectl_cp() {
    let mut world = world(&[], |_| {}).await;
    let (_, _, status) = world.exec("mkdir -p /data/in", None).await;
    assert_eq!(status["status"], "Success");
    let (_, _, status) = world
        .exec(
            "sh -c 'echo one > /data/in/a; printf two > /data/in/b'",
            None,
        )
        .await;
    assert_eq!(status["status"], "Success");
    let (archive, _, status) = world.exec("tar cf - /data/in", None).await;
    assert_eq!(
        (&status["status"], archive.len() % 512),
        (&"Success".into(), 0)
    );
    let (_, err, status) = world
        .exec("tar -xmf - -C /tmp", Some(archive.as_bytes()))
        .await;
    assert_eq!((err.as_str(), &status["status"]), ("", &"Success".into()));
    assert_eq!(
        world
            .exec("sh -c 'cat /tmp/data/in/a /tmp/data/in/b'", None)
            .await
            .0,
        "one\ntwo"
    );
    let resumed = world
        .exec("sh -c \"tar cf - '/data/in' | tail -c+513\"", None)
        .await
        .0;
    assert_eq!(resumed.len(), archive.len() - 512);
    let (_, err, status) = world
        .exec("tar -xf - -C /tmp", Some(&archive.as_bytes()[..700]))
        .await;
    assert_eq!(
        (err.as_str(), &status["status"]),
        ("tar: short read\n", &"Failure".into())
    );
}

#[tokio::test]
async fn a_terminal_shows_what_is_typed_and_knows_its_keys() {
    let mut world = world(&[], |_| {}).await;
    let url = world.exec_url("sh", true, true).await;
    let mut client = Client::open(&url, true, true).await;
    until(&mut client.stdout, "/ # ").await;
    client.send("echo hi\x7f\x7fho\r").await;
    let seen = until(&mut client.stdout, "ho\r\n/ # ").await;
    assert!(
        seen.starts_with("echo hi\x08 \x08\x08 \x08ho\r\n"),
        "{seen:?}"
    );
    client.send("sleep 3600\r").await;
    until(&mut client.stdout, "sleep 3600\r\n").await;
    client.send("\x03").await;
    until(&mut client.stdout, "/ # ").await;
    client.send("echo $?\r").await;
    until(&mut client.stdout, "130\r\n/ # ").await;
    client.send("echo \"a\r").await;
    until(&mut client.stdout, "> ").await;
    client.send("\x03").await;
    until(&mut client.stdout, "/ # ").await;
    client.send("false\r").await;
    until(&mut client.stdout, "/ # ").await;
    client.send("\x04").await;
    let (_, _, status) = client.finish().await;
    assert_eq!(
        status["details"]["causes"][0]["message"], "1",
        "the last command's code"
    );

    let url = world.exec_url("sleep 3600", true, true).await;
    let mut client = Client::open(&url, true, true).await;
    client.send("\x03").await;
    let (seen, _, status) = client.finish().await;
    assert_eq!(
        (seen.as_str(), &status["details"]["causes"][0]["message"]),
        ("^C\r\n", &"130".into())
    );
}

#[tokio::test]
async fn a_command_ends_with_its_container() {
    let mut world = world(&[], |_| {}).await;
    let url = world.exec_url("cat", true, false).await;
    let mut client = Client::open(&url, true, false).await;
    client.send("here").await;
    until(&mut client.stdout, "here").await;
    let id = world.id.clone();
    world.agent.stop(&id, 30).await.unwrap();
    assert_eq!(
        client.finish().await.2["details"]["causes"][0]["message"],
        "137"
    );
}

#[tokio::test]
async fn attached_one_sees_what_a_container_logs_and_its_end() {
    let command = "echo early; sleep 1; echo late; sleep 0.2; exit 5";
    let mut world = world(&[], |config| {
        config.command = vec!["sh".into(), "-c".into(), command.into()]
    })
    .await;
    let url = world.attach_url(false).await;
    let client = Client::open(&url, true, false).await;
    let (out, _, status) = client.finish().await;
    assert_eq!(
        (out.as_str(), &status["status"]),
        ("late\n", &"Success".into())
    );
    assert_eq!(world.log().lines().count(), 2);
}

#[tokio::test]
async fn a_container_that_is_a_shell_is_typed_at_and_ends_with_it() {
    let mut world = world(&[], |config| {
        (config.stdin, config.stdin_once, config.tty) = (true, true, true);
        config.command = vec!["sh".into()];
    })
    .await;
    let url = world.attach_url(true).await;
    let mut client = Client::open(&url, true, true).await;
    until(&mut client.stdout, "/ # ").await;
    client.send("echo hi\r").await;
    until(&mut client.stdout, "hi\r\n/ # ").await;
    client.send("exit 3\r").await;
    assert_eq!(client.finish().await.2["status"], "Success");
    let id = world.id.clone();
    let status = world.agent.status(&id).await.unwrap();
    assert_eq!(
        (status.state(), status.exit_code),
        (ContainerState::ContainerExited, 3)
    );
    assert!(world.log().contains(" stdout F hi\n"), "{}", world.log());
}

#[tokio::test]
async fn a_container_that_copies_its_input_ends_with_the_first_input() {
    let mut world = world(&[], |config| {
        (config.stdin, config.stdin_once) = (true, true);
        config.command = vec!["cat".into()];
    })
    .await;
    let url = world.attach_url(false).await;
    let mut client = Client::open(&url, true, false).await;
    client.send("a\nb").await;
    client.stdin.as_mut().unwrap().shutdown().await.unwrap();
    let (out, _, _) = client.finish().await;
    assert_eq!(out, "a\nb");
    let id = world.id.clone();
    assert_eq!(world.agent.status(&id).await.unwrap().reason, "Completed");
    assert!(
        world.log().contains(" stdout F a\n") && world.log().contains(" stdout P b\n"),
        "{}",
        world.log()
    );
}

#[tokio::test]
async fn a_first_stream_without_a_number_ends_nothing() {
    let mut world = world(&[("web.ports", "8080")], |_| {}).await;
    let url = world.ports_url(Vec::new()).await;
    let session = spdy_session(&url, "portforward.k8s.io").await;
    let data = Headers::new()
        .with("streamtype", "data")
        .with("port", "8080");
    let _data = session.open(data, false).await.unwrap();
    session.ping().await.unwrap();
}

#[tokio::test]
async fn ports_are_forwarded_and_refused() {
    let mut world = world(
        &[
            ("web.ports", "8080"),
            ("web.http", r#"{"/": {"body": "hello"}}"#),
        ],
        |_| {},
    )
    .await;
    let url = world.ports_url(Vec::new()).await;
    let session = spdy_session(&url, "portforward.k8s.io").await;
    let open = async |kind: &str, port: &str, id: &str| {
        let headers = Headers::new()
            .with("streamtype", kind)
            .with("port", port)
            .with("requestid", id);
        session.open(headers, kind == "error").await.unwrap()
    };
    let mut error = open("error", "8080", "0").await;
    let mut data = open("data", "8080", "0").await;
    data.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let answer = text(&mut data).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\r\nhello\r\n"),
        "{answer}"
    );
    assert_eq!(text(&mut error).await, "");
    let (mut error, _data) = (
        open("error", "81", "1").await,
        open("data", "81", "1").await,
    );
    let why = text(&mut error).await;
    assert!(
        why.contains("dial tcp4 127.0.0.1:81: connect: connection refused"),
        "{why}"
    );
    let bad = Headers::new().with("streamtype", "data").with("port", "0");
    assert!(session.open(bad, false).await.is_err());
}

/// kubectl opens the two streams of each connection at once, however many connections there are.
#[tokio::test]
async fn burst_of_connections_is_forwarded_and_none_is_refused() {
    let mut world = world(&[("web.http", r#"{"/": {"body": "hello"}}"#)], |_| {}).await;
    let url = world.ports_url(Vec::new()).await;
    let session = spdy_session(&url, "portforward.k8s.io").await;
    let connections = (0..150).map(|number: usize| {
        let session = session.clone();
        tokio::spawn(async move {
            let headers = |kind: &str| {
                let headers = Headers::new().with("streamtype", kind).with("port", "80");
                headers.with("requestid", number.to_string())
            };
            let mut error = session.open(headers("error"), true).await.unwrap();
            let mut data = session.open(headers("data"), false).await.unwrap();
            data.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .await
                .unwrap();
            (text(&mut data).await, text(&mut error).await)
        })
    });
    for connection in connections.collect::<Vec<_>>() {
        let (answer, error) = within("a connection", connection).await.unwrap();
        assert!(
            answer.contains("\r\nhello\r\n") && error.is_empty(),
            "{answer} {error}"
        );
    }
}

#[tokio::test]
async fn requests_that_are_none_are_refused() {
    let mut world = world(&[], |_| {}).await;
    let spdy = [
        ("Upgrade", "SPDY/3.1"),
        ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
    ];
    let url = world.exec_url("true", false, false).await;
    assert!(
        upgrade(&url, "POST", &spdy)
            .await
            .0
            .starts_with("HTTP/1.1 101 ")
    );
    assert!(
        upgrade(&url, "POST", &spdy)
            .await
            .0
            .starts_with("HTTP/1.1 404 "),
        "a token is good once"
    );
    let url = world.exec_url("true", false, false).await;
    let other = url.replace("/exec/", "/attach/");
    assert!(
        upgrade(&other, "POST", &spdy)
            .await
            .0
            .starts_with("HTTP/1.1 404 ")
    );
    for (headers, status) in [
        (vec![], "400"),
        (vec![("Upgrade", "SPDY/3.1")], "400"),
        (
            vec![
                ("Upgrade", "SPDY/3.1"),
                ("X-Stream-Protocol-Version", "v9.channel.k8s.io"),
            ],
            "403",
        ),
        (vec![("Upgrade", "websocket")], "400"),
        (
            vec![
                ("Upgrade", "websocket"),
                ("Sec-WebSocket-Key", "a"),
                ("Sec-WebSocket-Protocol", "chat"),
            ],
            "403",
        ),
    ] {
        let url = world.exec_url("true", false, false).await;
        let head = upgrade(&url, "GET", &headers).await.0;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{headers:?}: {head}"
        );
    }
    let id = world.id.clone();
    world.agent.stop(&id, 30).await.unwrap();
    let request = ExecRequest {
        container_id: id,
        cmd: words("true"),
        stdout: true,
        ..ExecRequest::default()
    };
    let refused = world.agent.runtime.exec(request).await.unwrap_err();
    assert!(
        refused.message().contains("is in CONTAINER_EXITED state"),
        "{refused}"
    );
}

#[tokio::test]
async fn hostile_input_is_bounded() {
    let mut world = world(&[], |_| {}).await;
    let bomb =
        "sh -c \"A=xxxxxxxxxxxxxxxx; ".to_owned() + &"A=\\$A\\$A; ".repeat(1000) + "echo \\$A\"";
    let (out, err, status) = world.exec(&bomb, None).await;
    assert!(
        out.is_empty() && err.contains("argument list too long") && status["status"] == "Failure"
    );
    let (_, err, _) = world.exec("sh -c 'echo \"unfinished'", None).await;
    assert!(err.contains("unterminated quoted string"), "{err}");
    // Scripts are nested in scripts.
    let commands = "echo x | cat;".repeat(1000);
    let nested = format!(
        "export A='{commands}'; export B='sh -c \"$A\";sh -c \"$A\";sh -c \"$A\";sh -c \"$A\"'; sh -c \"$B\"; sh -c \"$B\""
    );
    let quoted = shlex::try_quote(&nested).unwrap();
    let (out, _, _) = world.exec(&format!("sh -c {quoted}"), None).await;
    assert!(
        out.lines().count() <= 10_000,
        "{} lines",
        out.lines().count()
    );
    let full = "cat > /tmp/large";
    let (_, err, _) = world
        .exec(&format!("sh -c '{full}'"), Some(&vec![b'x'; 2 << 20]))
        .await;
    assert!(err.contains("No space left on device"), "{err}");
    let (_, err, _) = world.exec("sort", Some(&vec![b'x'; 5 << 20])).await;
    assert!(err.contains("more than 4 MiB of input"), "{err}");
    let many = "echo x\n".repeat(100_000);
    let (out, _, status) = world.exec("sh", Some(many.as_bytes())).await;
    assert!(out.len() == 200_000 && status["status"] == "Success");
    let (out, _, _) = world.exec("sh", Some(&vec![b'\''; 100_000])).await;
    assert_eq!(out, "");
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_command_with_it() {
    let (runtime, mut agent) = in_process(Options::default());
    let (_, id) = agent.running(&[]).await;
    let request = ExecRequest {
        container_id: id,
        cmd: words("sh -c 'cat; cat'"),
        stdin: true,
        stdout: true,
        ..ExecRequest::default()
    };
    let url = agent.runtime.exec(request).await.unwrap().into_inner().url;
    let session = spdy_session(&url, "v4.channel.k8s.io").await;
    drop(session);
    // No leftover of the session keeps the runtime alive.
    let core = std::sync::Arc::downgrade(&runtime.core);
    drop((runtime, agent));
    testkit::until("the end of whatever holds the runtime", || {
        core.strong_count() == 0
    })
    .await;
}
