//! Plays the recorded requests against our API, and compares the answers.

use std::{env, fs, path::PathBuf};

use futures::future::join_all;
use serde_json::json;

use super::{
    compare::{Difference, compare},
    known::Known,
    normalize::normalize,
    server::Server,
    step::{self, Variables},
};

/// The number of requests that are recorded at least.
const AT_LEAST: usize = 1_500;
/// A file to which all differences are written, for the work on them.
const DIFFERENCES: &str = "OUTRIGGER_DIFFERENCES";

/// The comparison of the requests of one file.
struct Outcome {
    requests: usize,
    equal: usize,
    differences: Vec<Difference>,
}

async fn play(story: String, path: PathBuf) -> Outcome {
    let server = Server::ours();
    server.prepare(&story).await;
    let mut variables = Variables::of_story(&story);
    let mut outcome = Outcome {
        requests: 0,
        equal: 0,
        differences: Vec::new(),
    };
    for recorded in step::read(&path) {
        let answer = server.send(&recorded.step, &mut variables).await;
        let body = normalize(&recorded.step, answer.code, answer.body);
        let before = outcome.differences.len();
        let mut add = |field: &str, real: String, ours: String| {
            let (story, request) = (story.clone(), recorded.step.request.clone());
            outcome.differences.push(Difference {
                story,
                request,
                field: field.to_owned(),
                real,
                ours,
            });
        };
        if recorded.code != answer.code {
            add(
                "code",
                format!("{}: {}", recorded.code, recorded.answer),
                format!("{}: {body}", answer.code),
            );
        } else {
            compare("", Some(&recorded.answer), Some(&body), &mut add);
        }
        compare(
            "warnings",
            Some(&json!(recorded.warnings)),
            Some(&json!(answer.warnings)),
            &mut add,
        );
        outcome.requests += 1;
        outcome.equal += usize::from(outcome.differences.len() == before);
    }
    outcome
}

/// Plays all stories, each with an API of its own.
pub(crate) async fn compare_all() {
    // watches end at once
    tokio::time::pause();
    let files = step::files(&step::folder().join("recorded"), "jsonl");
    let outcomes = join_all(files.into_iter().map(|(story, path)| play(story, path))).await;
    let requests: usize = outcomes.iter().map(|outcome| outcome.requests).sum();
    let equal: usize = outcomes.iter().map(|outcome| outcome.equal).sum();
    let mut known = Known::read();
    let differences = outcomes.into_iter().flat_map(|outcome| outcome.differences);
    let (explained, unexplained): (Vec<_>, Vec<_>) =
        differences.partition(|difference| known.explains(difference));
    println!(
        "{requests} requests, {equal} with equal answers; {} known differences: {:?}",
        explained.len(),
        known.by_class()
    );
    let text = |differences: &[Difference]| {
        differences
            .iter()
            .map(|difference| format!("{difference}\n"))
            .collect::<String>()
    };
    if let Some(file) = env::var_os(DIFFERENCES) {
        fs::write(file, text(&unexplained)).unwrap();
    }
    let shown = &unexplained[..unexplained.len().min(50)];
    assert!(
        unexplained.is_empty(),
        "{} differences have no reason, the first of them:\n{}",
        unexplained.len(),
        text(shown)
    );
    let unused = known.unused_patterns();
    assert!(
        unused.is_empty(),
        "these known differences are none any more:\n{}",
        unused.join("\n")
    );
    assert!(
        requests >= AT_LEAST,
        "only {requests} requests are recorded"
    );
}
