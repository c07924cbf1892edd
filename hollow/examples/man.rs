//! Writes the man pages of both programs, one for each command, into the given folder.
//!
//! `make man` runs it. It is a separate example, so that the shipped programs do not contain its dependencies.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::CommandFactory;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .context("usage: man FOLDER")?;
    fs::create_dir_all(&folder)?;
    for command in [hollow::cli::Cli::command(), agent::cli::Cli::command()] {
        clap_mangen::generate_to(command.disable_help_subcommand(true), &folder)?;
    }
    Ok(())
}
