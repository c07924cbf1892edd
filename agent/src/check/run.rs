//! Runs checks, each as soon as the checks that it needs have ended.

use std::{collections::BTreeMap, time::Duration};

use futures::{FutureExt, future::join_all};
use tokio::time::timeout;

use super::{
    agent, certificate, cgroups, clean, clock, cloud, cni, configuration, contact, database, disk,
    disk_speed, dns, files, hub,
    inputs::Inputs,
    kernel, mappers, mqtt, name, pods, ports, pressure, processes, proxy, quic,
    report::{CheckResult, Finding, Report},
    root, runtime, streams,
};
use crate::cli::{CheckEntry, CheckName, Stage};

/// How long a check may take; each has shorter deadlines for its own requests.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// The same before joining, where all addresses of all servers are tried.
const JOIN_TIMEOUT: Duration = Duration::from_mins(5);

/// Runs these checks except the skipped ones, and adds their results to the report in this order.
pub(crate) async fn run_all(
    checks: &[CheckEntry],
    skip: &[CheckName],
    inputs: &Inputs<'_>,
    report: &mut Report<'_>,
) {
    let mut results = BTreeMap::new();
    for entry in checks.iter().filter(|entry| skip.contains(&entry.name)) {
        let skipped = CheckResult::NotApplicable("skipped with --skip".into());
        results.insert(entry.name, Finding::from(skipped));
    }
    loop {
        let is_open = |name: &CheckName| {
            !results.contains_key(name) && checks.iter().any(|entry| entry.name == *name)
        };
        let ready: Vec<&CheckEntry> = checks
            .iter()
            .filter(|entry| is_open(&entry.name) && !entry.needs.iter().any(is_open))
            .collect();
        if ready.is_empty() {
            break;
        }
        let run = ready.iter().map(|entry| {
            let blocked = entry.needs.iter().find(|need| {
                let found = results.get(need);
                found.is_some_and(|finding: &Finding| finding.result.blocks())
            });
            run_unless_blocked(entry.name, blocked.copied(), inputs).boxed_local()
        });
        let names = ready.iter().map(|entry| entry.name);
        let wave: Vec<_> = names.zip(join_all(run).await).collect();
        results.extend(wave);
    }
    for entry in checks {
        if let Some(finding) = results.remove(&entry.name) {
            report.add(entry.name, finding);
        }
    }
}

async fn run_unless_blocked(
    check: CheckName,
    blocked: Option<CheckName>,
    inputs: &Inputs<'_>,
) -> Finding {
    if let Some(need) = blocked {
        return CheckResult::Skipped(format!("needs {}", need.name())).into();
    }
    let limit = match inputs.stage {
        Stage::Join => JOIN_TIMEOUT,
        Stage::Machine | Stage::Node => CHECK_TIMEOUT,
    };
    let late = |_| {
        CheckResult::bad(
            format!("no result within {} s", limit.as_secs()),
            "check the disk and the network of this machine",
        )
        .into()
    };
    let run = run_one(check, inputs);
    let mut finding = timeout(limit, run).await.unwrap_or_else(late);
    finding.name_paths(&inputs.paths.options());
    finding
}

async fn run_one(check: CheckName, inputs: &Inputs<'_>) -> Finding {
    match check {
        CheckName::Root => root::check(inputs).into(),
        CheckName::Clean => clean::check(inputs).into(),
        CheckName::Config => configuration::check(inputs),
        CheckName::Files => files::check(inputs),
        CheckName::Processes => processes::check(inputs).into(),
        CheckName::Agent => agent::check(inputs).await,
        CheckName::Runtime => runtime::check(inputs).await.into(),
        CheckName::Cgroups => cgroups::check(inputs).into(),
        CheckName::Kernel => kernel::check(inputs),
        CheckName::Cni => cni::check(inputs).await,
        CheckName::Pressure => pressure::check(inputs).into(),
        CheckName::Disk => disk::check(inputs),
        CheckName::DiskSpeed => disk_speed::check(inputs).await.into(),
        CheckName::Database => database::check(inputs).await,
        CheckName::Mqtt => mqtt::check(inputs).await,
        CheckName::Streams => streams::check(inputs).await.into(),
        CheckName::Ports => ports::check(inputs),
        CheckName::Name => name::check(inputs).into(),
        CheckName::Certificate => certificate::check(inputs).await,
        CheckName::Proxy => proxy::check(inputs),
        CheckName::Dns => dns::check(inputs).await,
        CheckName::Cloud => cloud::check(inputs).await,
        CheckName::Clock => clock::check(inputs).await.into(),
        CheckName::Hub => hub::check(inputs).await,
        CheckName::Quic => quic::check(inputs).await,
        CheckName::Contact => contact::check(inputs).await.into(),
        CheckName::Pods => pods::check(inputs).await,
        CheckName::Mappers => mappers::check(inputs).await,
        CheckName::All => CheckResult::NotApplicable("not available".into()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::{Machine, tests::node_config},
        cli::{InstallPaths, checks_of},
        config::{self, Host},
    };

    #[tokio::test]
    async fn checks_whose_need_failed_are_skipped_with_the_reason_and_all_others_run() {
        let directory = tempfile::tempdir().unwrap();
        let (config, machine) = (node_config(&directory, ""), Machine::unknown());
        let (paths, host) = (
            InstallPaths {
                config: None,
                root: directory.path().into(),
            },
            Host::detect(),
        );
        let path = paths.config();
        let error = config::Error::Empty(path.clone());
        let inputs = Inputs::new(Stage::Node, &paths, &path, &config, &machine, &host)
            .with_warnings(Err(&error));
        let mut report = Report::new(&[]);
        let checks = checks_of(Stage::Node);
        run_all(&checks, &[CheckName::Kernel], &inputs, &mut report).await;
        let lines = serde_json::to_value(report.lines()).unwrap();
        let result = |id: &str| {
            let line = lines
                .as_array()
                .unwrap()
                .iter()
                .find(|line| line["id"] == id);
            let line = line.unwrap_or_else(|| panic!("{id}: {lines}"));
            (
                line["result"].as_str().unwrap(),
                line["what"].as_str().unwrap(),
            )
        };
        assert_eq!(result("config").0, "error");
        for (id, need) in [
            ("dns", "needs proxy"),
            ("hub", "needs dns"),
            ("contact", "needs agent"),
        ] {
            assert_eq!(result(id), ("skipped", need));
        }
        assert_eq!(result("kernel"), ("skipped", "skipped with --skip"));
        assert_ne!(result("root").0, "skipped");
        assert_eq!(lines.as_array().unwrap().len(), checks.len());
    }
}
