//! Sends all requests to an API server, and records its answers.

use std::{collections::BTreeMap, path::Path};

use super::{
    generate,
    normalize::normalize,
    server::Server,
    step::{self, Exchange, Step, Variables},
};

/// The stories to record, by their names, separated by commas; without it, all.
const ONLY: &str = "OUTRIGGER_RECORD_ONLY";

/// Returns all stories: one for each kind, and the requests that are written by hand, as lines without an answer.
fn stories() -> BTreeMap<String, Vec<Step>> {
    let written = step::files(&step::folder().join("recorded"), "jsonl");
    let written = written.into_iter().map(|(name, path)| {
        let steps = step::read(&path).into_iter().map(|exchange| exchange.step);
        (name, steps.collect())
    });
    written.chain(generate::stories()).collect()
}

/// Records all stories.
pub(crate) async fn record_all(kubeconfig: &Path) {
    let server = Server::of_kubeconfig(kubeconfig).await;
    let folder = step::folder().join("recorded");
    let only = std::env::var(ONLY).unwrap_or_default();
    for (name, steps) in stories() {
        if !only.is_empty() && !only.split(',').any(|wanted| wanted == name) {
            continue;
        }
        println!("{name}");
        server.prepare(&name).await;
        let mut variables = Variables::of_story(&name);
        let mut exchanges = Vec::new();
        for step in steps {
            let answer = server.send(&step, &mut variables).await;
            exchanges.push(Exchange {
                code: answer.code,
                warnings: answer.warnings,
                answer: normalize(&step, answer.code, answer.body),
                like: None,
                step,
            });
        }
        step::write(&folder.join(format!("{name}.jsonl")), &exchanges);
    }
}
