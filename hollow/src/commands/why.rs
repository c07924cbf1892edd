//! `cloudsim why`: prints the steps of an object, and the first one that is missing.

use std::process::ExitCode;

use agent::{cli::Output, terminal::wrap};
use anyhow::anyhow;
use cloudsim::why::{Chain, HubFacts, StepState, WhyError, explain};
use http::Method;
use serde_json::Value;

use super::{nodes, output, print, remote::Remote};
use crate::cli::{Access, ExplainedObject};

/// The width of the column with the names of steps.
const NAME: usize = 11;
/// The width of a text.
const TEXT: usize = 96;

/// Prints the steps; the code is 1 if one is missing.
pub(super) async fn run(
    access: &Access,
    object: &ExplainedObject,
    namespace: Option<&str>,
    output: Option<Output>,
) -> anyhow::Result<ExitCode> {
    let cloud = Remote::of(access).await?;
    let namespace = namespace.unwrap_or_else(|| cloud.client.default_namespace());
    let hub = HubFacts {
        sessions: nodes::sessions(&cloud).await?,
        // a cloud in cluster mode has none
        faults: cloud
            .ask(Method::GET, "faults", &())
            .await
            .unwrap_or(Value::Null),
    };
    let place = (namespace, object.name.as_str());
    let chain = explain(&cloud.client, &hub, object.kind, place).await;
    let chain = chain.map_err(|error| match error {
        WhyError::NotFound { .. } => {
            anyhow!("{error}; choose another namespace with --namespace")
        }
        error => error.into(),
    })?;
    let name = format!("{}/{}", object.kind.as_str(), object.name);
    match output {
        Some(format) => print(format, &chain.document(&name))?,
        None => {
            for line in lines(&chain, &name) {
                output::print_line(&line);
            }
        }
    }
    Ok(match chain.missing() {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

/// Returns the chain for people.
fn lines(chain: &Chain, object: &str) -> Vec<String> {
    let mut lines = vec![format!("{object}:")];
    let mut after = Vec::new();
    for step in chain.steps() {
        let word = match step.state {
            StepState::Ok => "ok",
            StepState::Missing => "MISSING",
            // they are named in one line
            StepState::Unknown => {
                after.push(step.name);
                continue;
            }
        };
        let mut head = format!("  {word:<8} {:<NAME$} ", step.name);
        for line in wrap(&step.text, TEXT) {
            lines.push(format!("{head}{line}").trim_end().to_owned());
            head = " ".repeat(head.len());
        }
        if let Some(fix) = &step.fix {
            let mut arrow = "→ ";
            for line in wrap(fix, TEXT - 2) {
                lines.push(format!("{head}{arrow}{line}"));
                arrow = "  ";
            }
        }
    }
    if !after.is_empty() {
        let (sign, name) = ("-", "after it");
        lines.push(format!("  {sign:<8} {name:<NAME$} {}", after.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_after_the_first_missing_one_are_named_in_one_line() {
        let mut chain = Chain::default();
        chain.step("created", || Ok("3m ago".to_owned()));
        chain.step("scheduled", || {
            Err(("no node fits".to_owned(), "add a node that fits".to_owned()))
        });
        chain.step("node", || unreachable!());
        chain.step("image", || unreachable!());
        let expected = [
            "pod/hello:",
            "  ok       created     3m ago",
            "  MISSING  scheduled   no node fits",
            "                       → add a node that fits",
            "  -        after it    node, image",
        ];
        assert_eq!(lines(&chain, "pod/hello"), expected);
    }
}
