//! `cloudsim conformance`: tests a cloud as edges use it, or an edge as its cloud.

use std::{
    fs::File, io::Write as _, net::SocketAddr, path::Path, process::ExitCode, sync::Arc,
    time::Duration,
};

use agent::config::HostPort;
use anyhow::{Context, anyhow, bail};
use conformance::{
    CaseInfo, CaseResult, Implementation, Profile, Report, Verdict,
    cloud::{self, Target},
    edge,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use limits::read_regular_text;
use peer::{cloud::Addresses, edge::Endpoints, transport::Transport};
use tokio::time::timeout;
use wire::enroll::Token;

use super::{Signals, connect, join_line, of_failure, print_line, warn, with_cure};
use crate::{
    cli::{CaseProfile, Conformance, SessionTransport},
    nearest, scenario,
};

/// The sides that can be tested.
const CLOUD: &str = "cloud";
const EDGE: &str = "edge";
/// How long fetching the CA and creating the namespace may take.
const PREPARE_DEADLINE: Duration = Duration::from_secs(60);
/// The largest file with a join token, bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;
/// The Secret with the join token, KubeEdge's.
const TOKEN_SECRET: (&str, &str, &str) = ("kubeedge", "tokensecret", "tokendata");

pub(super) async fn run(options: Conformance) -> anyhow::Result<ExitCode> {
    let selected = select(&options)?;
    if options.list {
        for (side, case) in selected {
            let CaseInfo {
                id, title, source, ..
            } = case;
            let profile = profile(case.profile);
            print_line(&format!(
                "{side:<5}  {profile:<9} {id:<28} {title}  [{source}]"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::listen()?;
    let files = [&options.report, &options.junit]
        .map(|path| path.as_deref().map(ReportFile::create).transpose());
    let [yaml, junit] = files;
    let (yaml, junit) = (yaml?, junit?);
    let (side, results) = if options.edge {
        let results = clock::select! {
            tested = Box::pin(test_edge(&options)) => tested?,
            () = signals.wait() => bail!("stopped by a signal before all cases were run; objects of the run stay on the edge"),
        };
        (EDGE, results)
    } else {
        (CLOUD, Box::pin(test_cloud(&options, &mut signals)).await?)
    };
    let report = Report {
        side,
        implementation: Implementation {
            project: options.project.clone(),
            version: options.project_version.clone(),
        },
        transport: transport(&options).0.as_str(),
        results,
    };
    print_line(report.summary().trim_end());
    if let Some(file) = yaml {
        let date = clock::now().to_string();
        file.write(&report.to_yaml(&date).map_err(|why| anyhow!(why))?)?;
    }
    if let Some(file) = junit {
        file.write(&scenario::junit(&[outcome(&report)]))?;
    }
    Ok(if report.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the cases that the options select, each with its side.
///
/// # Errors
/// A prefix, or the profile, selects none.
fn select(options: &Conformance) -> anyhow::Result<Vec<(&'static str, CaseInfo)>> {
    let sides = [(CLOUD, cloud::list()), (EDGE, edge::list())];
    let all: Vec<_> = sides
        .into_iter()
        .filter(|(side, _)| match (&options.cloud, options.edge) {
            (Some(_), _) => *side == CLOUD,
            (None, true) => *side == EDGE,
            (None, false) => true,
        })
        .flat_map(|(side, cases)| cases.into_iter().map(move |case| (side, case)))
        .collect();
    for prefix in &options.cases {
        if !all.iter().any(|(_, case)| case.id.starts_with(prefix)) {
            let near = nearest(prefix, all.iter().map(|(_, case)| case.id));
            bail!(
                "no case begins with {prefix:?}{near}; `cloudsim conformance --list` lists all cases"
            );
        }
    }
    let mut selected = all;
    selected.retain(|(_, case)| is_wanted(options, case));
    if selected.is_empty() {
        bail!("--profile and --case select no case; omit one of them");
    }
    Ok(selected)
}

/// Returns the transport of the sessions, and CloudHub's port for it.
fn transport(options: &Conformance) -> (Transport, u16) {
    match options.transport {
        SessionTransport::Websocket => (Transport::WebSocket, options.ws_port),
        SessionTransport::Quic => (Transport::Quic, options.quic_port),
    }
}

fn profile(profile: Profile) -> &'static str {
    match profile {
        Profile::Core => "core",
        Profile::Extended => "extended",
    }
}

/// Reports whether the options select a case.
fn is_wanted(options: &Conformance, case: &CaseInfo) -> bool {
    let wanted = match options.profile {
        None => true,
        Some(CaseProfile::Core) => case.profile == Profile::Core,
        Some(CaseProfile::Extended) => case.profile == Profile::Extended,
    };
    let cases = &options.cases;
    wanted && (cases.is_empty() || cases.iter().any(|prefix| case.id.starts_with(prefix)))
}

fn print_result(result: &CaseResult) {
    print_line(&format!("{:>6.1} s  {result}", result.took.as_secs_f64()));
}

async fn test_cloud(
    options: &Conformance,
    signals: &mut Signals,
) -> anyhow::Result<Vec<CaseResult>> {
    let client = connect::connect(&options.access).await?;
    let text = match &options.token_file {
        Some(file) => read_regular_text(file, MAX_TOKEN_BYTES).with_context(|| {
            format!(
                "cannot read the join token from {}; check --token-file",
                file.display()
            )
        })?,
        None => stored_token(client.clone()).await?,
    };
    let token = Token::parse(text.trim()).context("cannot use the join token")?;
    let host = options.cloud.clone().unwrap_or_default();
    let at = |port| HostPort {
        host: host.clone(),
        port,
    };
    let (transport, hub_port) = transport(options);
    let target = cloud::Options {
        endpoints: Endpoints {
            https: at(options.https_port),
            hub: at(hub_port),
            tunnel: options.tunnel_port.0.map(at),
        },
        transport,
        router: options.router_port.map(|port| at(port).to_string()),
        token,
        client,
    };
    let prepared = timeout(PREPARE_DEADLINE, Target::prepare(target)).await;
    let target = prepared
        .unwrap_or_else(|_| peer::fail!("no CA and no namespace within {PREPARE_DEADLINE:?}"))
        .map_err(with_cure("check --cloud, --https-port and --kubeconfig"))?;
    let target = Arc::new(target);
    let results = clock::select! {
        results = cloud::test(&target, |case| is_wanted(options, case), print_result) => Some(results),
        () = signals.wait() => None,
    };
    // the kit's sessions have ended, and register no more nodes
    let left = clock::select! {
        left = target.clean_up() => left,
        () = signals.wait() => bail!("stopped by a second signal; namespace {0} and nodes whose names begin with {0} may remain", target.namespace()),
    };
    for object in &left {
        warn(&format!("cannot remove {object}"));
    }
    results.with_context(|| {
        let what = match left.len() {
            0 => "was removed, with the nodes of the run",
            _ => "is the namespace of the objects that were not removed",
        };
        format!(
            "stopped by a signal before all cases were run; {} {what}",
            target.namespace()
        )
    })
}

/// Reads the join token that the cloud keeps in its cluster.
async fn stored_token(client: Client) -> anyhow::Result<String> {
    let (namespace, name, key) = TOKEN_SECRET;
    let secret = Api::<Secret>::namespaced(client, namespace)
        .get(name)
        .await
        .with_context(|| {
            format!("cannot read the join token from Secret {namespace}/{name}; name a file with --token-file")
        })?;
    let value = secret.data.unwrap_or_default().remove(key);
    let value = value.with_context(|| format!("Secret {namespace}/{name} has no {key}"))?;
    String::from_utf8(value.0).context("the join token is not text")
}

async fn test_edge(options: &Conformance) -> anyhow::Result<Vec<CaseResult>> {
    let at = |port| SocketAddr::new(options.address, port);
    let (transport, hub_port) = transport(options);
    let kit = edge::Kit::start(edge::Options {
        names: vec![options.address.to_string()],
        addresses: Addresses {
            https: at(options.https_port),
            hub: at(hub_port),
            tunnel: options.tunnel_port.0.map(at),
        },
        transport,
        mqtt: options.mqtt.clone(),
        image: options.image.clone(),
    })
    .await
    .map_err(with_cure(
        "choose others with --address, --https-port, --ws-port, --quic-port and --tunnel-port",
    ))?;
    let at = kit.addresses();
    let ports = join_line::Ports {
        hub: at.hub.port(),
        https: at.https.port(),
        tunnel: at.tunnel.map(|tunnel| tunnel.port()),
    };
    let host = options.address.to_string();
    print_line(&format!(
        "Join the edge within {:?}:\n  {}",
        options.join_timeout,
        join_line::line("edge-agent", &host, ports, kit.token())
    ));
    if transport == Transport::Quic {
        print_line(&join_line::quic(at.hub));
    }
    let name = kit
        .wait_joined(options.join_timeout)
        .await
        .map_err(of_failure)?;
    print_line(&format!("{name} has joined"));
    Ok(edge::test(&kit, |case| is_wanted(options, case), print_result).await)
}

/// A file for a report, which is created before the cases run: hours may be lost otherwise.
struct ReportFile<'a> {
    path: &'a Path,
    file: File,
    /// Whether this run created it.
    is_new: bool,
}

impl<'a> ReportFile<'a> {
    fn create(path: &'a Path) -> anyhow::Result<Self> {
        let is_new = !path.exists();
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .with_context(|| cannot_write(path))?;
        Ok(Self { path, file, is_new })
    }

    fn write(mut self, text: &str) -> anyhow::Result<()> {
        self.is_new = false;
        // a pipe or terminal has no length
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file
            .write_all(text.as_bytes())
            .with_context(|| cannot_write(self.path))
    }
}

impl Drop for ReportFile<'_> {
    /// Removes the empty file of a run without a report.
    fn drop(&mut self) {
        if self.is_new {
            std::fs::remove_file(self.path).ok();
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}; name another file", path.display())
}

/// Converts a report for JUnit: one suite, with a test case for each case.
fn outcome(report: &Report) -> scenario::Outcome {
    let step = |result: &CaseResult| scenario::StepOutcome {
        title: format!("{}: {}", result.case.id, result.case.title),
        line: 0,
        took: result.took,
        verdict: match &result.verdict {
            Verdict::Passed => scenario::Verdict::Passed,
            Verdict::Failed(why) => scenario::Verdict::Failed(why.clone()),
            Verdict::Skipped(_) => scenario::Verdict::Skipped,
        },
    };
    scenario::Outcome {
        name: format!("conformance, {}", report.side),
        file: report.implementation.project.clone(),
        steps: report.results.iter().map(step).collect(),
    }
}
