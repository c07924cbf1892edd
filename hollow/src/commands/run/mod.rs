//! `cloudsim run`: runs scenarios from files.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitCode,
};

use anyhow::{Context, bail};

use limits::{open_regular_file, read_regular_text};
use wire::text::count;

mod fast;
mod watcher;

use self::watcher::{Watcher, print_step};
use super::{Signals, print_line, screen::Screen, up::start_recording};
use crate::{
    cli::Run,
    scenario::{self, Faulty, Outcome, Progress, Scenario},
};

/// The largest scenario, in bytes.
const MAX_SCENARIO_BYTES: u64 = 16 * 1024 * 1024;
/// The exit code if a file is not a valid scenario.
const NO_SCENARIO: u8 = 2;

pub(super) async fn run(options: Run) -> anyhow::Result<ExitCode> {
    let mut scenarios = Vec::new();
    let mut wrong = false;
    // All files are read first: nothing runs if one of them is invalid.
    for file in files(&options.files)? {
        match read(&file) {
            Ok(scenario) => scenarios.push((file, scenario)),
            Err(faults) => {
                for fault in faults {
                    print_line(&format!("{}: {fault}", file.display()));
                }
                wrong = true;
            }
        }
    }
    if wrong {
        return Ok(ExitCode::from(NO_SCENARIO));
    }
    if options.record.is_some() && (scenarios.len() != 1 || options.seeds != 1) {
        bail!("--record writes one recording: give it one scenario and one seed");
    }
    let recording = start_recording(options.record.as_deref(), false)?;
    for (_, scenario) in &mut scenarios {
        options
            .seed
            .iter()
            .for_each(|seed| scenario.set_seed(*seed));
        recording
            .iter()
            .for_each(|it| scenario.set_recorder(it.recorder()));
    }
    let outcomes = Box::pin(run_all(&scenarios, &options)).await;
    // also after a signal: what was done until then is known
    if let Some(recording) = recording {
        recording.finish();
    }
    let (outcomes, is_stopped) = outcomes?;
    if let Some(junit) = &options.junit {
        std::fs::write(junit, scenario::junit(&outcomes)).with_context(|| {
            format!(
                "cannot write {}; name another file with --junit",
                junit.display()
            )
        })?;
    }
    if is_stopped {
        bail!("stopped by a signal before all steps were done");
    }
    let passed = outcomes
        .iter()
        .filter(|outcome| outcome.is_passed())
        .count();
    print_line(&format!(
        "{passed} of {} passed",
        count(outcomes.len(), "scenario")
    ));
    Ok(if passed == outcomes.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs scenarios until a signal; returns the outcomes, and whether there was one.
async fn run_all(
    scenarios: &[(PathBuf, Scenario)],
    options: &Run,
) -> anyhow::Result<(Vec<Outcome>, bool)> {
    let mut signals = Signals::listen()?;
    let (screen, mut outcomes) = (Screen::of_stdout(), Vec::new());
    for (file, scenario) in scenarios {
        print_line(&format!("{} ({})", scenario.name, file.display()));
        let watcher = Watcher::default();
        let running = async {
            if options.fast {
                return fast::run(scenario, file, options, &watcher).await;
            }
            let directory =
                tempfile::tempdir().context("cannot create a temporary directory for the nodes")?;
            let told = |progress: Progress<'_>| watcher.note(progress);
            let running = scenario::run(scenario, file, directory.path(), &told, &watcher.stop);
            Ok(Box::pin(running).await)
        };
        let mut running = pin!(screen.wait(|| watcher.step(), Box::pin(running)));
        let outcome = clock::select! {
            // cancel-safe: it is awaited again
            outcome = &mut running => outcome?,
            () = signals.wait() => {
                watcher.stop.cancel();
                signals.drain(running).await??
            }
        };
        outcomes.push(outcome);
        if watcher.is_stopped() {
            return Ok((outcomes, true));
        }
    }
    Ok((outcomes, false))
}

/// Returns the given files, and those in given directories by name.
fn files(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in given {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path)
            .with_context(|| format!("cannot read the folder {}", path.display()))?;
        let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        inside.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "yaml")
        });
        if inside.is_empty() {
            bail!(
                "{} contains no *.yaml file; name scenario files",
                path.display()
            );
        }
        inside.sort();
        all.append(&mut inside);
    }
    Ok(all)
}

/// Reads a scenario; returns everything that is wrong with the file.
fn read(file: &Path) -> Result<Scenario, Vec<String>> {
    let text = read_regular_text(file, MAX_SCENARIO_BYTES)
        .map_err(|error| vec![format!("cannot read the file; check its name: {error}")])?;
    let texts = |faults: Vec<Faulty>| faults.iter().map(ToString::to_string).collect();
    let scenario = Scenario::read(&text).map_err(texts)?;
    let missing = missing_recordings(&scenario, file);
    match missing.is_empty() {
        true => Ok(scenario),
        false => Err(texts(missing)),
    }
}

/// Returns an error for each recording of a scenario that cannot be opened.
fn missing_recordings(scenario: &Scenario, file: &Path) -> Vec<Faulty> {
    let faults = scenario.recordings().filter_map(|(line, recording)| {
        let path = file.parent().unwrap_or(Path::new("")).join(recording);
        let error = open_regular_file(&path, OpenOptions::new().read(true)).err()?;
        let what = format!("cannot open the recording {}: {error}", path.display());
        Some(Faulty { line, what })
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_whose_recording_is_missing_is_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("replay.yaml");
        let text = "name: replay\nsteps:\n- pause: 1s\n- replay: session.rec\n";
        std::fs::write(&file, text).unwrap();
        let errors = read(&file).unwrap_err();
        let expected = "line 4: cannot open the recording ";
        assert!(
            errors.len() == 1 && errors[0].starts_with(expected),
            "{errors:?}"
        );
        std::fs::write(folder.path().join("session.rec"), "").unwrap();
        assert!(read(&file).is_ok());
    }
}
