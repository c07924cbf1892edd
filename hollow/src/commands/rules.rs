//! `cloudsim rules`: lists the rules between the cloud and nodes, and sends a message through one.

use std::{collections::BTreeMap, process::ExitCode};

use crds::rules::Rule;
use http::Method;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    listing::{Column, Listing, Row, Rows, show},
    objects, print, print_line,
    remote::Remote,
};
use crate::cli::{Access, ListArgs, RulesCommand};

/// The longest error in the table, in characters.
const ERROR: usize = 80;

/// The response to a message.
#[derive(Deserialize, Serialize)]
struct Sent {
    status: u16,
    body: String,
}

impl Sent {
    /// Returns failure for an error status, so that scripts notice it.
    fn exit_code(&self) -> ExitCode {
        if self.status < 400 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

const COLUMNS: [Column; 7] = [
    Column::new("NAMESPACE"),
    Column::new("NAME"),
    Column::new("SOURCE"),
    Column::new("TARGET"),
    Column::new("DELIVERED"),
    Column::new("FAILED"),
    Column::new("LAST ERROR"),
];

pub(super) async fn run(
    access: &Access,
    list: ListArgs,
    command: Option<RulesCommand>,
) -> anyhow::Result<ExitCode> {
    let list = match command {
        None => list,
        Some(RulesCommand::List(more)) => list.or(more),
        Some(RulesCommand::Send {
            node,
            to,
            body,
            output,
        }) => {
            list.refuse_for("send")?;
            let cloud = Remote::of(access).await?;
            let message = json!({"to": to, "body": body});
            let sent: Sent = cloud
                .ask(Method::POST, &format!("rules/{node}"), &message)
                .await?;
            match output.format {
                Some(output) => print(output, &sent)?,
                None => print_line(&format!("{} {}", sent.status, sent.body.trim_end())),
            }
            return Ok(sent.exit_code());
        }
    };
    let cloud = Remote::of(access).await?;
    show(&list, async || listing(&cloud).await).await?;
    Ok(ExitCode::SUCCESS)
}

async fn listing(cloud: &Remote) -> anyhow::Result<Listing> {
    let mut warnings = Vec::new();
    let rules = objects::list::<Rule>(&cloud.client, &mut warnings).await?;
    Ok(Listing {
        document: json!({"rules": rules.iter().map(document).collect::<Vec<_>>()}),
        tables: vec![Rows {
            columns: &COLUMNS,
            rows: rules.iter().map(row).collect(),
            if_empty: "no rules; create one with `kubectl apply`",
        }],
        notes: Vec::new(),
        warnings,
    })
}

fn document(rule: &Rule) -> Value {
    json!({"namespace": rule.namespace(), "name": rule.name_any(), "spec": rule.spec, "status": rule.status})
}

fn row(rule: &Rule) -> Row {
    let status = rule.status.clone().unwrap_or_default();
    let error = status.errors.first().map_or("-", String::as_str);
    let (namespace, name) = (rule.namespace().unwrap_or_default(), rule.name_any());
    Row {
        name: format!("rule.rules.kubeedge.io/{name}"),
        id: format!("{namespace}/{name}"),
        document: document(rule),
        cells: vec![
            namespace,
            name,
            end(&rule.spec.source, &rule.spec.source_resource),
            end(&rule.spec.target, &rule.spec.target_resource),
            status.success_messages.unwrap_or_default().to_string(),
            status.fail_messages.unwrap_or_default().to_string(),
            short_text(error),
        ],
    }
}

/// Returns at most [`ERROR`] characters of an error, with a mark if there are more.
fn short_text(error: &str) -> String {
    let mut text: String = error.chars().take(ERROR).collect();
    if text.len() < error.len() {
        text.push('…');
    }
    text
}

/// Returns an endpoint and its resource as text.
fn end(endpoint: &str, resource: &BTreeMap<String, String>) -> String {
    let values: Vec<_> = resource.values().map(String::as_str).collect();
    format!("{endpoint} ({})", values.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_says_that_it_failed_is_a_failure() {
        let code = |status| {
            Sent {
                status,
                body: String::new(),
            }
            .exit_code()
        };
        for (status, success) in [
            (200, true),
            (302, true),
            (400, false),
            (404, false),
            (502, false),
        ] {
            assert_eq!(code(status) == ExitCode::SUCCESS, success, "{status}");
        }
    }

    #[test]
    fn every_rule_has_a_line() {
        let rules: Vec<Rule> = serde_json::from_value(json!([
            {"apiVersion": "rules.kubeedge.io/v1", "kind": "Rule", "metadata": {"name": "up", "namespace": "default"},
             "spec": {"source": "mqtt", "sourceResource": {"topic": "up", "node_name": "edge-1"},
                      "target": "rest", "targetResource": {"resource": "http://a/b"}},
             "status": {"successMessages": 3, "failMessages": 1, "errors": ["2026-01-01T00:00:00Z edge-1: no"]}},
            {"apiVersion": "rules.kubeedge.io/v1", "kind": "Rule", "metadata": {"name": "new", "namespace": "default"},
             "spec": {"source": "rest", "sourceResource": {"path": "a"}, "target": "mqtt", "targetResource": {"topic": "t"}}},
        ]))
        .unwrap();
        let lines: Vec<_> = rules.iter().map(|rule| row(rule).cells).collect();
        assert_eq!(
            lines[0],
            [
                "default",
                "up",
                "mqtt (edge-1, up)",
                "rest (http://a/b)",
                "3",
                "1",
                "2026-01-01T00:00:00Z edge-1: no"
            ]
        );
        assert_eq!(
            lines[1],
            ["default", "new", "rest (a)", "mqtt (t)", "0", "0", "-"]
        );
    }
}
