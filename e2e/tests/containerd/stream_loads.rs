//! Much at a time through one tunnel: a log that is read slowly beside commands and copies, and ports with many connections and large
//! bodies.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    os::fd::OwnedFd,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use anyhow::{Context, anyhow, ensure};
use e2e::{Process, containerd::RealRig};
use serde_json::json;
use testkit::WAIT_TIMEOUT;

use crate::case::{apply, leaves_nothing, pod};

/// Lines of the log that is read slowly: more than all sockets and buffers on its way hold.
const LINES: usize = 1500;
/// Bytes of each, with its end.
const LINE: usize = 16_001;
/// Bytes of what is copied beside it.
const COPIED: usize = 8_000_000;
/// Connections to one port at a time, and what each sends and receives.
const CONNECTIONS: u8 = 50;
const SENT: usize = 200_000;
/// A large body, bytes: 32 MiB.
const BODY: usize = 32 * 1024 * 1024;

#[test]
fn much_at_a_time_through_one_tunnel() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    // one file: what was rotated away is not followed
    rig.restart_with(&[("containerLogMaxSize", "200Mi")])?;
    rig.cloud.wait_node("Ready")?;
    let talks = format!(
        "i=0; while [ $i -lt {LINES} ]; do printf '%016000d\\n' $i; i=$((i+1)); done; touch /tmp/told; trap 'exit 0' TERM; sleep 100000 & wait"
    );
    let serves = format!(
        "head -c {BODY} /dev/urandom > /tmp/body; nc -ll -p 7000 -e cat & nc -ll -p 7001 -e cat /tmp/body & trap 'exit 0' TERM; touch /tmp/ready; wait"
    );
    let told = json!({"exec": {"command": ["test", "-e", "/tmp/told"]}, "periodSeconds": 1});
    let ready = json!({"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1});
    let talks = json!({"containers": [{"command": ["sh", "-c", talks], "readinessProbe": told}]});
    let serves =
        json!({"containers": [{"command": ["sh", "-c", serves], "readinessProbe": ready}]});
    apply(&rig, &[pod("talks", &talks), pod("serves", &serves)])?;
    rig.wait_ready("talks")?;
    rig.wait_ready("serves")?;
    a_slow_reader(&rig)?;
    for websockets in ["true", "false"] {
        many_connections(&rig, websockets)?;
    }
    leaves_nothing(&rig)
}

/// A log that is followed, of which the test reads as much as it likes.
struct Follower {
    child: Child,
    lines: BufReader<ChildStdout>,
    next: usize,
}

impl Follower {
    fn start(rig: &RealRig) -> anyhow::Result<Self> {
        let mut command = rig.cloud.kubectl.command(&["logs", "-f", "talks"]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("kubectl has no output")?;
        Ok(Self {
            child,
            lines: BufReader::with_capacity(4096, stdout),
            next: 0,
        })
    }

    /// Reads so many lines more, which are the next ones.
    fn read(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            let mut line = String::new();
            self.lines.read_line(&mut line)?;
            let number = line.trim_end().parse::<usize>().ok();
            ensure!(
                line.len() == LINE && number == Some(self.next),
                "not line {}: {} bytes, {number:?}",
                self.next,
                line.len()
            );
            self.next += 1;
        }
        Ok(())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // both fail only where it has ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of a log, a line is read now and then; commands and copies beside it are whole, and so is the log at last.
fn a_slow_reader(rig: &RealRig) -> anyhow::Result<()> {
    let mut log = Follower::start(rig)?;
    log.read(1)?;
    let (from, back) = (
        rig.directory.path().join("sent"),
        rig.directory.path().join("back"),
    );
    let bytes: Vec<u8> = (0..=250).cycle().take(COPIED).collect();
    fs::write(&from, &bytes)?;
    let kubectl = &rig.cloud.kubectl;
    for round in 0..2 {
        for _ in 0..3 {
            let said = kubectl.run(&["exec", "serves", "--", "echo", "beside"])?;
            ensure!(said == "beside\n", "{said}");
            log.read(1)?;
        }
        kubectl.run(&["cp", &from.display().to_string(), "serves:/tmp/copied"])?;
        log.read(1)?;
        kubectl.run(&["cp", "serves:/tmp/copied", &back.display().to_string()])?;
        ensure!(
            fs::read(&back)? == bytes,
            "other bytes came back in round {round}"
        );
        fs::remove_file(&back)?;
        log.read(1)?;
    }
    log.read(LINES - log.next)
}

fn many_connections(rig: &RealRig, websockets: &str) -> anyhow::Result<()> {
    let mut command = rig
        .cloud
        .kubectl
        .command(&["port-forward", "pod/serves", ":7000", ":7001"]);
    command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    let mut process = Process::start("kubectl", command, rig.directory.path())?;
    process.wait_for("-> 7000")?;
    process.wait_for("-> 7001")?;
    let log = process.log();
    let port = |to: &str| {
        let line = log
            .lines()
            .find(|line| line.starts_with("Forwarding from 127.0.0.1:") && line.ends_with(to));
        let port = line.and_then(|line| {
            line.strip_prefix("Forwarding from 127.0.0.1:")?
                .split(' ')
                .next()
        });
        anyhow::Ok(port.with_context(|| log.clone())?.parse::<u16>()?)
    };
    let (echoes, body) = (port("-> 7000")?, port("-> 7001")?);
    // one after the other to begin with: busybox's nc resets some of many that come together
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| connect(echoes))
        .collect::<Result<_, _>>()?;
    let all: Vec<_> = (0..)
        .zip(connections)
        .map(|(number, stream)| thread::spawn(move || echo(stream, number)))
        .collect();
    for one in all {
        one.join()
            .map_err(|_| anyhow!("a connection has failed"))?
            .with_context(|| process.log())?;
    }
    let inside = rig.inside("serves", "md5sum < /tmp/body")?;
    let stream = TcpStream::connect(("127.0.0.1", body))?;
    let came = run_with_stdin(Command::new("md5sum"), stream)?;
    ensure!(came == inside, "{came} is not {inside}: {}", process.log());
    process.kill()?;
    Ok(())
}

/// A connection to the port that answers.
fn connect(port: u16) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0])?;
    Ok(stream)
}

/// Bytes of its own to the port and back.
fn echo(mut stream: TcpStream, number: u8) -> anyhow::Result<()> {
    let mut writer = stream.try_clone()?;
    let writing = thread::spawn(move || writer.write_all(&vec![number; SENT]));
    let mut came = vec![0; SENT];
    stream
        .read_exact(&mut came)
        .with_context(|| format!("connection {number}"))?;
    writing
        .join()
        .map_err(|_| anyhow!("the writer has failed"))??;
    ensure!(
        came == vec![number; SENT],
        "other bytes come back on connection {number}"
    );
    Ok(stream.shutdown(Shutdown::Both)?)
}

/// What a program prints that reads a connection to its end.
fn run_with_stdin(mut command: Command, stream: TcpStream) -> anyhow::Result<String> {
    let child = command
        .stdin(OwnedFd::from(stream))
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}
