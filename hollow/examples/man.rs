//! Writes the man pages of both programs, one for each command, and their completions into the given folder.
//!
//! `make man` runs it. It is a separate example, so that the shipped programs do not contain its dependencies.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .context("usage: man FOLDER")?;
    fs::create_dir_all(&folder)?;
    for mut command in [hollow::cli::Cli::command(), agent::cli::Cli::command()] {
        let name = command.get_name().to_owned();
        // building a command for completions would add pages of `help`
        clap_mangen::generate_to(command.clone().disable_help_subcommand(true), &folder)?;
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            clap_complete::generate_to(shell, &mut command, &name, &folder)?;
        }
    }
    Ok(())
}
