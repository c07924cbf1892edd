//! `edge-agent ctl`: the pods and devices of this node without the cloud and without kubectl, over the socket of the running agent.
//!
//! | part | what |
//! |---|---|
//! | `client` | a client of the agent's API on the socket |
//! | `describe` | an object as `kubectl describe` shows it. Pure |
//! | `table` | tables as kubectl prints them. Pure |
//! | `terminal` | the terminal of a command |
//!
//! Output goes to stdout as it is, errors to stderr. `exec` exits with the code of the command.

mod client;
mod describe;
mod table;
mod terminal;

use std::{io::Write, process::ExitCode};

use anyhow::{Context, bail};
use futures::AsyncReadExt as _;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Status};
use kube::{
    Api, Client,
    api::{AttachParams, LogParams},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use self::{
    client::{client, get, plain, post},
    describe::describe,
    terminal::{RawTerminal, follow_size},
};
use crate::{
    cli::{Ctl, GetOutput, InstallPaths, Logs, ObjectKind, Output, Scope, Streams},
    config, one_line,
};

/// The bytes that are read at a time.
const BUFFER: usize = 16 * 1024;
/// The path of devices on the socket.
const DEVICES: &str = "/devices";

/// Executes the command; its output goes to `out`.
///
/// # Errors
/// The configuration cannot be read, no agent answers, or it refuses.
pub(crate) fn run(
    command: &Ctl,
    paths: &InstallPaths,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let (config, _) = config::load(&paths.config()).map_err(one_line)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let client = client(&config.status.socket).await?;
        execute(command, &client, &config.node.name, out).await
    });
    // stdin may be read by a thread that does not end
    runtime.shutdown_background();
    out.flush()?;
    done
}

async fn execute(
    command: &Ctl,
    client: &Client,
    node: &str,
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    match command {
        Ctl::Get {
            kind,
            names,
            selector,
            output,
            scope,
            ..
        } => {
            let query = Query {
                kind: *kind,
                scope,
                selector: selector.as_deref(),
            };
            query.print(client, names, *output, out).await?;
        }
        Ctl::Describe {
            kind, name, scope, ..
        } => {
            let query = Query {
                kind: *kind,
                scope,
                selector: None,
            };
            let object = query.object(client, name).await?;
            out.write_all(describe(*kind, &object, clock::now()).as_bytes())?;
        }
        Ctl::Logs(logs) => print_log(client, logs, out).await?,
        Ctl::Exec {
            pod,
            container,
            streams,
            command,
            scope,
            ..
        } => {
            let pods = Api::<Pod>::namespaced(client.clone(), &scope.namespace);
            return run_in_pod(&pods, pod, container.as_deref(), *streams, command).await;
        }
        Ctl::Restart { pods, scope, .. } => {
            let path = format!("/api/v1/namespaces/{}/pods/restart", scope.namespace);
            return operate(client, &[(path, json!(pods).to_string())], out).await;
        }
        Ctl::Confirm(_) => {
            let path = "/api/v1/taskupgrade/confirm-upgrade".to_owned();
            return operate(client, &[(path, String::new())], out).await;
        }
        Ctl::Unhold {
            pods, all, scope, ..
        } => {
            let bodies = match all {
                true => vec![("/api/v1/nodes/unhold-upgrade".to_owned(), node.to_owned())],
                false => {
                    let path = || "/api/v1/pods/unhold-upgrade".to_owned();
                    let body = |pod: &String| (path(), format!("{}/{pod}", scope.namespace));
                    pods.iter().map(body).collect()
                }
            };
            return operate(client, &bodies, out).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends operations, each a path and a body, and prints what they did.
async fn operate(
    client: &Client,
    requests: &[(String, String)],
    out: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let mut failed = Vec::new();
    for (path, body) in requests {
        let (messages, errors) = post(client, path, body.clone()).await?;
        for message in messages {
            writeln!(out, "{message}")?;
        }
        failed.extend(errors);
    }
    match failed.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => bail!("{}", failed.join("; ")),
    }
}

/// Which objects are read.
struct Query<'a> {
    kind: ObjectKind,
    scope: &'a Scope,
    selector: Option<&'a str>,
}

impl Query<'_> {
    fn is_of_all_namespaces(&self) -> bool {
        self.scope.all_namespaces && self.kind != ObjectKind::Nodes
    }

    /// Returns the path of the collection.
    fn path(&self) -> String {
        match self.kind {
            ObjectKind::Nodes => "/api/v1/nodes".to_owned(),
            ObjectKind::Devices => DEVICES.to_owned(),
            ObjectKind::Pods if self.scope.all_namespaces => "/api/v1/pods".to_owned(),
            ObjectKind::Pods => format!("/api/v1/namespaces/{}/pods", self.scope.namespace),
        }
    }

    /// Returns one object.
    async fn object(&self, client: &Client, name: &str) -> anyhow::Result<Value> {
        if self.kind == ObjectKind::Devices {
            let named = |device: &Value| device["metadata"]["name"] == name;
            let found = self.devices(client).await?.into_iter().find(named);
            return found.with_context(|| format!("device {name:?} not found on this node"));
        }
        get(client, &format!("{}/{name}", self.path()), false).await
    }

    async fn devices(&self, client: &Client) -> anyhow::Result<Vec<Value>> {
        if self.selector.is_some() {
            bail!("devices cannot be selected by labels; name them");
        }
        let all = get(client, DEVICES, false).await?;
        let mut devices = all["items"].as_array().cloned().unwrap_or_default();
        let namespace = self.scope.namespace.as_str();
        devices.retain(|device| {
            self.scope.all_namespaces || device["metadata"]["namespace"] == namespace
        });
        Ok(devices)
    }

    async fn print(
        &self,
        client: &Client,
        names: &[String],
        output: Option<GetOutput>,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let format = match output {
            Some(GetOutput::Json) => Some(Output::Json),
            Some(GetOutput::Yaml) => Some(Output::Yaml),
            Some(GetOutput::Wide) | None => None,
        };
        if let Some(format) = format {
            let document = match names {
                [] => self.list(client, false).await?,
                [name] => self.object(client, name).await?,
                _ => bail!("name one object, or none, with -o json and -o yaml"),
            };
            out.write_all(format.document(&document)?.as_bytes())?;
            return Ok(());
        }
        let wide = output == Some(GetOutput::Wide);
        let namespaced = self.is_of_all_namespaces();
        let mut rows = match self.kind {
            ObjectKind::Devices => {
                let devices = self.devices(client).await?;
                table::devices(&devices, namespaced, clock::now())
            }
            ObjectKind::Pods | ObjectKind::Nodes => {
                table::rows(&self.list(client, true).await?, wide, namespaced)
            }
        };
        let headings = rows.remove(0);
        let at = usize::from(namespaced);
        if !names.is_empty() {
            let is_there = |name: &String| rows.iter().any(|row| row.get(at) == Some(name));
            if let Some(missing) = names.iter().find(|name| !is_there(name)) {
                bail!("{missing:?} not found on this node");
            }
            rows.retain(|row| row.get(at).is_some_and(|name| names.contains(name)));
        }
        if rows.is_empty() {
            match namespaced || self.kind == ObjectKind::Nodes {
                true => bail!("no resources found"),
                false => bail!("no resources found in namespace {}", self.scope.namespace),
            }
        }
        rows.insert(0, headings);
        out.write_all(table::align(rows).as_bytes())?;
        Ok(())
    }

    async fn list(&self, client: &Client, table: bool) -> anyhow::Result<Value> {
        if self.kind == ObjectKind::Devices {
            let items = self.devices(client).await?;
            return Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}));
        }
        let mut path = self.path();
        if let Some(selector) = self.selector {
            let query = form_urlencoded::Serializer::new(String::new())
                .append_pair("labelSelector", selector)
                .finish();
            path = format!("{path}?{query}");
        }
        get(client, &path, table).await
    }
}

/// Prints a log as it arrives.
async fn print_log(client: &Client, logs: &Logs, out: &mut impl Write) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), &logs.scope.namespace);
    let parameters = LogParams {
        container: logs.container.clone(),
        follow: logs.follow,
        previous: logs.previous,
        tail_lines: logs.tail,
        since_seconds: logs.since_seconds,
        timestamps: logs.timestamps,
        ..LogParams::default()
    };
    let stream = pods
        .log_stream(&logs.pod, &parameters)
        .await
        .map_err(plain)?;
    let (mut stream, mut buffer) = (std::pin::pin!(stream), vec![0; BUFFER]);
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        out.write_all(buffer.get(..read).unwrap_or_default())?;
        out.flush()?;
    }
}

/// Runs a command in a container; returns its exit code.
async fn run_in_pod(
    pods: &Api<Pod>,
    pod: &str,
    container: Option<&str>,
    streams: Streams,
    command: &[String],
) -> anyhow::Result<ExitCode> {
    let terminal = match streams.tty {
        true => RawTerminal::enter().context("cannot use the terminal")?,
        false => None,
    };
    if streams.tty && terminal.is_none() {
        let mut errors = std::io::stderr().lock();
        writeln!(
            errors,
            "stdin is not a terminal; the command runs without one"
        )?;
    }
    let tty = terminal.is_some();
    let parameters = AttachParams {
        container: container.map(str::to_owned),
        stdin: streams.stdin,
        stdout: true,
        // a terminal has one output
        stderr: !tty,
        tty,
        ..AttachParams::default()
    };
    let mut process = pods.exec(pod, command, &parameters).await.map_err(plain)?;
    let status = process.take_status();
    let (stdout, stderr) = (process.stdout(), process.stderr());
    tokio::spawn(follow_size(process.terminal_size()));
    if let Some(input) = process.stdin() {
        tokio::spawn(pass_stdin(input));
    }
    let (written, written_errors) = tokio::join!(
        copy(stdout, || std::io::stdout().lock()),
        copy(stderr, || std::io::stderr().lock())
    );
    written.and(written_errors)?;
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    exit_code(status.as_ref())
}

/// Writes what is read, each piece as it arrives.
async fn copy<W: Write>(
    from: Option<impl AsyncRead + Unpin>,
    to: impl Fn() -> W,
) -> std::io::Result<()> {
    let (Some(mut from), mut buffer) = (from, vec![0; BUFFER]) else {
        return Ok(());
    };
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let mut to = to();
        to.write_all(buffer.get(..read).unwrap_or_default())?;
        to.flush()?;
    }
}

/// Passes stdin to a command until either ends.
async fn pass_stdin(mut input: impl AsyncWrite + Unpin) {
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(1);
    // a read of stdin cannot be cancelled; the thread ends with the program
    std::thread::spawn(move || {
        let (mut stdin, mut buffer) = (std::io::stdin().lock(), vec![0; BUFFER]);
        while let Ok(read @ 1..) = std::io::Read::read(&mut stdin, &mut buffer) {
            let piece = buffer.get(..read).unwrap_or_default().to_vec();
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    while let Some(piece) = pieces.recv().await {
        if input.write_all(&piece).await.is_err() {
            return;
        }
    }
    // the command has its end of input
    let _ = input.shutdown().await;
}

/// Returns the exit code in the status of a command.
fn exit_code(status: Option<&Status>) -> anyhow::Result<ExitCode> {
    let Some(status) = status else {
        bail!("the connection ended before the command; it may still run");
    };
    if status.status.as_deref() == Some("Success") {
        return Ok(ExitCode::SUCCESS);
    }
    let causes = status
        .details
        .iter()
        .flat_map(|details| details.causes.iter().flatten());
    let mut codes = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let code = codes
        .next()
        .and_then(|cause| cause.message.as_deref()?.parse::<u8>().ok());
    match code {
        Some(code) => Ok(ExitCode::from(code)),
        None => bail!(
            "{}",
            status.message.as_deref().unwrap_or("the command failed")
        ),
    }
}
