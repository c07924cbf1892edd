//! Tests valid and invalid scenario files.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    scenario::{Progress, Verdict, run},
    testing::recording::tests::record_registration,
};

const GOOD: &str = "\
name: a cut
seed: 7
cloud: {hubs: 2, nodeGrace: 4s}
nodes:
- name: edge-1
- name: edge-2
  transport: quic
steps:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {k: v}}
- remember: edge-1
- faults: {node: all, conditions: {profile: Satellite, drop: 0.1}}
- cut: edge-1
- expect: {node: edge-1, connected: false, within: 3s}
- restore: edge-1
- sendMalformed: {node: edge-2, message: null-content}
- certificate: expired
- pause: 10ms
- replay: session.rec
- replay: {file: other.rec, allowDifferences: true}
- expect:
    object: {kind: Pod, name: web}
    has: {status.phase: Running, 'status.containerStatuses[0].restartCount': 0}
    for: 2s
- delete: {kind: Pod, name: web}
- expect: {object: {kind: Pod, name: web}, gone: true}
";

#[test]
fn a_file_says_what_happens_in_which_line() {
    let scenario = Scenario::read(GOOD).unwrap();
    let steps: Vec<String> = scenario
        .steps
        .iter()
        .map(|step| format!("{} {}", step.referenced.line(), step.value.title()))
        .collect();
    insta::assert_snapshot!(steps.join("\n"));
    assert_eq!(
        (
            scenario.cloud().hubs,
            scenario.seed(),
            scenario.nodes().count()
        ),
        (2, 7, 2)
    );
}

/// Returns the errors of the good file with one line changed.
fn scenario_error(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    errors(&GOOD.replace(old, new)).join("\n  ")
}

fn errors(text: &str) -> Vec<String> {
    let faults = Scenario::read(text).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_the_cure() {
    let rows = [
        ("- cut: edge-1", "- cut: edge-9"),
        ("- cut: edge-1", "- cutt: edge-1"),
        ("drop: 0.1", "drop: 1.1"),
        ("drop: 0.1", "dorp: 0.1"),
        ("profile: Satellite", "profile: Pigeon"),
        ("within: 3s", "within: soon"),
        ("connected: false, ", ""),
        ("gone: true", "gone: true, has: {a: 1}"),
        ("message: null-content", "message: kind-words"),
        ("name: edge-2", "name: edge-1"),
        ("hubs: 2", "hubs: 0"),
        ("name: a cut\n", ""),
        ("- restore: edge-1", "  - restore: edge-1"),
    ];
    let all: Vec<String> = rows
        .iter()
        .map(|(old, new)| {
            format!(
                "{} → {}\n  {}",
                old.trim(),
                new.trim(),
                scenario_error(old, new)
            )
        })
        .collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn every_error_of_a_file_is_reported_in_the_order_of_lines() {
    let text = "\
name: many errors
nmae: typo
cloud: {hubs: 99}
nodes:
- name: edge-1
steps:
# a comment between
- cutt: edge-1
- expect:
    node: edge-1
    conected: true
- cut: edge-2
-   pause: soon
- delete: {kind: Pod, nmae: web}
";
    let found = errors(text);
    let beginnings = [
        "line 2: unknown field \"nmae\" (did you mean name?)",
        "line 3: a cloud has 1 to 16 hubs",
        "line 8: unknown word \"cutt\" (did you mean cut?)",
        "line 11: unknown field \"conected\" (did you mean connected?)",
        "line 12: there is no node \"edge-2\" (did you mean edge-1?)",
        "line 13: \"soon\" is not a duration",
        "line 14: unknown field \"nmae\" (did you mean name?)",
    ];
    assert_eq!(found.len(), beginnings.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(beginnings) {
        assert!(found.starts_with(expected), "{found}");
    }
    // where a list is written in one line, or a node is invalid, the errors that may follow from the first are not reported
    assert_eq!(
        errors("name: x\nnodes: [{nmae: a}]\nsteps: [{cut: a}, {cutt: a}]\n").len(),
        1
    );
    let node = errors("name: x\nnodes:\n- nmae: a\nsteps:\n- cut: a\n- cutt: a\n");
    assert_eq!(node.len(), 2, "{node:?}");
    let many = format!("name: x\nsteps:\n{}", "- cutt: a\n".repeat(50));
    assert_eq!(errors(&many).len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_step_sees_nodes_that_have_connected() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    for (connected, verdict) in [
        (true, Verdict::Passed),
        (
            false,
            Verdict::Failed(
                "the condition was not met within 0s; last state: connected=true".to_owned(),
            ),
        ),
    ] {
        let text = format!(
            "name: beginning\nnodes: [{{name: edge-1}}, {{name: edge-2}}]\nsteps:\n\
             - expect: {{node: edge-2, connected: {connected}, within: 0s}}\n"
        );
        let directory = tempfile::tempdir().unwrap();
        let scenario = Scenario::read(&text).unwrap();
        let never = CancellationToken::new();
        let running = run(
            &scenario,
            std::path::Path::new("beginning.yaml"),
            directory.path(),
            &|_| {},
            &never,
        );
        let outcome = testkit::within("the scenario", running).await;
        assert_eq!(outcome.steps[0].verdict, Verdict::Passed);
        assert_eq!(outcome.steps[1].verdict, verdict);
    }
}

#[tokio::test]
async fn a_recording_is_played_and_the_first_difference_ends_the_scenario() {
    let directory = tempfile::tempdir().unwrap();
    record_registration(&directory.path().join("session.rec"));
    for (step, expected) in [
        ("{file: session.rec, allowDifferences: true}", None),
        ("session.rec", Some("the cloud responded differently: ")),
        ("other.rec", Some("cannot open the recording")),
    ] {
        let text = format!("name: replay\nnodes: []\nsteps:\n- replay: {step}\n");
        let scenario = Scenario::read(&text).unwrap();
        let nodes = tempfile::tempdir().unwrap();
        let file = directory.path().join("replay.yaml");
        let never = CancellationToken::new();
        let running = run(&scenario, &file, nodes.path(), &|_| {}, &never);
        let outcome = testkit::within("the scenario", running).await;
        match (&outcome.steps[1].verdict, expected) {
            (Verdict::Passed, None) => {}
            (Verdict::Failed(why), Some(expected)) if why.contains(expected) => {}
            (verdict, _) => panic!("{step}: {verdict:?}"),
        }
    }
}

#[test]
fn a_stopped_run_tells_what_was_done() {
    let text =
        "name: long\nnodes: [{name: edge-1}]\nsteps:\n- pause: 1s\n- pause: 9000h\n- pause: 2s\n";
    let scenario = Scenario::read(text).unwrap();
    let story = || async {
        let directory = tempfile::tempdir().unwrap();
        let stop = CancellationToken::new();
        let told = |progress: Progress<'_>| {
            if matches!(progress, Progress::Begins(_, 5)) {
                stop.cancel();
            }
        };
        let running = run(
            &scenario,
            std::path::Path::new("long.yaml"),
            directory.path(),
            &told,
            &stop,
        );
        testkit::within("the scenario", running).await
    };
    let real = tokio::runtime::Runtime::new().unwrap().block_on(story());
    let simulated = clock::simulate(1, story()).unwrap().result;
    for outcome in [real, simulated] {
        let verdicts: Vec<_> = outcome.steps.iter().map(|step| &step.verdict).collect();
        let stopped = Verdict::Failed("stopped before the step was done".to_owned());
        let expected = [
            &Verdict::Passed,
            &Verdict::Passed,
            &stopped,
            &Verdict::Skipped,
        ];
        assert_eq!(verdicts, expected);
    }
}
