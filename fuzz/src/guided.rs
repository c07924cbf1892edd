//! The fuzzer: libFuzzer, which keeps inputs that reach new code and mutates them further.
//!
//! `FUZZ_TARGET` names the target. The directories among libFuzzer's arguments contain inputs; it writes those that it finds to the
//! first one, which gets the target's own inputs before. Source: <https://llvm.org/docs/LibFuzzer.html>.

use std::{env, fs, path::PathBuf, sync::OnceLock};

use fuzz::{Mutator, Target, target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// The chosen target and its corpus.
static CHOSEN: OnceLock<(Target, Vec<Vec<u8>>)> = OnceLock::new();

/// One input in this many is mutated by our mutator, with words that decoders look for, and the others by libFuzzer.
const OURS: u32 = 4;

fn begin() {
    let name = env::var("FUZZ_TARGET").expect("FUZZ_TARGET names the target");
    let target = target(&name).expect("a target");
    let inputs = (target.corpus)();
    let directory = env::args()
        .skip(1)
        .map(PathBuf::from)
        .find(|path| path.is_dir());
    for (number, input) in inputs.iter().enumerate() {
        let Some(directory) = &directory else { break };
        fs::write(directory.join(format!("given-{number}")), input)
            .expect("the directory can be written");
    }
    CHOSEN.set((target, inputs)).expect("it begins once");
}

fuzz_target!(init: begin(), |input: &[u8]| {
    let (target, _) = CHOSEN.get().expect("it has begun");
    (target.run)(input);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let Some((_, inputs)) = CHOSEN.get().filter(|_| seed % OURS == 0) else {
        return fuzzer_mutate(data, size, max_size);
    };
    let mut changed = data[..size].to_vec();
    Mutator::new(u64::from(seed)).change(&mut changed, inputs);
    let size = changed.len().min(max_size);
    data[..size].copy_from_slice(&changed[..size]);
    size
});
