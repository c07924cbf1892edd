//! The names of metrics: what a running agent serves, what docs/metrics.md says of it, and what the dashboard asks for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::atomic::{AtomicU16, Ordering},
};

use e2e::scrape::{self, find};
use rumqttc::{AsyncClient, Broker, Event, EventLoop, Incoming, MqttOptions, PublishOptions, QoS};
use serde_json::{Value, json};
use tests::{
    Setup, World, eventually,
    manifests::{device, device_model, pod},
    within,
};
use wire::dmi::{
    MapperInfo, MapperRegisterRequest, device_manager_service_client::DeviceManagerServiceClient,
};

/// The pages that have metrics.
const PAGES: [&str; 4] = [
    "/metrics",
    "/metrics/resource",
    "/metrics/cadvisor",
    "/metrics/probes",
];
/// What Prometheus adds to every series.
const OF_PROMETHEUS: [&str; 2] = ["instance", "le"];

/// A row of the table, or what is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    /// Whether it may be missing.
    sometimes: bool,
}

/// Families by page and name.
type Families = BTreeMap<(String, String), Family>;

fn docs(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join("docs")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tables below the headings that name pages.
fn documented_families() -> Families {
    let (mut page, mut families) = (String::new(), Families::new());
    for line in docs("metrics.md").lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            page = heading.to_owned();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, _, when, _] = cells[..] else {
            continue;
        };
        let Some(name) = name.strip_prefix('`') else {
            continue;
        };
        let words = |text: &str| {
            let words = text
                .split(',')
                .map(|word| word.trim().trim_matches('`').to_owned());
            words.filter(|word| !word.is_empty()).collect()
        };
        let family = Family {
            kind: kind.to_owned(),
            labels: words(labels),
            sometimes: !when.is_empty(),
        };
        let before = families.insert((page.clone(), name.trim_matches('`').to_owned()), family);
        assert_eq!(before, None, "{name} stands twice under {page}");
    }
    families
}

/// What the agent serves.
async fn served_families(address: SocketAddr) -> Families {
    let mut families = Families::new();
    for page in PAGES {
        let answer = ask(address, page).await.unwrap();
        let samples = answer.clone().samples().unwrap();
        for line in answer
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
        {
            let (name, kind) = line.split_once(' ').unwrap();
            let ends = if kind == "histogram" {
                vec!["_bucket", "_sum", "_count"]
            } else {
                vec![""]
            };
            let names: Vec<String> = ends.iter().map(|end| format!("{name}{end}")).collect();
            let own = samples.iter().filter(|sample| names.contains(&sample.name));
            let labels = own
                .flat_map(|sample| sample.labels.keys().cloned())
                .filter(|label| label != "le");
            let family = Family {
                kind: kind.to_owned(),
                labels: labels.collect(),
                sometimes: false,
            };
            families.insert((page.to_owned(), name.to_owned()), family);
        }
    }
    families
}

async fn ask(address: SocketAddr, path: &str) -> Result<scrape::Answer, String> {
    let path = path.to_owned();
    let asked = tokio::task::spawn_blocking(move || scrape::get(address, &path))
        .await
        .unwrap();
    asked.map_err(|error| format!("{error:#}"))
}

/// A node with everything that has metrics.
async fn world() -> (World, SocketAddr) {
    // an address of this process alone, and a port of this test: several may run in one process
    static WORLDS: AtomicU16 = AtomicU16::new(0);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = 10_350 + WORLDS.fetch_add(1, Ordering::Relaxed);
    let address = (Ipv4Addr::new(127, 128 + high % 64, middle, low), port).into();
    let event_bus =
        json!({"enable": true, "mqttMode": 0, "mqttServerInternal": "tcp://127.0.0.1:0"});
    let world = World::with(Setup {
        event_bus,
        server: Some(address),
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    (world, address)
}

async fn mqtt(world: &World) -> (AsyncClient, EventLoop) {
    let address = world.nodes[0]
        .broker()
        .await
        .expect("the agent has a broker");
    let options = MqttOptions::new(
        "mapper",
        Broker::tcp(address.ip().to_string(), address.port()),
    );
    let (client, mut events) = AsyncClient::builder(options).capacity(64).build();
    client
        .subscribe("$hw/events/#", QoS::AtLeastOnce)
        .await
        .unwrap();
    let subscribed = async {
        while !matches!(
            events.poll().await.unwrap(),
            Event::Incoming(Incoming::SubAck(_))
        ) {}
    };
    within("the subscription", subscribed).await;
    (client, events)
}

/// Registers as a mapper, once well and once not.
async fn register(world: &World) {
    let socket = world.nodes[0].directory().join("dmi.sock");
    let connector = tower::service_fn(move |_: tonic::transport::Uri| {
        let socket = socket.clone();
        async move {
            tokio::net::UnixStream::connect(socket)
                .await
                .map(hyper_util::rt::TokioIo::new)
        }
    });
    let channel = tonic::transport::Endpoint::from_static("http://agent")
        .connect_with_connector(connector)
        .await
        .unwrap();
    let mut agent = DeviceManagerServiceClient::new(channel);
    let request = |name: &str| MapperRegisterRequest {
        with_data: false,
        mapper: Some(MapperInfo {
            name: name.into(),
            protocol: "other".into(),
            address: b"/nowhere.sock".to_vec().into(),
            ..MapperInfo::default()
        }),
    };
    agent.mapper_register(request("mapper")).await.unwrap();
    agent.mapper_register(request("")).await.unwrap_err();
}

#[tokio::test]
async fn what_is_served_is_what_is_documented() {
    let (world, address) = world().await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["resources"] =
        json!({"limits": {"memory": "64Mi", "cpu": "250m"}});
    manifest["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    world.run(&manifest).await;
    register(&world).await;
    let documented = documented_families();
    eventually("all that is always there, and more", async || {
        let served = served_families(address).await;
        for (place, family) in &served {
            let wanted = documented
                .get(place)
                .ok_or(format!("{place:?} is not in docs/metrics.md"))?;
            if (&wanted.kind, &wanted.labels) != (&family.kind, &family.labels) {
                return Err(format!(
                    "{place:?} is {family:?}, but docs/metrics.md has {wanted:?}"
                ));
            }
        }
        let missing = |(place, family): &(&(String, String), &Family)| {
            !family.sometimes && !served.contains_key(*place)
        };
        let missing: Vec<_> = documented.iter().filter(missing).collect();
        // most of what is there sometimes is there now, but for EdgeMesh, which is not switched on
        let ordinary = documented
            .keys()
            .filter(|(_, name)| !name.starts_with("edgemesh_"))
            .count();
        let is_full = served.len() + 14 >= ordinary;
        if missing.is_empty() && is_full {
            Ok(())
        } else {
            Err(format!("{missing:?}, {} served", served.len()))
        }
    })
    .await;
}

/// Updates the device's twin until both good and bad values were answered: how many good ones were, how many bad ones, and how many there
/// were in all, those included that came before the device.
async fn update_twin(client: &AsyncClient, events: &mut EventLoop) -> (u32, u32, u32) {
    let topic = "$hw/events/device/default/t1/twin/update";
    let temperature = |event: &str, value: &str| {
        let twin = json!({"temperature": {"actual": {"value": value}}});
        json!({"event_id": event, "timestamp": 0, "twin": twin}).to_string()
    };
    // the device comes with its own time
    let mut answers = BTreeMap::<&str, u32>::new();
    let mut number = 0_u32;
    while !answers.contains_key("well") || !answers.contains_key("badly") {
        number += 1;
        let (event, value) = if number.is_multiple_of(2) {
            ("well", "20")
        } else {
            ("badly", "hot")
        };
        client
            .publish(
                topic,
                temperature(event, value),
                PublishOptions::new(QoS::AtLeastOnce),
            )
            .await
            .unwrap();
        within("an answer", async {
            loop {
                if let Event::Incoming(Incoming::Publish(message)) = events.poll().await.unwrap()
                    && message.topic.ends_with(b"twin/update/result")
                {
                    let answer: Value = serde_json::from_slice(&message.payload).unwrap();
                    let code = answer.get("code").and_then(Value::as_u64).unwrap_or(200);
                    if code != 404 {
                        *answers
                            .entry(if code == 200 { "well" } else { "badly" })
                            .or_default() += 1;
                    }
                    break;
                }
            }
        })
        .await;
    }
    (answers["well"], answers["badly"], number)
}

/// Cuts the node's link and restores it: how many connections there had been.
async fn reconnect(world: &World, address: SocketAddr) -> f64 {
    let page = ask(address, "/metrics").await.unwrap().samples().unwrap();
    let connections = find(&page, "edgehub_connections_total", &[]).unwrap().value;
    world.cloud().faults().cut_link("edge-1");
    world.until_connected(0, false).await;
    let page = ask(address, "/metrics").await.unwrap().samples().unwrap();
    assert!(find(&page, "edgehub_connected", &[]).unwrap().value < 0.5);
    world.cloud().faults().restore("edge-1");
    world.until_connected(0, true).await;
    connections
}

#[tokio::test]
async fn figures_follow_what_happens() {
    let (world, address) = world().await;
    let (client, mut events) = mqtt(&world).await;
    world.apply(&device_model()).await;
    world.apply(&device("t1", "edge-1", None)).await;
    register(&world).await;
    let (well, badly, all) = update_twin(&client, &mut events).await;
    let connections = reconnect(&world, address).await;
    eventually("the figures", async || {
        let page = ask(address, "/metrics")
            .await?
            .samples()
            .map_err(|error| format!("{error:#}"))?;
        let of = |name: &str, labels: &[(&str, &str)]| {
            find(&page, name, labels)
                .map(|sample| sample.value)
                .map_err(|error| format!("{error:#}"))
        };
        let done = f64::from(well);
        let bad = f64::from(badly);
        let seen = [
            ("a client", of("mqtt_clients", &[])?, 1.0),
            ("a device", of("devicetwin_devices", &[])?, 1.0),
            ("a mapper", of("dmi_mappers", &[])?, 1.0),
            (
                "requests",
                of("devicetwin_requests_total", &[("result", "done")])?,
                done,
            ),
            (
                "bad requests",
                of("devicetwin_requests_total", &[("result", "bad_request")])?,
                bad,
            ),
            (
                "messages in",
                of(
                    "eventbus_messages_received_total",
                    &[("broker", "internal")],
                )?,
                f64::from(all),
            ),
            (
                "the broker",
                of("eventbus_broker_connected", &[("broker", "internal")])?,
                1.0,
            ),
            (
                "a registration",
                of(
                    "dmi_calls_total",
                    &[("method", "MapperRegister"), ("result", "ok")],
                )?,
                1.0,
            ),
            (
                "a refusal",
                of(
                    "dmi_calls_total",
                    &[("method", "MapperRegister"), ("result", "error")],
                )?,
                1.0,
            ),
            (
                "the bound",
                of(
                    "edge_agent_queue_capacity",
                    &[("queue", "eventbus/requests")],
                )?,
                1024.0,
            ),
            ("the link", of("edgehub_connected", &[])?, 1.0),
        ];
        let wrong: Vec<_> = seen
            .into_iter()
            .filter(|(_, is, wanted)| is != wanted)
            .collect();
        let reported = of("devicetwin_reports_total", &[])?;
        let is_new = of("edgehub_connections_total", &[])? > connections;
        if wrong.is_empty() && is_new && reported >= 1.0 {
            Ok(())
        } else {
            Err(format!(
                "{wrong:?}, {reported} reported, connected anew: {is_new}"
            ))
        }
    })
    .await;
}

/// The names of metrics and the labels of them in a query.
fn query_names(query: &str, names: &BTreeSet<String>) -> (BTreeSet<String>, BTreeSet<String>) {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        words
            .filter(|word| word.contains('_'))
            .map(str::to_owned)
            .collect()
    };
    let known = |word: &str| {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| word.strip_suffix(end));
        names.get(word).or_else(|| names.get(base?)).cloned()
    };
    // functions have names, too
    let functions = ["histogram_quantile", "label_values"];
    let mut metrics = BTreeSet::new();
    for word in words(query)
        .into_iter()
        .filter(|word| !functions.contains(&word.as_str()))
    {
        metrics.insert(
            known(&word)
                .unwrap_or_else(|| panic!("{word} of {query} is no metric in docs/metrics.md")),
        );
    }
    let by = query
        .split("by (")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let labels = by.flat_map(|list| list.split(',').map(|label| label.trim().to_owned()));
    (metrics, labels.collect())
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let dashboard: Value = serde_json::from_str(&docs("grafana-dashboard.json")).unwrap();
    let documented = documented_families();
    let names: BTreeSet<String> = documented
        .keys()
        .filter(|(page, _)| page == "/metrics")
        .map(|(_, name)| name.clone())
        .collect();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut shown = BTreeSet::new();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    for target in targets {
        let (metrics, mut labels) = query_names(target["expr"].as_str().unwrap(), &names);
        assert!(!metrics.is_empty(), "{target}");
        let legend = target["legendFormat"].as_str().unwrap();
        labels.extend(
            legend
                .split("{{")
                .skip(1)
                .filter_map(|rest| Some(rest.split("}}").next()?.to_owned())),
        );
        for label in labels
            .iter()
            .filter(|label| !OF_PROMETHEUS.contains(&label.as_str()))
        {
            let has = |name: &String| {
                documented[&("/metrics".to_owned(), name.clone())]
                    .labels
                    .contains(label)
            };
            assert!(metrics.iter().any(has), "{label} of {target}");
        }
        shown.extend(metrics);
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            query_names(
                variable["query"]
                    .as_str()
                    .unwrap()
                    .replace(", instance", "")
                    .as_str(),
                &names,
            );
        }
    }
    // what is worth an alert is shown
    let own = names.iter().filter(|name| {
        ["devicetwin_", "dmi_", "eventbus_", "edge_agent_"]
            .iter()
            .any(|part| name.starts_with(part))
    });
    let missing: Vec<_> = own
        .filter(|name| !shown.contains(*name) && *name != "devicetwin_device_models")
        .collect();
    assert!(missing.is_empty(), "not on the dashboard: {missing:?}");
}
