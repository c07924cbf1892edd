//! `cloudsim rules`: lists the rules between the cloud and nodes, and sends a message through one.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context;
use crds::rules::Rule;
use http::Method;
use kube::{Api, ResourceExt, api::ListParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{print, print_line, remote::Remote, table::Table};
use crate::cli::{Access, Output, RulesCommand};

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

pub(super) async fn run(
    access: &Access,
    output: Option<Output>,
    command: Option<RulesCommand>,
) -> anyhow::Result<ExitCode> {
    let cloud = Remote::of(access).await?;
    if let Some(RulesCommand::Send { node, to, body }) = command {
        let sent: Sent = cloud
            .ask(
                Method::POST,
                &format!("rules/{node}"),
                &json!({"to": to, "body": body}),
            )
            .await?;
        match output {
            Some(output) => print(output, &sent)?,
            None => print_line(&format!("{} {}", sent.status, sent.body.trim_end())),
        }
        return Ok(sent.exit_code());
    }
    let rules = Api::<Rule>::all(cloud.client.clone())
        .list(&ListParams::default())
        .await;
    let rules = rules.context("cannot list rules")?;
    match output {
        Some(output) => print(
            output,
            &json!({"rules": rules.iter().map(document).collect::<Vec<_>>()}),
        )?,
        None => print_line(table(&rules.items).to_string().trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn document(rule: &Rule) -> Value {
    json!({"namespace": rule.namespace(), "name": rule.name_any(), "spec": rule.spec, "status": rule.status})
}

fn table(rules: &[Rule]) -> Table {
    let mut table = Table::new(&[
        "NAMESPACE",
        "NAME",
        "SOURCE",
        "TARGET",
        "DELIVERED",
        "FAILED",
        "LAST ERROR",
    ]);
    for rule in rules {
        let status = rule.status.clone().unwrap_or_default();
        let error = status.errors.first().map_or("-", String::as_str);
        table.row(vec![
            rule.namespace().unwrap_or_default(),
            rule.name_any(),
            end(&rule.spec.source, &rule.spec.source_resource),
            end(&rule.spec.target, &rule.spec.target_resource),
            status.success_messages.unwrap_or_default().to_string(),
            status.fail_messages.unwrap_or_default().to_string(),
            error.chars().take(ERROR).collect(),
        ]);
    }
    table
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
        let told = table(&rules).to_string();
        let lines: Vec<_> = told
            .lines()
            .map(|line| {
                line.split("   ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            lines[1],
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
            lines[2],
            ["default", "new", "rest (a)", "mqtt (t)", "0", "0", "-"]
        );
    }
}
