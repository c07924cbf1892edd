//! `fuzz [TARGET] [SECONDS]`: each target, or one, for so many seconds (60). `fuzz TARGET --replay FILE` runs one input.
//!
//! An input that was not survived is written to the current directory, and ends the run. Seeds begin where the clock stands, so
//! that each run tries others.

use std::{
    fs,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};
use fuzz::{Crash, TARGETS, campaign};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match arguments.split_first() {
        Some((first, rest)) if first.parse::<u64>().is_err() => (Some(first.as_str()), rest),
        _ => (None, arguments.as_slice()),
    };
    let chosen: Vec<_> =
        TARGETS.iter().filter(|target| name.is_none_or(|name| name == target.name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        bail!("there is no such target; there are {}", names.join(", "));
    }
    if let [flag, file] = rest
        && flag == "--replay"
    {
        let input = fs::read(file).with_context(|| format!("{file} cannot be read"))?;
        chosen.iter().for_each(|target| (target.run)(&input));
        return Ok(ExitCode::SUCCESS);
    }
    let seconds = rest.first().or_else(|| arguments.first().filter(|_| name.is_none()));
    let seconds = seconds.map_or(Ok(60), |text| text.parse()).context("the time is no number of seconds")?;
    let first = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() << 20;
    for target in chosen {
        match campaign(target, first, Duration::from_secs(seconds)) {
            Ok(inputs) => say(&format!("{}: {inputs} inputs in {seconds} s", target.name)),
            Err(Crash { seed, input, why }) => {
                let file = format!("{}-{seed:x}.bin", target.name);
                fs::write(&file, input).with_context(|| format!("{file} cannot be written"))?;
                say(&format!("{}: {why}\nfuzz {} --replay {file} shows it again", target.name, target.name));
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[allow(clippy::print_stdout)]
fn say(line: &str) {
    println!("{line}");
}
