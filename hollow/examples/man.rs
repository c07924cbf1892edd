//! Writes the man pages of both programs, one for each command, and their completions into the given folder.
//!
//! `make man` runs it. It is a separate example, so that the shipped programs do not contain its dependencies.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .context("usage: man FOLDER")?;
    fs::create_dir_all(&folder)?;
    for mut command in [hollow::cli::Cli::command(), agent::cli::Cli::command()] {
        let name = command.get_name().to_owned();
        // building a command for completions would add pages of `help`
        let mut pages = command.clone().disable_help_subcommand(true);
        pages.build();
        write_pages(pages, &folder, &name)?;
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            clap_complete::generate_to(shell, &mut command, &name, &folder)?;
        }
    }
    Ok(())
}

/// Writes the pages of a command and its subcommands.
fn write_pages(mut command: Command, folder: &Path, program: &str) -> anyhow::Result<()> {
    let subcommands = command.get_subcommands().filter(|one| !one.is_hide_set());
    for subcommand in subcommands.cloned() {
        write_pages(subcommand, folder, program)?;
    }
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    // all options below one heading, by name
    let sorted = |arg: clap::Arg| arg.help_heading(None::<&'static str>).display_order(0);
    let command = command.override_usage(usage).mut_args(sorted);
    let page = Man::new(command)
        .source(format!("{program} {}", env!("CARGO_PKG_VERSION")))
        .manual("Outrigger");
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8(text)?.replace("\n.SH EXTRA\n", "\n.SH NOTES\n");
    fs::write(folder.join(page.get_filename()), text)?;
    Ok(())
}
