//! A chart with the parts that most public ones have, through its whole life with the real Helm.

use std::path::Path;

use anyhow::{Context, ensure};
use e2e::{Cloud, Helm, ensure_says};

/// The kinds of which the chart has objects.
const KINDS: &str = "deployments,replicasets,pods,services,endpointslices,configmaps,secrets,serviceaccounts,roles,rolebindings";

/// What the pods that run show, each: the file that they mount from the chart's ConfigMap.
fn replicas_and_greeting(cloud: &Cloud) -> anyhow::Result<(String, String)> {
    let of = |path: &str, object: &str| {
        cloud
            .kubectl
            .run(&["get", object, "-o", &format!("jsonpath={path}")])
    };
    Ok((
        of("{.status.readyReplicas}", "deployment/demo-greeter")?,
        of(r"{.data.index\.html}", "configmap/demo-greeter")?,
    ))
}

#[test]
fn a_chart_is_installed_tested_upgraded_rolled_back_and_uninstalled() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start_with(directory.path(), &["--nodes", "2"])?;
    let helm = Helm::new(&cloud, directory.path());
    let chart = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("chart")
        .display()
        .to_string();

    let said = helm.run(&["install", "demo", &chart, "--wait", "--timeout", "90s"])?;
    ensure_says(
        &said,
        &["STATUS: deployed", "REVISION: 1", "Hello from demo-greeter"],
    )?;
    ensure!(replicas_and_greeting(&cloud)? == ("2".into(), "hello".into()));
    // the hook ran to its end before anything else was made
    let time = |path: &str, object: &str| {
        cloud
            .kubectl
            .run(&["get", object, "-o", &format!("jsonpath={path}")])
    };
    let migrated = time("{.status.completionTime}", "job/demo-greeter-migrate")?;
    let made = time("{.metadata.creationTimestamp}", "deployment/demo-greeter")?;
    ensure!(
        !migrated.is_empty() && migrated <= made,
        "migrated at {migrated:?}, deployed at {made:?}"
    );
    let pods = cloud
        .kubectl
        .json(&["get", "pods", "-l", "app.kubernetes.io/name=greeter"])?;
    for pod in pods["items"].as_array().context("no pods")? {
        let init = &pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"];
        ensure!(init == "Completed", "{pod}");
    }

    let said = helm.run(&["test", "demo", "--timeout", "90s"])?;
    ensure_says(
        &said,
        &[
            "TEST SUITE:",
            "demo-greeter-connection",
            "Phase:",
            "Succeeded",
        ],
    )?;

    let upgrade = [
        "upgrade",
        "demo",
        &chart,
        "--set",
        "replicaCount=3,greeting=good evening",
    ];
    let said = helm.run(&[&upgrade[..], &["--wait", "--timeout", "90s"]].concat())?;
    ensure_says(&said, &["REVISION: 2", "Good Evening from demo-greeter"])?;
    ensure!(replicas_and_greeting(&cloud)? == ("3".into(), "good evening".into()));
    let sets = cloud.kubectl.json(&[
        "get",
        "replicasets",
        "-l",
        "app.kubernetes.io/instance=demo",
    ])?;
    ensure!(
        sets["items"].as_array().map(Vec::len) == Some(2),
        "another template is another ReplicaSet: {sets}"
    );

    helm.run(&["rollback", "demo", "1", "--wait", "--timeout", "90s"])?;
    ensure!(replicas_and_greeting(&cloud)? == ("2".into(), "hello".into()));
    ensure_says(
        &helm.run(&["history", "demo"])?,
        &["superseded", "Rollback to 1"],
    )?;
    ensure_says(
        &helm.run(&["list"])?,
        &["demo", "deployed", "greeter-0.1.0"],
    )?;

    ensure_says(
        &helm.run(&["uninstall", "demo", "--wait", "--timeout", "90s"])?,
        &["uninstalled"],
    )?;
    // hooks are nobody's but the chart author's; the pod of the test is one
    let left = cloud.kubectl.run(&[
        "get",
        KINDS,
        "-l",
        "app.kubernetes.io/instance=demo",
        "-o",
        "name",
    ])?;
    let left: Vec<&str> = left
        .lines()
        .filter(|name| *name != "pod/demo-greeter-connection")
        .collect();
    ensure!(left.is_empty(), "{left:?} is left");
    ensure!(helm.run(&["list", "--short"])?.trim().is_empty());
    Ok(())
}
