//! `cloudsim faults`: shows and changes the deliberate faults of a running cloud.

use std::time::Duration;

use anyhow::{Context, bail};
use cloudsim::faults::{Conditions, FaultTarget, Link, Period, Profile, Shape};
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use wire::text::count;

use super::{
    listing::{Column, Listing, Row, Rows, show},
    nearest,
    nodes::sessions,
    print, print_line,
    remote::Remote,
};
use crate::cli::{Access, Bad, FaultsCommand, ListArgs, ListFormat, Output};

const COLUMNS: [Column; 3] = [
    Column::new("TARGET"),
    Column::new("FAULT"),
    Column::wide("ID"),
];
const PROFILE_COLUMNS: [Column; 2] = [Column::new("PROFILE"), Column::new("CONDITIONS")];
const MESSAGE_COLUMNS: [Column; 2] = [Column::new("MESSAGE"), Column::new("CONTENT")];

/// How long one malformed message may take, with the time until the node is connected again.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the same message is sent to a session that ends before it is written completely.
const SEND_ATTEMPTS: u32 = 2;
/// How long a node may take to end its session because of a message.
const REACTION_TIME: Duration = Duration::from_millis(200);
/// How often it is checked whether the node is connected.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) async fn run(
    access: &Access,
    format: Option<ListFormat>,
    command: Option<FaultsCommand>,
) -> anyhow::Result<()> {
    let once = ListArgs {
        output: format,
        watch: false,
    };
    let command = match command {
        Some(FaultsCommand::Profiles) => return show(&once, async || profiles()).await,
        Some(FaultsCommand::Messages) => return show(&once, async || Ok(messages())).await,
        None => return list(access, &once).await,
        Some(FaultsCommand::List { watch }) => {
            return list(access, &ListArgs { watch, ..once }).await;
        }
        Some(command) => command,
    };
    if let FaultsCommand::Set { bad, .. } = &command {
        parse_conditions(bad)?;
    }
    let cloud = standalone(access).await?;
    let set = async |whom: &FaultTarget, conditions: Conditions| {
        if let FaultTarget::Node(node) = whom {
            check_known(&cloud, node).await?;
        }
        cloud
            .ask::<Value>(Method::POST, &format!("faults/{whom}"), &conditions)
            .await
    };
    let active = match command {
        FaultsCommand::Set { whom, bad } => set(&whom, parse_conditions(&bad)?).await?,
        FaultsCommand::Cut { whom, lasting } => set(&whom, link(Link::Cut, lasting)).await?,
        FaultsCommand::HalfOpen { whom, lasting } => {
            set(&whom, link(Link::HalfOpen, lasting)).await?
        }
        FaultsCommand::Restore { whom } => {
            if let Some(FaultTarget::Node(node)) = &whom {
                restorable(&cloud, node).await?;
            }
            let path = whom.map_or_else(|| "faults".to_owned(), |whom| format!("faults/{whom}"));
            cloud.ask(Method::DELETE, &path, &()).await?
        }
        FaultsCommand::Certificate {
            certificate,
            lasting: Some(lasting),
        } => {
            let conditions = Conditions {
                certificate: Some(certificate),
                lasting: Some(lasting),
                ..Conditions::default()
            };
            set(&FaultTarget::All, conditions).await?
        }
        FaultsCommand::Certificate { certificate, .. } => {
            cloud
                .ask(
                    Method::PUT,
                    "certificate",
                    &json!({"certificate": certificate}),
                )
                .await?
        }
        FaultsCommand::Answers { answers } => {
            cloud
                .ask(Method::PUT, "answers", &json!({"answers": answers}))
                .await?
        }
        FaultsCommand::Send { node, messages } => {
            return send(&cloud, document_format(format)?, &node, &messages).await;
        }
        // done above
        FaultsCommand::List { .. } | FaultsCommand::Profiles | FaultsCommand::Messages => {
            return Ok(());
        }
    };
    show(&once, async || Ok(listing(active.clone()))).await
}

fn link(link: Link, lasting: Option<Period>) -> Conditions {
    Conditions {
        lasting,
        ..Conditions::link(link)
    }
}

/// Returns the format of the result of `send`, which is no list.
fn document_format(format: Option<ListFormat>) -> anyhow::Result<Option<Output>> {
    let document = |format: ListFormat| {
        let document = format.document();
        document.context("--output wide and name are for lists; after `send`, choose json or yaml")
    };
    format.map(document).transpose()
}

/// Connects to a cloud that has faults.
async fn standalone(access: &Access) -> anyhow::Result<Remote> {
    let cloud = Remote::of(access).await?;
    if cloud.is_a_cluster().await? {
        bail!(
            "faults are for standalone mode, `cloudsim up` without --kube-context; this cloud is in cluster mode"
        );
    }
    Ok(cloud)
}

async fn list(access: &Access, list: &ListArgs) -> anyhow::Result<()> {
    let cloud = standalone(access).await?;
    show(list, async || {
        Ok(listing(cloud.ask(Method::GET, "faults", &()).await?))
    })
    .await
}

/// Returns a row for each fault.
fn listing(active: Value) -> Listing {
    let row = |fault: &Value| {
        let target = fault["target"].as_str().unwrap_or_default();
        let name = match target {
            "all" => target.to_owned(),
            node => format!("node/{node}"),
        };
        let mut conditions = fault.clone();
        if let Some(fields) = conditions.as_object_mut() {
            fields.retain(|name, _| !["id", "target", "since", "until"].contains(&name.as_str()));
        }
        Row {
            id: target.to_owned(),
            document: fault.clone(),
            cells: vec![name.clone(), words(&conditions), fault["id"].to_string()],
            name,
        }
    };
    let faults = active["faults"].as_array().into_iter().flatten();
    let rows = faults.map(row).collect();
    let token = active["token"].as_str();
    Listing {
        tables: vec![Rows {
            columns: &COLUMNS,
            rows,
            if_empty: "no faults; inject one with `cloudsim faults set`, `cut` or `half-open`",
        }],
        notes: token
            .map(|token| format!("new join token: {token}"))
            .into_iter()
            .collect(),
        document: active,
        warnings: Vec::new(),
    }
}

/// Returns a value without the marks of JSON, and with units.
fn words(value: &Value) -> String {
    let mut value = value.clone();
    if let Some(rate) = value["throttle"].as_u64() {
        value["throttle"] = match rate % 1024 {
            0 => format!("{} KiB/s", rate / 1024),
            _ => format!("{rate} B/s"),
        }
        .into();
    }
    let text = value.to_string();
    text.replace(['{', '}', '"'], "").replace(',', "  ")
}

/// Returns the conditions that were given; none at all would remove those that the link has.
fn parse_conditions(bad: &Bad) -> anyhow::Result<Conditions> {
    let conditions = bad.conditions();
    if conditions.is_perfect() {
        bail!(
            "name a condition, for example --delay 300ms or --drop 0.05; `cloudsim faults restore` removes them all"
        );
    }
    Ok(conditions)
}

/// Fails for a node that is unknown and has no conditions either, as one that was deleted may have.
async fn restorable(cloud: &Remote, node: &str) -> anyhow::Result<()> {
    let active: Value = cloud.ask(Method::GET, "faults", &()).await?;
    let mut faults = active["faults"].as_array().into_iter().flatten();
    if faults.any(|fault| fault["target"] == node) {
        Ok(())
    } else {
        check_known(cloud, node).await
    }
}

/// Fails for an unknown node: a mistyped name would be a fault that never takes effect.
async fn check_known(cloud: &Remote, node: &str) -> anyhow::Result<()> {
    let registered = Api::<Node>::all(cloud.client.clone())
        .list_metadata(&ListParams::default())
        .await;
    let registered = registered.context("cannot list nodes")?;
    let mut names: Vec<String> = registered.iter().map(ResourceExt::name_any).collect();
    let connected = sessions(cloud).await?.sessions;
    names.extend(connected.into_iter().map(|session| session.node));
    if names.iter().any(|name| name == node) {
        return Ok(());
    }
    bail!(
        "the cloud has no node {node}{}; `cloudsim nodes` lists all nodes",
        nearest(node, names.iter().map(String::as_str))
    )
}

/// Sends malformed messages, one after the other.
async fn send(
    cloud: &Remote,
    output: Option<Output>,
    node: &str,
    shapes: &[Shape],
) -> anyhow::Result<()> {
    check_known(cloud, node).await?;
    if !is_connected(cloud, node).await? {
        bail!("node {node} is not connected; `cloudsim nodes` lists connected nodes");
    }
    let shapes = match shapes {
        [] => Shape::ALL,
        some => some,
    };
    let mut outcomes = Vec::new();
    let mut failed = 0;
    for shape in shapes {
        let name = shape.name();
        match send_one(cloud, node, *shape).await {
            Ok(()) => {
                outcomes.push(json!({"message": name, "sent": true}));
                print_outcome(output, &format!("{name:<18} sent to {node}"));
            }
            Err(error) => {
                failed += 1;
                outcomes
                    .push(json!({"message": name, "sent": false, "error": format!("{error:#}")}));
                print_outcome(output, &format!("{name:<18} not sent: {error:#}"));
            }
        }
    }
    if let Some(output) = output {
        print(output, &json!({"node": node, "messages": outcomes}))?;
    }
    if failed > 0 {
        bail!(
            "{failed} of {} were not sent to {node}",
            count(shapes.len(), "message")
        );
    }
    Ok(())
}

/// Sends one message when the node is connected. Many messages make a node end its session: it is connected again in a moment, and
/// a message for a session that just ends is sent again.
async fn send_one(cloud: &Remote, node: &str, shape: Shape) -> anyhow::Result<()> {
    let body = json!({"shape": shape});
    let path = format!("hostile/{node}");
    let mut attempts = 0;
    let sending = async {
        loop {
            while !is_connected(cloud, node).await? {
                sleep(POLL_INTERVAL).await;
            }
            attempts += 1;
            match cloud.ask::<Value>(Method::POST, &path, &body).await {
                Ok(_) => break,
                // the node does not wait for the end of a message that it refuses
                Err(_) if attempts == SEND_ATTEMPTS && shape.may_end_session() => break,
                Err(error) if attempts == SEND_ATTEMPTS => return Err(error),
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        }
        sleep(REACTION_TIME).await;
        Ok(())
    };
    match timeout(SEND_TIMEOUT, sending).await {
        Ok(sent) => sent,
        Err(_) => bail!(
            "node {node} was not connected again within {} s; see its log",
            SEND_TIMEOUT.as_secs()
        ),
    }
}

async fn is_connected(cloud: &Remote, node: &str) -> anyhow::Result<bool> {
    let sessions = sessions(cloud).await?.sessions;
    Ok(sessions.iter().any(|session| session.node == node))
}

/// Prints a line for people; programs get a document at the end.
fn print_outcome(output: Option<Output>, line: &str) {
    if output.is_none() {
        print_line(line);
    }
}

fn profiles() -> anyhow::Result<Listing> {
    let row = |profile: Profile| {
        let (name, conditions) = (profile.name(), Conditions::of_profile(profile));
        let conditions = serde_json::to_value(conditions)?;
        Ok(Row {
            name: format!("profile/{name}"),
            id: name.to_owned(),
            cells: vec![name.to_owned(), words(&conditions)],
            document: json!({"name": name, "conditions": conditions}),
        })
    };
    let rows = Profile::ALL.into_iter().map(row);
    let rows = rows.collect::<anyhow::Result<Vec<Row>>>()?;
    Ok(catalogue("profiles", &PROFILE_COLUMNS, rows))
}

fn messages() -> Listing {
    let row = |shape: &Shape| Row {
        name: format!("message/{}", shape.name()),
        id: shape.name().to_owned(),
        cells: vec![shape.name().to_owned(), shape.about().to_owned()],
        document: json!({"name": shape.name(), "about": shape.about()}),
    };
    catalogue(
        "messages",
        &MESSAGE_COLUMNS,
        Shape::ALL.iter().map(row).collect(),
    )
}

/// Returns a list that does not depend on a cloud.
fn catalogue(name: &str, columns: &'static [Column], rows: Vec<Row>) -> Listing {
    let documents: Vec<&Value> = rows.iter().map(|row| &row.document).collect();
    Listing {
        document: json!({name: documents}),
        tables: vec![Rows {
            columns,
            rows,
            if_empty: "",
        }],
        notes: Vec::new(),
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestCloud;

    #[test]
    fn list_has_a_row_for_each_target_with_a_fault() {
        let active = json!({"faults": [
            {"id": 1, "target": "all", "since": "x", "certificate": "expired"},
            {"id": 2, "target": "all", "since": "x", "delay": "10ms", "throttle": 65536},
            {"id": 3, "target": "edge-1", "since": "x", "link": "cut"},
        ]});
        let rows = listing(active).tables.remove(0).rows;
        let lines: Vec<String> = rows.iter().map(|row| row.cells.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "all certificate:expired 1",
                "all delay:10ms  throttle:64 KiB/s 2",
                "node/edge-1 link:cut 3"
            ]
        );
        let none = json!({"seed": 1, "certificate": "genuine", "answers": "genuine", "faults": []});
        assert!(listing(none).tables[0].rows.is_empty());
    }

    #[tokio::test]
    async fn a_link_gets_conditions_that_are_given_and_loses_those_of_a_node_that_is_known() {
        let cloud = TestCloud::builder().nodes(1).start().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, cloud.kubeconfig()).unwrap();
        let access = Access {
            kubeconfig: Some(file),
            context: None,
        };
        let order = async |command| run(&access, None, Some(command)).await;
        let whom = |name: &str| FaultTarget::Node(name.to_owned());
        let set = |bad| FaultsCommand::Set {
            whom: whom("edge-1"),
            bad: Box::new(bad),
        };
        let slow = Bad {
            delay: Some("10ms".parse().unwrap()),
            ..Bad::default()
        };
        order(set(slow)).await.unwrap();
        let refused = order(set(Bad::default())).await.unwrap_err().to_string();
        assert!(
            refused.contains("name a condition") && refused.contains("faults restore"),
            "{refused}"
        );
        let remote = Remote::of(&access).await.unwrap();
        let active = async || {
            remote
                .ask::<Value>(Method::GET, "faults", &())
                .await
                .unwrap()["faults"]
                .clone()
        };
        let found = active().await;
        assert_eq!(found.as_array().map(Vec::len), Some(1));
        assert_eq!(found[0]["delay"], "10ms");
        let restore = |name: &str| FaultsCommand::Restore {
            whom: Some(whom(name)),
        };
        for command in [
            restore("nosuch"),
            FaultsCommand::Cut {
                whom: whom("nosuch"),
                lasting: None,
            },
        ] {
            let refused = order(command).await.unwrap_err().to_string();
            assert!(refused.contains("no node nosuch"), "{refused}");
        }
        let near = order(FaultsCommand::Cut {
            whom: whom("egde-1"),
            lasting: None,
        });
        let near = near.await.unwrap_err().to_string();
        assert!(near.contains("did you mean edge-1?"), "{near}");
        for format in [ListFormat::Wide, ListFormat::Name] {
            let send = FaultsCommand::Send {
                node: "edge-1".to_owned(),
                messages: Vec::new(),
            };
            let wrong = run(&access, Some(format), Some(send)).await;
            let wrong = wrong.unwrap_err().to_string();
            assert!(wrong.contains("json or yaml"), "{wrong}");
        }
        // after the first of these, the node ends its session
        let broken = [
            Shape::NotJson,
            Shape::AnnouncedLength,
            Shape::NotText,
            Shape::Null,
        ];
        let send = FaultsCommand::Send {
            node: "edge-1".to_owned(),
            messages: broken.to_vec(),
        };
        testkit::within("all messages are sent", order(send))
            .await
            .unwrap();
        // the conditions of a node that is no more are removed like others
        let gone = json!({"delay": "10ms"});
        remote
            .ask::<Value>(Method::PUT, "faults/gone", &gone)
            .await
            .unwrap();
        order(restore("gone")).await.unwrap();
        order(restore("edge-1")).await.unwrap();
        assert_eq!(active().await, json!([]));
    }
}
