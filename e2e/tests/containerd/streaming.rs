//! Logs, commands and ports of real containers through the stream tunnel, from a cloud's end of it that this test plays.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

use anyhow::{Context, ensure};
use e2e::{
    NODE,
    containerd::RealRig,
    tunnel::{Session, TunnelServer},
    until,
};
use serde_json::{Value, json};
use spdy::{
    Headers, Role,
    session::{self, Stream},
};
use testkit::{PROCESS_TIMEOUT, WAIT_TIMEOUT};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream},
    time::timeout,
};
use wire::{
    cri::ReopenContainerLogRequest,
    tunnel::{Connect, Kind},
};

use crate::case::{apply, leaves_nothing, pod};

/// A rig whose node has a tunnel to a cloud.
struct Tunnelled {
    rig: RealRig,
    server: TunnelServer,
    session: Session,
}

impl Tunnelled {
    fn start() -> anyhow::Result<Self> {
        let mut rig = RealRig::start()?;
        let below = |path: &str| rig.directory.path().join(path);
        let server = TunnelServer::start(&below("node/ca/rootCA.crt"))?;
        let ca = below("tunnel-ca.crt");
        fs::write(&ca, &server.ca)?;
        let (at, ca) = (
            format!("127.0.0.1:{}", server.port),
            ca.display().to_string(),
        );
        rig.node
            .set(&[("edgeStream.server", &at), ("tlsTunnelCAFile", &ca)])?;
        rig.node.process.start_again()?;
        rig.node.process.wait_for("edge-agent started")?;
        let session = server.session()?;
        ensure!(
            session.node() == (NODE, "127.0.0.1"),
            "{:?}",
            session.node()
        );
        Ok(Self {
            rig,
            server,
            session,
        })
    }

    fn run<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        self.server.runtime.block_on(async {
            timeout(PROCESS_TIMEOUT, work)
                .await
                .context("it does not end")?
        })
    }
}

/// A log that is read line by line.
struct Lines(BufReader<DuplexStream>);

impl Lines {
    /// The next lines; each is the number after the one before.
    async fn count(&mut self, from: u64, to: u64) -> anyhow::Result<()> {
        for number in from..to {
            let mut line = String::new();
            timeout(WAIT_TIMEOUT, self.0.read_line(&mut line))
                .await
                .context("the log stands still")??;
            ensure!(
                line == format!("line {number}\n"),
                "{line:?} is not line {number}"
            );
        }
        Ok(())
    }

    async fn end(mut self) -> anyhow::Result<String> {
        let mut rest = String::new();
        timeout(WAIT_TIMEOUT, self.0.read_to_string(&mut rest))
            .await
            .context("the log has no end")??;
        Ok(rest)
    }
}

/// Lines that are numbered, for as long as it is not asked to end.
const COUNT: &str =
    "trap 'exit 0' TERM; i=0; while true; do echo line $i; i=$((i+1)); usleep 20000; done";

#[test]
fn logs() -> anyhow::Result<()> {
    let here = Tunnelled::start()?;
    let counts = json!({"containers": [{"command": ["sh", "-c", COUNT]}]});
    let fails = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "first", "image": e2e::containerd::IMAGE, "command": ["sh", "-c", "echo prepared; head -c 20000 /dev/zero | tr '\\0' x; echo; echo done"]}],
        "containers": [{"command": ["false"]}],
    });
    let waits =
        json!({"containers": [{"image": "docker.io/e2e/none:1", "imagePullPolicy": "Never"}]});
    apply(
        &here.rig,
        &[
            pod("counts", &counts),
            pod("fails", &fails),
            pod("waits", &waits),
        ],
    )?;
    let counting = here.rig.wait_ready("counts")?;
    follows_a_rotation(&here, &counting)?;
    let of = |path: &str, query: &str| {
        let body = here.run(here.session.get(
            Kind::Logs,
            &format!("/containerLogs/default/{path}"),
            query,
        ))?;
        anyhow::Ok(String::from_utf8(body)?)
    };
    here.rig.wait_phase("fails", "Failed")?;
    ensure!(
        of("fails/first", "")? == format!("prepared\n{}\ndone\n", "x".repeat(20_000)),
        "of an init container"
    );
    ensure!(of("fails/first", "limitBytes=5")? == "prepa");
    let stamped = of("fails/first", "tailLines=1&timestamps=true")?;
    ensure!(
        stamped.ends_with("Z done\n")
            && stamped.len() == "2026-11-26T12:00:00.123456789Z done\n".len(),
        "{stamped}"
    );
    ensure!(of("fails/first", "sinceTime=2100-01-01T00:00:00Z")?.is_empty());
    until("the kubelet's words for an image that is not there", || {
        let told = of("waits/main", "")?;
        ensure!(
            told == "container \"main\" in pod \"waits\" is waiting to start: ErrImageNeverPull",
            "{told}"
        );
        anyhow::Ok(())
    })?;
    for (path, query, words) in [
        ("none/main", "", "pod \"none\" does not exist\n"),
        (
            "counts/none",
            "",
            "container \"none\" not found in pod \"counts\"\n",
        ),
        (
            "fails/main",
            "previous=true",
            "previous terminated container \"main\" in pod \"fails\" not found",
        ),
        (
            "counts/main",
            "tailLines=-1",
            "{\"message\": \"Invalid request.\"}\n",
        ),
    ] {
        let told = of(path, query)?;
        ensure!(told == words, "{path}?{query}: {told}");
    }
    // over a stream that carries whole answers, the cloud sees their status
    let status = here.run(async {
        let request = Connect::new(0, "/containerLogs/default/none/main", "").method("GET");
        let mut stream = here.session.connect(Kind::Exec, request).await?;
        Ok(e2e::tunnel::read_head(&mut stream).await?)
    })?;
    ensure!(status.starts_with("HTTP/1.1 404 Not Found\r\n"), "{status}");
    let metrics = here.run(here.session.get(Kind::Metrics, "/metrics/resource", ""))?;
    ensure!(String::from_utf8_lossy(&metrics).contains("node_cpu_usage_seconds_total"));
    previous(&here, of)?;
    leaves_nothing(&here.rig)
}

fn follows_a_rotation(here: &Tunnelled, counting: &Value) -> anyhow::Result<()> {
    let id = RealRig::container_id(counting, "main")?;
    let follow = async |query: &str| {
        let request = Connect::new(0, "/containerLogs/default/counts/main", query);
        anyhow::Ok(Lines(BufReader::new(
            here.session.connect(Kind::Logs, request).await?,
        )))
    };
    let mut lines = here.run(follow("follow=true"))?;
    here.run(lines.count(0, 20))?;
    let uid = counting["metadata"]["uid"].as_str().context("no uid")?;
    let log = here
        .rig
        .logs()
        .join(format!("default_counts_{uid}/main/0.log"));
    for round in 1..=3 {
        // as the agent does it
        fs::rename(
            &log,
            log.with_file_name(format!("0.log.2026112{round}-120000")),
        )?;
        let request = ReopenContainerLogRequest {
            container_id: id.clone(),
        };
        here.rig
            .containerd
            .raw_cri
            .runtime(async |mut client| client.reopen_container_log(request).await)?;
        here.run(lines.count(20 * round, 20 * (round + 1)))?;
    }
    // one that nobody reads, beside which a command runs
    let _unread = here.run(follow("follow=true"))?;
    let said = here.run(run(
        &here.session,
        "/exec/default/counts/main",
        &["echo", "beside"],
        b"",
    ))?;
    ensure!(
        said.stdout == b"beside\n" && said.code() == Some(0),
        "{said:?}"
    );
    here.rig.containerd.raw_cri.stop(&id, 0)?;
    let rest = here.run(lines.end())?;
    ensure!(
        rest.starts_with("line 80\n"),
        "until the container's end: {rest:?}"
    );
    Ok(())
}

/// The log of the instance before, after a restart.
fn previous(
    here: &Tunnelled,
    of: impl Fn(&str, &str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    here.rig.wait_pod("counts", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        if status["restartCount"] == 1 && status["ready"] == true {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })?;
    until("the log of the instance before", || {
        let before = of("counts/main", "previous=true&tailLines=1")?;
        let number: u64 = before.trim().trim_start_matches("line ").parse()?;
        ensure!(number >= 80, "{before}");
        let now = of("counts/main", "")?;
        ensure!(now.starts_with("line 0\n"), "{now}");
        anyhow::Ok(())
    })
}

/// What a command has said.
#[derive(Debug)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: Value,
}

impl Said {
    fn code(&self) -> Option<u8> {
        if self.status["status"] == "Success" {
            return Some(0);
        }
        self.status["details"]["causes"][0]["message"]
            .as_str()?
            .parse()
            .ok()
    }
}

/// An exec's streams, opened in the order of kubectl's.
struct Exec {
    error: Stream,
    stdin: Stream,
    stdout: Stream,
    stderr: Option<Stream>,
    resize: Option<Stream>,
    _session: session::Session,
}

async fn exec(session: &Session, path: &str, command: &[&str], tty: bool) -> anyhow::Result<Exec> {
    let mut query: Vec<String> = command
        .iter()
        .map(|word| format!("command={}", encode(word)))
        .collect();
    query.extend(["input=1", "output=1", if tty { "tty=1" } else { "error=1" }].map(str::to_owned));
    let kind = if path.starts_with("/attach") {
        Kind::Attach
    } else {
        Kind::Exec
    };
    let stream = session
        .upgrade(kind, path, &query.join("&"), "v4.channel.k8s.io")
        .await?;
    let (spdy, _incoming, driver) = session::new(stream, Role::Client);
    tokio::spawn(driver.run());
    let open = async |kind: &str| {
        spdy.open(Headers::new().with("streamtype", kind), false)
            .await
    };
    Ok(Exec {
        error: open("error").await?,
        stdin: open("stdin").await?,
        stdout: open("stdout").await?,
        stderr: if tty {
            None
        } else {
            Some(open("stderr").await?)
        },
        resize: if tty {
            Some(open("resize").await?)
        } else {
            None
        },
        _session: spdy,
    })
}

fn encode(word: &str) -> String {
    word.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn all(stream: &mut Stream) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    timeout(WAIT_TIMEOUT, stream.read_to_end(&mut bytes))
        .await
        .context("a stream has no end")??;
    Ok(bytes)
}

/// Runs a command to its end, with this on its standard input.
async fn run(
    session: &Session,
    path: &str,
    command: &[&str],
    input: &[u8],
) -> anyhow::Result<Said> {
    let mut exec = exec(session, path, command, false).await?;
    let Exec {
        error,
        stdin,
        stdout,
        stderr,
        ..
    } = &mut exec;
    let stderr = stderr.as_mut().context("without a terminal")?;
    let write = async {
        stdin.write_all(input).await?;
        anyhow::Ok(stdin.shutdown().await?)
    };
    let ((), stdout, stderr, status) =
        tokio::try_join!(write, all(stdout), all(stderr), all(error))?;
    Ok(Said {
        stdout,
        stderr,
        status: serde_json::from_slice(&status)?,
    })
}

/// Answers each connection with what it says.
const ECHO: &str = "trap 'exit 0' TERM; while true; do nc -l -p 7000 -e cat; done & wait";

#[test]
fn commands_and_ports() -> anyhow::Result<()> {
    let here = Tunnelled::start()?;
    let echo = json!({"containers": [{"command": ["sh", "-c", ECHO]}]});
    let asks = json!({"containers": [{"command": ["sh", "-c", "while read line; do echo got $line; done"], "stdin": true}]});
    apply(&here.rig, &[pod("echo", &echo), pod("asks", &asks)])?;
    here.rig.wait_ready("echo")?;
    here.rig.wait_ready("asks")?;
    let path = "/exec/default/echo/main";
    let script = "echo out; echo err >&2; exit 7";
    let said = here.run(run(&here.session, path, &["sh", "-c", script], b""))?;
    ensure!(
        said.stdout == b"out\n" && said.stderr == b"err\n" && said.code() == Some(7),
        "{said:?}"
    );
    ensure!(said.status["reason"] == "NonZeroExitCode", "{said:?}");
    // every byte, and an end that the command sees
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let said = here.run(run(&here.session, path, &["cat"], &bytes))?;
    ensure!(
        said.stdout == bytes && said.code() == Some(0),
        "{} bytes, {:?}",
        said.stdout.len(),
        said.status
    );
    let none = here.run(run(&here.session, path, &["no-such-program"], b""))?;
    ensure!(
        none.status["status"] == "Failure" && none.code().is_none(),
        "{none:?}"
    );
    terminal(&here, path)?;
    check_attach(&here)?;
    forwards(&here)?;
    leaves(&here, path)?;
    refusals(&here)?;
    leaves_nothing(&here.rig)
}

fn terminal(here: &Tunnelled, path: &str) -> anyhow::Result<()> {
    let (shown, status) = here.run(async {
        let mut exec = exec(&here.session, path, &["sh"], true).await?;
        let resize = exec.resize.as_mut().context("a terminal")?;
        resize.write_all(b"{\"Width\":101,\"Height\":43}\n").await?;
        // what changes the size is another stream than what asks for it
        exec.stdin
            .write_all(b"until stty size | grep '43 101'; do usleep 10000; done; tty; exit 3\n")
            .await?;
        let shown = all(&mut exec.stdout).await?;
        Ok((String::from_utf8(shown)?, all(&mut exec.error).await?))
    })?;
    ensure!(
        shown.contains("\r\n43 101\r\n") && shown.contains("/dev/pts/"),
        "{shown:?}"
    );
    let status: Value = serde_json::from_slice(&status)?;
    ensure!(status["details"]["causes"][0]["message"] == "3", "{status}");
    Ok(())
}

fn check_attach(here: &Tunnelled) -> anyhow::Result<()> {
    here.run(async {
        let mut attached = exec(&here.session, "/attach/default/asks/main", &[], false).await?;
        attached.stdin.write_all(b"this\n").await?;
        let mut answer = [0; 9];
        timeout(WAIT_TIMEOUT, attached.stdout.read_exact(&mut answer))
            .await
            .context("no answer")??;
        ensure!(&answer == b"got this\n", "{answer:?}");
        Ok(())
    })
}

/// A mebibyte to a port and back, and what is said of a port on which nobody listens.
fn forwards(here: &Tunnelled) -> anyhow::Result<()> {
    here.run(async {
        let stream = here
            .session
            .upgrade(
                Kind::Exec,
                "/portForward/default/echo",
                "",
                "portforward.k8s.io",
            )
            .await?;
        let (spdy, _incoming, driver) = session::new(stream, Role::Client);
        tokio::spawn(driver.run());
        let pair = async |port: &str, request: &str| {
            let headers = |kind: &str| {
                Headers::new()
                    .with("streamtype", kind)
                    .with("port", port)
                    .with("requestid", request)
            };
            let error = spdy.open(headers("error"), true).await?;
            anyhow::Ok((error, spdy.open(headers("data"), false).await?))
        };
        let (_error, data) = pair("7000", "0").await?;
        let sent: Vec<u8> = (0..1024 * 1024_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let (mut reader, mut writer) = tokio::io::split(data);
        let mut came = vec![0; sent.len()];
        let write = async { anyhow::Ok(writer.write_all(&sent).await?) };
        let read =
            async { anyhow::Ok(timeout(WAIT_TIMEOUT, reader.read_exact(&mut came)).await??) };
        tokio::try_join!(write, read).context("a mebibyte and back")?;
        ensure!(came == sent, "other bytes come back");
        let (mut error, _data) = pair("7001", "1").await?;
        let told = String::from_utf8(all(&mut error).await?)?;
        ensure!(told.contains("7001") && told.contains("refused"), "{told}");
        Ok(())
    })
}

/// When the cloud leaves, what read from it comes to its end.
fn leaves(here: &Tunnelled, path: &str) -> anyhow::Result<()> {
    here.run(async {
        let mut exec = exec(
            &here.session,
            path,
            &[
                "sh",
                "-c",
                "echo $$ > /tmp/pid; echo begun; cat; rm /tmp/pid",
            ],
            false,
        )
        .await?;
        let mut begun = [0; 6];
        timeout(WAIT_TIMEOUT, exec.stdout.read_exact(&mut begun))
            .await
            .context("no beginning")??;
        Ok(())
    })?;
    until("the end of the command", || {
        let left = here.rig.inside("echo", "ls /tmp")?;
        ensure!(!left.contains("pid"), "{left}");
        anyhow::Ok(())
    })
}

fn refusals(here: &Tunnelled) -> anyhow::Result<()> {
    for (path, query, status, words) in [
        (
            "/exec/default/none/main",
            "output=1&command=true",
            "404 Not Found",
            "pod does not exist",
        ),
        (
            "/exec/default/echo/none",
            "output=1&command=true",
            "500 Internal Server Error",
            "container not found (\"none\")",
        ),
        (
            "/exec/default/echo/main",
            "command=true",
            "400 Bad Request",
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        (
            "/run/default/echo/main",
            "cmd=true",
            "404 Not Found",
            "404 page not found",
        ),
    ] {
        let refused = here.run(
            here.session
                .upgrade(Kind::Exec, path, query, "v4.channel.k8s.io"),
        );
        let head = refused.err().context("it is not refused")?.to_string();
        ensure!(
            head.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{path}: {head}"
        );
        let body = here.run(async {
            let request = Connect::new(0, path, query)
                .method("POST")
                .header("Connection", "Upgrade")
                .header("Upgrade", "SPDY/3.1");
            let mut stream = here.session.connect(Kind::Exec, request).await?;
            let mut whole = String::new();
            stream.read_to_string(&mut whole).await?;
            Ok(whole)
        })?;
        ensure!(body.contains(words), "{path}: {body}");
    }
    // what asks for no name serves none of this
    for path in [
        "/exec/default/echo/main?output=1&command=true",
        "/attach/default/asks/main?output=1",
        "/portForward/default/echo",
        "/containerLogs/default/echo/main",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", here.rig.node.port))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: SPDY/3.1\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
        let mut chunk = [0; 64];
        let read = stream.read(&mut chunk)?;
        answer.push_str(&String::from_utf8_lossy(&chunk[..read]));
        ensure!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
    Ok(())
}
