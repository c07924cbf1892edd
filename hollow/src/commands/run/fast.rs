//! `cloudsim run --fast`: a scenario in virtual time, on a thread of its own.

use std::{fs, path::Path, thread};

use anyhow::{Context, bail};
use clock::Simulated;
use tokio::sync::oneshot;

use super::{print_line, print_step};
use crate::{
    cli::Run,
    scenario::{self, Outcome, Scenario},
};

/// Runs a scenario. Its first step begins at the start of 2030.
pub(super) async fn run(
    scenario: &Scenario,
    file: &Path,
    directory: &Path,
    options: &Run,
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
    let seed = options.seed.or(scenario.seed()).unwrap_or(1);
    let keeps_all = options.trace.is_some();
    let (scenario, file, directory) = (scenario.clone(), file.to_owned(), directory.to_owned());
    let (done, ended) = oneshot::channel();
    thread::Builder::new()
        .name("simulation".to_owned())
        .spawn(move || {
            let running = scenario::run(&scenario, &file, &directory, Some(seed), &print_step);
            let ran = match keeps_all {
                true => clock::simulate_with_trace(seed, running),
                false => clock::simulate(seed, running),
            };
            // nobody waits after a signal
            let _ = done.send(ran);
        })
        .context("cannot start a thread for the simulation")?;
    let ran = ended.await.context("the simulation has panicked")?;
    let Simulated {
        result,
        trace,
        elapsed,
    } = ran.context("cannot start the simulation")?;
    print_line(&format!(
        "  virtual time {:.3} s, seed {seed}, trace {:016x} of {} lines",
        elapsed.as_secs_f64(),
        trace.digest,
        trace.lines
    ));
    if let Some(path) = &options.trace {
        let mut text: Vec<String> = trace.kept.into();
        text.push(String::new());
        fs::write(path, text.join("\n")).with_context(|| {
            format!(
                "cannot write {}; name another file with --trace",
                path.display()
            )
        })?;
    }
    Ok(result)
}
