//! The scenarios of `examples/scenarios`: each comes true, and their outcomes are told.

use std::{fs, path::PathBuf};

use hollow::scenario::{Outcome, Scenario, Verdict, junit, run};
use tokio_util::sync::CancellationToken;

fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/scenarios"
    ))
}

async fn play(name: &str) -> Outcome {
    let file = folder().join(name);
    play_text(&fs::read_to_string(file).unwrap()).await
}

async fn play_text(text: &str) -> Outcome {
    let scenario = Scenario::read(text).unwrap();
    let directory = tempfile::tempdir().unwrap();
    run(
        &scenario,
        &folder().join("scenario.yaml"),
        directory.path(),
        &|_| {},
        &CancellationToken::new(),
    )
    .await
}

fn came_true(outcome: &Outcome) {
    assert!(outcome.is_passed(), "{:#?}", outcome.steps);
}

macro_rules! scenarios {
    ($($test:ident: $file:literal,)*) => {
        $(#[tokio::test]
        async fn $test() {
            came_true(&play($file).await);
        })*

        #[test]
        fn every_example_is_played() {
            let entries = fs::read_dir(folder()).unwrap().map(Result::unwrap);
            let files = entries.filter(|entry| entry.path().is_file());
            let mut files: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
            files.sort();
            let mut played = vec![$($file),*];
            played.sort();
            assert_eq!(files, played);
        }
    };
}

scenarios! {
    a_pod_survives_a_cut_link: "cut.yaml",
    a_half_open_link_is_noticed: "half-open.yaml",
    an_agent_that_is_killed_goes_on: "power.yaml",
    nothing_is_lost_on_a_bad_link: "bad-link.yaml",
    no_bad_certificate_is_taken: "certificates.yaml",
    hostile_messages_do_no_harm: "hostile.yaml",
}

#[tokio::test]
async fn what_does_not_come_true_is_told_and_ends_the_scenario() {
    let outcome = play_text(
        "name: wrong\nnodes: [{name: edge-1}]\nsteps:\n\
         - expect: {node: edge-1, ready: true}\n\
         - expect: {node: edge-1, ready: true, for: 50ms}\n\
         - expect: {object: {kind: Node, name: edge-1}, has: {metadata.name: edge-2}, within: 100ms}\n\
         - cut: edge-1\n",
    )
    .await;
    assert!(!outcome.is_passed());
    let verdicts: Vec<&Verdict> = outcome.steps.iter().map(|step| &step.verdict).collect();
    let why = "the condition was not met within 100ms; last state: metadata.name is \"edge-1\""
        .to_owned();
    use Verdict::{Failed, Passed, Skipped};
    assert_eq!(
        verdicts,
        [&Passed, &Passed, &Passed, &Failed(why), &Skipped]
    );
    let text = junit(&[outcome]);
    assert!(
        text.contains("tests=\"5\" failures=\"1\" errors=\"0\" skipped=\"1\""),
        "{text}"
    );
    assert!(text.contains("line=\"6\""), "{text}");
}

/// Plays a scenario of `virtual/` in virtual time; its verdict, and what happened.
fn play_fast(name: &str, seed: u64) -> clock::Simulated<Outcome> {
    let file = folder().join("virtual").join(name);
    let mut scenario = Scenario::read(&fs::read_to_string(&file).unwrap()).unwrap();
    scenario.set_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    clock::simulate(
        seed,
        Box::pin(run(
            &scenario,
            &file,
            directory.path(),
            &|_| {},
            &CancellationToken::new(),
        )),
    )
    .unwrap()
}

macro_rules! virtual_scenarios {
    ($($test:ident: $file:literal,)*) => {
        $(#[test]
        fn $test() {
            let played = play_fast($file, 1);
            assert!(played.result.is_passed(), "{:#?}\n{:#?}", played.result.steps, played.trace.kept);
        })*

        #[test]
        fn every_virtual_example_is_played() {
            let entries = fs::read_dir(folder().join("virtual")).unwrap();
            let mut files: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            files.sort();
            let mut played = vec![$($file),*];
            played.sort();
            assert_eq!(files, played);
        }
    };
}

virtual_scenarios! {
    a_node_is_offline_for_eight_hours: "offline.yaml",
    pods_of_a_lost_node_are_evicted: "eviction.yaml",
    the_power_fails_at_one_node_after_the_other: "power-cuts.yaml",
    a_certificate_expires_for_an_hour: "certificate.yaml",
    an_uplink_comes_and_goes: "flapping.yaml",
    a_bad_image_stops_a_rollout: "rollout.yaml",
    all_nodes_reboot_at_once: "reboots.yaml",
    a_clock_is_two_hours_slow: "clock.yaml",
    a_cluster_loses_the_nodes_of_its_north: "from-cluster.yaml",
    a_device_floods_its_node: "device-flood.yaml",
    a_disk_is_full_for_half_an_hour: "full-disk.yaml",
    a_cloud_is_upgraded: "cloud-upgrade.yaml",
}
