//! A recording of a world leads to the same end state when one of its nodes is played from it.

use std::path::Path;

use clock::simulate;
use record::{Limits, Recording, Side};
use replay::{Plan, Script, Selection};
use simulated::World;

fn record(seed: u64, file: &Path) -> serde_json::Value {
    let recording = Recording::start(record::Options {
        path: file.to_owned(),
        limits: Limits::default(),
        program: "simulated".to_owned(),
        side: Side::Cloud,
        redact: false,
    });
    let recording = recording.expect("a recording");
    let state = simulate(seed, async {
        let world = World::with_recorder(seed, recording.recorder()).await;
        assert!(world.watcher().violations().is_empty());
        world.end_state()
    });
    recording.finish();
    state.expect("a simulation").result
}

#[test]
fn a_recording_of_a_world_replays_to_the_same_end_state() {
    for seed in 0..5 {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("world.rec");
        let recorded = record(seed, &file);
        assert_eq!(recorded["pods"].as_array().map(Vec::len), Some(3));
        let selection = Selection {
            node: Some("edge-1".to_owned()),
            ..Selection::default()
        };
        let script = Script::open(&file, &selection).expect("the recording");
        let plan = Plan::new(&script, Side::Edge).expect("a plan");
        let replay = simulate(seed, async {
            let (world, outcome) = World::replay(seed, plan).await;
            (world.end_state(), outcome)
        });
        let (replayed, outcome) = replay.expect("a simulation").result;
        let text = outcome.to_text(["recording", "replay"]);
        // how many states of a Node are sent depends on timing
        assert!(outcome.unsent.is_empty(), "seed {seed}: {text}");
        assert_eq!(outcome.ended, None, "seed {seed}");
        assert_eq!(replayed, recorded, "seed {seed}");
    }
}
