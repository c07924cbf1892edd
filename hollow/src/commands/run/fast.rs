//! `cloudsim run --fast`: a scenario in virtual time, on a thread of its own.

use std::{collections::BTreeSet, fs, path::Path, thread};

use anyhow::{Context, bail};
use clock::{Simulated, Trace};
use record::Recorder;
use tokio::sync::oneshot;
use wire::text::count;

use super::{Watcher, print_line, print_step};
use crate::{
    cli::Run,
    scenario::{self, Outcome, Progress, Scenario, ScenarioFault},
};

/// How many of the last events of a failed run are printed.
const LAST_EVENTS: usize = 20;

/// Runs a scenario with each seed until one fails. Its first step begins at the start of 2030.
pub(super) async fn run(
    scenario: &Scenario,
    file: &Path,
    options: &Run,
    watcher: &Watcher,
) -> anyhow::Result<Outcome> {
    if scenario.recordings().next().is_some() {
        bail!(
            "{}: a recording cannot be played in virtual time; run this scenario without --fast",
            file.display()
        );
    }
    if scenario.uses_quic() {
        print_line("  note: nodes with QUIC have links in the process in virtual time");
    }
    let mut seed = scenario.seed();
    let last = seed.saturating_add(options.seeds - 1);
    loop {
        // of many runs, only the failed one is of interest
        let watcher = match options.seeds {
            1 => watcher.clone(),
            _ => watcher.silent(),
        };
        let keeps_all = options.trace.is_some();
        let simulated = simulate(scenario, file, seed, keeps_all, &watcher).await?;
        let Simulated {
            result: outcome,
            trace,
            elapsed,
        } = simulated;
        if options.seeds != 1 && !outcome.is_passed() {
            outcome.steps.iter().for_each(print_step);
        }
        print_line(&format!(
            "  virtual time {:.3} s, seed {seed}, trace {:016x} of {} lines",
            elapsed.as_secs_f64(),
            trace.digest,
            trace.lines
        ));
        if let Some(path) = &options.trace {
            write_trace(path, &trace)?;
        }
        if !outcome.is_passed() {
            if watcher.is_stopped() {
                return Ok(outcome);
            }
            print_failed(seed, &trace);
            if options.shrink {
                shrink(scenario, file, seed, &outcome, &watcher.silent()).await?;
            }
            return Ok(outcome);
        }
        if seed == last {
            return Ok(outcome);
        }
        seed += 1;
    }
}

/// Runs a scenario in virtual time, in a directory of its own.
async fn simulate(
    scenario: &Scenario,
    file: &Path,
    seed: u64,
    keeps_all: bool,
    watcher: &Watcher,
) -> anyhow::Result<Simulated<Outcome>> {
    let directory =
        tempfile::tempdir().context("cannot create a temporary directory for the nodes")?;
    let (file, path) = (file.to_owned(), directory.path().to_owned());
    let watcher = watcher.clone();
    let mut scenario = scenario.clone();
    scenario.set_seed(seed);
    let (done, ended) = oneshot::channel();
    thread::Builder::new()
        .name("simulation".to_owned())
        .spawn(move || {
            let told = |progress: Progress<'_>| watcher.note(progress);
            let running = scenario::run(&scenario, &file, &path, &told, &watcher.stop);
            let ran = match keeps_all {
                true => clock::simulate_with_trace(seed, running),
                false => clock::simulate(seed, running),
            };
            // nobody waits after a second signal
            let _ = done.send(ran);
        })
        .context("cannot start a thread for the simulation")?;
    let ran = ended.await.context("the simulation has panicked")?;
    ran.context("cannot start the simulation")
}

fn write_trace(path: &Path, trace: &Trace) -> anyhow::Result<()> {
    let lines: Vec<&str> = trace.kept.iter().map(String::as_str).chain([""]).collect();
    fs::write(path, lines.join("\n")).with_context(|| {
        format!(
            "cannot write {}; name another file with --trace",
            path.display()
        )
    })
}

fn print_failed(seed: u64, trace: &Trace) {
    let skipped = trace.kept.len().saturating_sub(LAST_EVENTS);
    print_line("  last events:");
    for line in trace.kept.iter().skip(skipped) {
        print_line(&format!("    {line}"));
    }
    print_line(&format!("  run it again with --fast --seed {seed}"));
}

/// Searches for the faults that are needed for the failure, and prints them.
async fn shrink(
    scenario: &Scenario,
    file: &Path,
    seed: u64,
    failed: &Outcome,
    watcher: &Watcher,
) -> anyhow::Result<()> {
    let (faults, failure) = (scenario.faults(), failed.failure());
    let mut runs = 0;
    let mut scenario = scenario.clone();
    // only the first run is recorded
    scenario.set_recorder(Recorder::default());
    let kept = scenario::shrink(faults.len(), async |kept: &BTreeSet<usize>| {
        runs += 1;
        let removed: Vec<&ScenarioFault> = faults
            .iter()
            .enumerate()
            .filter(|(number, _)| !kept.contains(number))
            .map(|(_, fault)| fault)
            .collect();
        let smaller = scenario.without(&removed);
        let ran = simulate(&smaller, file, seed, false, watcher).await?;
        if watcher.is_stopped() {
            bail!("stopped by a signal before the smallest set of faults was found");
        }
        anyhow::Ok(ran.result.failure() == failure)
    });
    let kept = kept.await?;
    print_line(&format!(
        "  {} of {} {} needed for this failure ({}):",
        kept.len(),
        count(faults.len(), "fault"),
        if kept.len() == 1 { "is" } else { "are" },
        count(runs, "run")
    ));
    for number in &kept {
        let fault = &faults[*number];
        print_line(&format!("    line {}: {}", fault.line, fault.title));
    }
    Ok(())
}
