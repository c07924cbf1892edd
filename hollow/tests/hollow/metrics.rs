//! Checks what a cloud serves at `/metrics` against `docs/metrics-cloudsim.md` and the dashboard.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use http::Request;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, api::ListParams, runtime::wait::conditions::is_deployment_completed};
use serde_json::Value;
use testkit::eventually;

use hollow::testing::TestCloud;

/// The type and labels of a metric, and whether it may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    sometimes: bool,
}

/// A sample: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

fn docs(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("docs")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads the table of the documentation.
fn documented_families() -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    for line in docs("metrics-cloudsim.md").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, _, when, _] = cells[..] else {
            continue;
        };
        let Some(name) = name.strip_prefix('`') else {
            continue;
        };
        let labels = labels
            .split(',')
            .map(|label| label.trim().trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        let family = Family {
            kind: kind.to_owned(),
            labels,
            sometimes: !when.is_empty(),
        };
        assert_eq!(
            families.insert(name.trim_matches('`').to_owned(), family),
            None,
            "{name} stands twice"
        );
    }
    families
}

async fn scrape(client: &Client) -> String {
    client
        .request_text(Request::get("/metrics").body(Vec::new()).unwrap())
        .await
        .unwrap()
}

fn samples(text: &str) -> Vec<Sample> {
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let label = |label: &str| {
            let (key, value) = label.split_once("=\"").unwrap();
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        };
        let labels = labels
            .split("\",")
            .filter(|label| !label.is_empty())
            .map(label)
            .collect();
        (name.to_owned(), labels, value.parse().unwrap())
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(sample)
        .collect()
}

/// Parses the served metrics.
fn served_families(text: &str) -> BTreeMap<String, Family> {
    let all = samples(text);
    let types = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let family = |(name, kind): (&str, &str)| {
        let ends: &[&str] = if kind == "histogram" {
            &["_bucket", "_sum", "_count"]
        } else {
            &[""]
        };
        let own = all
            .iter()
            .filter(|(sample, ..)| ends.iter().any(|end| *sample == format!("{name}{end}")));
        let labels = own
            .flat_map(|(_, labels, _)| labels.keys().cloned())
            .filter(|label| label != "le");
        (
            name.to_owned(),
            Family {
                kind: kind.to_owned(),
                labels: labels.collect(),
                sometimes: false,
            },
        )
    };
    types.map(family).collect()
}

fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let is_wanted = |(sample, own, _): &&Sample| {
        sample == name
            && labels
                .iter()
                .all(|(key, value)| own.get(*key).is_some_and(|own| own == value))
    };
    samples(text)
        .iter()
        .filter(is_wanted)
        .map(|(.., value)| value)
        .sum()
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: nginx}]
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere}
spec:
  nodeSelector: {a: b}
  containers: [{name: main, image: nginx}]
";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn what_is_served_is_what_is_documented_and_follows_what_happens() {
    let mut cloud = TestCloud::builder().nodes(2).start().await.unwrap();
    let client = cloud.client();
    let before = scrape(&client).await;
    cloud.apply(WEB).await.unwrap();
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    cloud
        .wait(deployments, "web", is_deployment_completed())
        .await
        .unwrap();
    let is_told = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one.reason.as_deref() == Some("Unschedulable"))
        })
    };
    let pods = Api::<Pod>::default_namespaced(client.clone());
    cloud.wait(pods.clone(), "nowhere", is_told).await.unwrap();
    pods.get("absent").await.unwrap_err();
    pods.list(&ListParams::default()).await.unwrap();
    let text = scrape(&client).await;

    let (documented, served) = (documented_families(), served_families(&text));
    for (name, family) in &served {
        let wanted = documented
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the documentation"));
        assert_eq!(
            (&wanted.kind, &wanted.labels),
            (&family.kind, &family.labels),
            "{name}"
        );
    }
    let missing = documented
        .iter()
        .filter(|(name, family)| !family.sometimes && !served.contains_key(*name));
    assert_eq!(missing.collect::<Vec<_>>(), []);
    // There are no more series than kinds, verbs and queues.
    let names: BTreeSet<_> = samples(&text)
        .into_iter()
        .flat_map(|(_, labels, _)| labels.into_values())
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name.contains("edge-1") || name.starts_with("web-") || name == "web"),
        "{names:?}"
    );

    let grown = |name: &str, labels: &[(&str, &str)]| {
        value(&text, name, labels) - value(&before, name, labels)
    };
    let pods = ("resource", "pods");
    for (what, figure, least) in [
        (
            "a refusal",
            grown(
                "apiserver_request_total",
                &[pods, ("code", "404"), ("verb", "GET")],
            ),
            1.0,
        ),
        (
            "pods made",
            grown(
                "apiserver_request_total",
                &[pods, ("code", "201"), ("subresource", "")],
            ),
            4.0,
        ),
        (
            "a list",
            grown(
                "apiserver_request_duration_seconds_count",
                &[pods, ("verb", "LIST")],
            ),
            1.0,
        ),
        (
            "pods bound",
            grown(
                "scheduler_schedule_attempts_total",
                &[("result", "scheduled")],
            ),
            3.0,
        ),
        (
            "one not",
            grown(
                "scheduler_schedule_attempts_total",
                &[("result", "unschedulable")],
            ),
            1.0,
        ),
        (
            "who waits",
            value(
                &text,
                "scheduler_pending_pods",
                &[("queue", "unschedulable")],
            ),
            1.0,
        ),
        (
            "a queue",
            grown("workqueue_adds_total", &[("name", "deployment")]),
            1.0,
        ),
        (
            "its work",
            grown(
                "workqueue_work_duration_seconds_count",
                &[("name", "replicaset")],
            ),
            1.0,
        ),
        (
            "watches",
            value(
                &text,
                "apiserver_longrunning_requests",
                &[pods, ("verb", "WATCH")],
            ),
            1.0,
        ),
        (
            "objects",
            value(&text, "apiserver_storage_objects", &[pods]),
            4.0,
        ),
        (
            "messages down",
            grown("cloudhub_messages_total", &[("direction", "down")]),
            3.0,
        ),
        (
            "messages up",
            grown("cloudhub_message_bytes_total", &[("direction", "up")]),
            1.0,
        ),
        (
            "nodes",
            value(&text, "KubeEdge_CloudHub_connected_nodes", &[]),
            2.0,
        ),
        (
            "sessions",
            value(
                &text,
                "cloudhub_sessions_total",
                &[("transport", "websocket")],
            ),
            2.0,
        ),
    ] {
        assert!(figure >= least, "{what}: {figure}, not {least}\n{text}");
    }
    cloud.node("edge-2").unwrap().stop().await;
    let text = eventually("one connected node", async || {
        let text = scrape(&client).await;
        let connected = value(&text, "KubeEdge_CloudHub_connected_nodes", &[]);
        if connected < 1.5 {
            Ok(text)
        } else {
            Err(connected)
        }
    })
    .await;
    // What the node had sent is still counted.
    assert!(
        value(&text, "cloudhub_messages_total", &[])
            >= value(&before, "cloudhub_messages_total", &[])
    );
    cloud.stop().await.unwrap();
}

#[test]
fn the_dashboard_asks_for_what_there_is_and_shows_all_of_it() {
    let dashboard: Value = serde_json::from_str(&docs("grafana-dashboard-cloudsim.json")).unwrap();
    let documented = documented_families();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut shown = BTreeSet::new();
    let targets = dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    for target in targets {
        let query = target["expr"].as_str().unwrap();
        // In a query, the metric's name precedes its labels.
        let asked = query
            .split('{')
            .filter_map(|part| part.rsplit(|letter| !is_name(letter)).next());
        let metrics: Vec<&str> = asked.filter(|name| name.contains('_')).collect();
        assert!(!metrics.is_empty(), "{query}");
        let (by, legend) = (
            query.split("by ("),
            target["legendFormat"].as_str().unwrap().split("{{"),
        );
        let by = by
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .flat_map(|list| list.split(','));
        let legend = legend.skip(1).filter_map(|rest| rest.split("}}").next());
        let labels: BTreeSet<&str> = by
            .map(str::trim)
            .chain(legend)
            .filter(|label| *label != "le")
            .collect();
        for metric in metrics {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| metric.strip_suffix(end));
            let name = if documented.contains_key(metric) {
                metric
            } else {
                base.unwrap_or(metric)
            };
            let family = documented
                .get(name)
                .unwrap_or_else(|| panic!("{metric} of {query} is no metric"));
            assert!(
                labels.iter().all(|label| family.labels.contains(*label)),
                "{labels:?} of {query}"
            );
            shown.insert(name.to_owned());
        }
    }
    let missing: Vec<_> = documented
        .keys()
        .filter(|name| !shown.contains(*name))
        .collect();
    assert!(missing.is_empty(), "not on the dashboard: {missing:?}");
    let variable = &dashboard["templating"]["list"][1]["query"];
    assert_eq!(
        variable,
        "label_values(KubeEdge_CloudHub_connected_nodes, instance)"
    );
}
