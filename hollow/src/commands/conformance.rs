//! `cloudsim conformance`: tests a cloud as edges use it, or an edge as its cloud.

use std::{net::SocketAddr, path::Path, process::ExitCode};

use agent::config::HostPort;
use anyhow::{Context, anyhow, bail};
use conformance::{
    CaseInfo, CaseResult, Failure, Implementation, Profile, Report, Verdict, cloud, edge,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use limits::read_regular_text;
use peer::{cloud::Addresses, edge::Endpoints};
use wire::enroll::Token;

use super::{Signals, connect, print_line};
use crate::{
    cli::{CaseProfile, Conformance},
    scenario,
};

/// The largest file with a join token, bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;
/// The Secret with the join token, KubeEdge's.
const TOKEN_SECRET: (&str, &str, &str) = ("kubeedge", "tokensecret", "tokendata");

pub(super) async fn run(options: Conformance) -> anyhow::Result<ExitCode> {
    if options.list {
        for (side, cases) in [("cloud", cloud::list()), ("edge", edge::list())] {
            for case in cases {
                print_line(&format!(
                    "{side:<5}  {:<9} {:<28} {}  [{}]",
                    profile(case.profile),
                    case.id,
                    case.title,
                    case.source
                ));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::listen()?;
    let testing = async {
        if options.edge {
            test_edge(&options).await.map(|results| ("edge", results))
        } else {
            test_cloud(&options).await.map(|results| ("cloud", results))
        }
    };
    let (side, results) = tokio::select! {
        tested = Box::pin(testing) => tested?,
        () = signals.wait() => bail!("stopped by a signal before all cases were run; objects of the run may remain in a namespace conformance-…"),
    };
    if results.is_empty() {
        bail!("no case has this id and profile; `cloudsim conformance --list` lists them");
    }
    let report = Report {
        side,
        implementation: Implementation {
            project: options.project.clone(),
            version: options.project_version.clone(),
        },
        transport: "websocket",
        results,
    };
    finish(&options, &report)
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

/// Converts the reason why nothing could be tested.
fn of_failure(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Failed(why) | Failure::Skipped(why) => anyhow!(why),
    }
}

async fn test_cloud(options: &Conformance) -> anyhow::Result<Vec<CaseResult>> {
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
    let target = cloud::Options {
        endpoints: Endpoints {
            https: at(options.https_port),
            hub: at(options.ws_port),
            tunnel: options.tunnel_port.0.map(at),
        },
        token,
        client,
    };
    let tested = cloud::test(target, |case| is_wanted(options, case), print_result).await;
    tested
        .map_err(of_failure)
        .context("cannot test the cloud; check --cloud, the ports and the kubeconfig")
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
    let kit = edge::Kit::start(edge::Options {
        names: vec![options.address.to_string()],
        addresses: Addresses {
            https: at(options.https_port),
            hub: at(options.ws_port),
            tunnel: options.tunnel_port.0.map(at),
        },
        image: options.image.clone(),
    })
    .await
    .map_err(of_failure)?;
    let at = kit.addresses();
    let tunnel = at.tunnel.map_or_else(String::new, |tunnel| {
        format!(" --tunnel-port {}", tunnel.port())
    });
    print_line(&format!(
        "Join the edge within {:?}:\n  edge-agent join --cloud {} --cert-port {}{tunnel} --token {}",
        options.join_timeout,
        at.hub,
        at.https.port(),
        kit.token()
    ));
    let name = kit
        .wait_joined(options.join_timeout)
        .await
        .map_err(of_failure)?;
    print_line(&format!("{name} has joined"));
    Ok(edge::test(&kit, |case| is_wanted(options, case), print_result).await)
}

/// Writes the reports, and prints the summary.
fn finish(options: &Conformance, report: &Report) -> anyhow::Result<ExitCode> {
    print_line(report.summary().trim_end());
    if let Some(file) = &options.report {
        let date = jiff::Timestamp::now().to_string();
        let yaml = report.to_yaml(&date).map_err(|why| anyhow!(why))?;
        write(file, &yaml)?;
    }
    if let Some(file) = &options.junit {
        write(file, &scenario::junit(&[outcome(report)]))?;
    }
    Ok(if report.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text)
        .with_context(|| format!("cannot write {}; name another file", file.display()))
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
        name: format!("conformance of an {}", report.side),
        file: report.implementation.project.clone(),
        steps: report.results.iter().map(step).collect(),
    }
}
