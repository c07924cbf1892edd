//! The chart says what it does: its table of values, its definitions and its rules are those that hold.

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};

use super::root;

/// Each value with its path and default. What has fields that the chart does not know is one value.
fn defaults(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() && !path.ends_with("resources") => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                defaults(&path, value, found);
            }
        }
        value => drop(found.insert(path.to_owned(), value.to_string())),
    }
}

#[test]
fn the_table_of_values_is_that_of_the_chart() {
    let chart = root().join("charts/cloudsim");
    let values = fs::read_to_string(chart.join("values.yaml")).unwrap();
    let mut expected = BTreeMap::new();
    defaults("", &serde_saphyr::from_str(&values).unwrap(), &mut expected);
    let readme = fs::read_to_string(chart.join("README.md")).unwrap();
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeMap<_, _> = rows
        .map(|row| {
            let (path, rest) = row.split_once("` | `").expect("a path and its default");
            let (default, _) = rest.split_once("` | ").expect("a default and its meaning");
            (path.to_owned(), default.to_owned())
        })
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn the_definitions_of_the_chart_are_those_of_this_version() {
    let mut count = 0;
    for entry in fs::read_dir(root().join("charts/cloudsim/crds")).unwrap() {
        let path = entry.unwrap().path();
        let own = root().join("crds/yaml").join(path.file_name().unwrap());
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            fs::read_to_string(own).unwrap(),
            "{}",
            path.display()
        );
        count += 1;
    }
    assert_eq!(count, 8);
}

#[test]
fn the_rules_of_the_chart_are_those_that_the_program_asks_for() {
    let of_chart = fs::read_to_string(root().join("charts/cloudsim/files/rules.yaml")).unwrap();
    let of_program =
        fs::read_to_string(root().join("cloudsim/src/cloud/backed/rules.yaml")).unwrap();
    assert_eq!(of_chart, of_program);
}

/// The objects of the chart with these values.
fn objects(values: &[&str]) -> Vec<Value> {
    let yaml = e2e::helm_template(&root().join("charts/cloudsim"), values).unwrap();
    let documents = yaml
        .split("\n---\n")
        .map(|text| text.trim_start_matches("---"));
    let parsed = documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    parsed.filter(|object| !object.is_null()).collect()
}

fn find<'a>(all: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    all.iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

#[test]
fn router_page_metrics_api_and_replicas_have_ports_names_and_services() {
    let (few, all) = (
        objects(&[]),
        objects(&[
            "router.enabled=true",
            "metricsApi.enabled=true",
            "ui.enabled=true",
            "networkPolicy.enabled=true",
        ]),
    );
    for (kind, name) in [
        ("Service", "cloudsim-router"),
        ("Service", "cloudsim-metrics-api"),
        ("Service", "cloudsim-ui"),
        ("APIService", "v1beta1.metrics.k8s.io"),
    ] {
        assert!(find(&few, kind, name).is_none(), "{name} is off by default");
        assert!(find(&all, kind, name).is_some(), "{name}");
    }
    let container = |all: &[Value]| {
        let cloud = find(all, "Deployment", "cloudsim").unwrap();
        cloud["spec"]["template"]["spec"]["containers"][0].clone()
    };
    let arguments = |container: &Value| {
        let arguments = container["args"].as_array().unwrap().iter();
        arguments
            .map(|word| word.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (cloud, default) = (container(&all), arguments(&container(&few)));
    for argument in ["--replica-port=10005", "--replica-address=$(POD_IP)"] {
        assert!(default.contains(&argument.to_owned()), "{default:?}");
    }
    let address = json!({"fieldRef": {"fieldPath": "status.podIP"}});
    assert_eq!(
        cloud["env"][0],
        json!({"name": "POD_IP", "valueFrom": address})
    );
    for argument in [
        "--router-port=9443",
        "--name=cloudsim-router.kubeedge.svc",
        "--metrics-api-port=10006",
        "--name=cloudsim-metrics-api.kubeedge.svc",
        "--ui-port=10007",
        "--name=cloudsim-ui.kubeedge.svc",
    ] {
        assert!(
            arguments(&cloud).contains(&argument.to_owned()),
            "{argument}"
        );
        assert!(!default.contains(&argument.to_owned()), "{argument}");
    }
    // each port of a Service is one of the container
    let names = |ports: &Value, field: &str| {
        let ports = ports.as_array().unwrap().iter();
        ports
            .map(|port| port[field].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let ports = names(&cloud["ports"], "name");
    let services = all.iter().filter(|object| object["kind"] == "Service");
    for port in services.flat_map(|service| names(&service["spec"]["ports"], "targetPort")) {
        assert!(ports.contains(&port), "{port}");
    }
    // other replicas are the only ones that reach their port
    let policy = find(&all, "NetworkPolicy", "cloudsim").unwrap();
    let ingress = policy["spec"]["ingress"].as_array().unwrap();
    let opens =
        |rule: &&Value, port: &str| names(&rule["ports"], "port").contains(&port.to_owned());
    for port in ["router", "metrics-api", "streams", "ui"] {
        assert!(ingress.iter().any(|rule| opens(&rule, port)), "{port}");
    }
    for rule in ingress.iter().filter(|rule| opens(rule, "replicas")) {
        let component =
            &rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"];
        assert_eq!(component, "cloud");
    }
}
