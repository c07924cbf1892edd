//! The command lines and help pages of both programs.

use clap::{Arg, CommandFactory, builder::ValueRange};

use super::*;

/// Returns all commands of a program with their words.
fn commands(command: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
    let mut all = vec![(words.to_vec(), command.clone())];
    for inner in command.get_subcommands() {
        let mut words = words.to_vec();
        words.push(inner.get_name().to_owned());
        all.extend(commands(inner, &words));
    }
    all
}

fn of_both_programs() -> Vec<(Vec<String>, clap::Command)> {
    let programs = [agent::cli::Cli::command(), Cli::command()];
    let build = |mut program: clap::Command| {
        program = program.disable_help_subcommand(true);
        program.build();
        commands(&program, &[program.get_name().to_owned()])
    };
    programs.into_iter().flat_map(build).collect()
}

/// Returns the error of a command line.
fn refusal(words: &[String]) -> Option<String> {
    let parsed = match words[0].as_str() {
        "edge-agent" => agent::cli::Cli::try_parse_from(words).map(drop),
        _ => Cli::try_parse_from(words).map(drop),
    };
    parsed.err().map(|error| error.to_string())
}

fn takes_one_value(arg: &Arg) -> bool {
    arg.get_long().is_some() && arg.get_num_args() != Some(ValueRange::EMPTY)
}

#[test]
fn wrong_numbers_are_answered_with_the_form_that_the_option_expects() {
    let table = [
        ("PORT", "expected a port from "),
        ("COUNT", "expected a whole number"),
        ("NUMBER", "expected a whole number"),
        ("BYTES", "expected a number of bytes"),
        ("TIME", "expected a whole number with a unit"),
        ("WHEN", "expected a duration before now"),
        ("FRACTION", "expected a number from 0 to 1"),
        ("LEVEL", "expected a whole number from -1"),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for (words, command) in of_both_programs() {
        for arg in command.get_arguments().filter(|arg| takes_one_value(arg)) {
            let name = arg.get_value_names().and_then(|names| names.first());
            let form = table
                .iter()
                .find(|(value, _)| name.is_some_and(|name| name == value));
            for wrong in ["12x", "1.5.1", "99999999999999999999"] {
                let mut words = words.clone();
                words.push(format!("--{}={wrong}", arg.get_long().unwrap()));
                let refused = refusal(&words);
                let text = refused.unwrap_or_default();
                // the errors of the standard library
                for odd in ["digit found", "number too", "invalid float", "empty string"] {
                    assert!(!text.contains(odd), "{words:?}: {text}");
                }
                if let Some((value, expected)) = form {
                    assert!(text.contains(expected), "{words:?}: {text}");
                    seen.insert(*value);
                }
            }
        }
    }
    assert_eq!(seen.len(), table.len(), "{seen:?}");
}

#[test]
fn help_pages_end_with_the_global_options_in_a_line_each() {
    for (words, command) in of_both_programs() {
        let mut command = command.term_width(80);
        let page = command.render_help().to_string();
        let shown = |flag: &str| refusal(&[&words[..], &[flag.to_owned()]].concat());
        assert_eq!(shown("-h"), shown("--help"), "{words:?}");
        let headings: Vec<&str> = page
            .split("\n\n")
            .filter_map(|part| part.trim_start().lines().next()?.strip_suffix(':'))
            .filter(|heading| !heading.starts_with("Usage"))
            .collect();
        let last = headings.iter().position(|it| *it == GLOBAL_OPTIONS);
        let options = ["Options", "Arguments", "Commands"];
        let after = &headings[last.unwrap_or_else(|| panic!("{page}")) + 1..];
        assert!(!after.iter().any(|it| options.contains(it)), "{page}");
        let section = page.split_once("Global options:\n").unwrap().1;
        let section = section.split("\n\n").next().unwrap();
        for line in section.lines() {
            assert!(line.trim_start().starts_with('-'), "{words:?}: {section}");
        }
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
    }
}

#[test]
fn every_option_of_up_has_its_section() {
    let (_, mut up) = of_both_programs()
        .into_iter()
        .find(|(words, _)| words.join(" ") == "cloudsim up")
        .unwrap();
    let page = up.render_help().to_string();
    for (section, option) in [
        ("API and kubeconfig", "--api-port"),
        ("Ports for nodes", "--ws-port"),
        ("Router", "--router-port"),
        ("Storage", "--data-dir"),
        ("Simulated nodes", "--node-labels"),
        ("Limits", "--max-message"),
        ("Cluster mode", "--kube-context"),
        ("Global options", "--log-filter"),
    ] {
        let (_, text) = page.split_once(&format!("\n{section}:\n")).unwrap();
        let text = text.split("\n\n").next().unwrap();
        assert!(text.contains(option), "{section}: {text}");
    }
    let plain = up.get_arguments().filter(|arg| {
        arg.get_help_heading().is_none() && !arg.is_hide_set() && arg.get_long().is_some()
    });
    assert!(plain.count() <= 4, "{page}");
}

#[test]
fn the_command_line_is_sound_and_ports_default_to_kubeedges() {
    Cli::command().debug_assert();
    let Command::Up(up) = Cli::parse_from(["cloudsim", "up"]).command else {
        panic!()
    };
    assert_eq!(
        (up.api_port, up.https_port, up.ws_port),
        (6443, 10002, 10000)
    );
    assert_eq!(up.tunnel_port, Port(Some(10004)));
    let Command::Up(off) = Cli::parse_from(["cloudsim", "up", "--tunnel-port", "off"]).command
    else {
        panic!()
    };
    assert_eq!(off.tunnel_port, Port(None));
    assert!(Cli::try_parse_from(["cloudsim", "up", "--tunnel-port", "on"]).is_err());
    for (rbac, expected) in [
        (None, true),
        (Some("--rbac"), true),
        (Some("--rbac=false"), false),
    ] {
        let Command::Up(up) = Cli::parse_from(["cloudsim", "up"].into_iter().chain(rbac)).command
        else {
            panic!()
        };
        assert_eq!(up.rbac, expected, "{rbac:?}");
    }
    for (grace, expected) in [
        ("90s", Some(90)),
        ("2m", Some(120)),
        ("40", Some(40)),
        ("0", None),
        ("500ms", None),
        ("x", None),
    ] {
        let parsed = Cli::try_parse_from(["cloudsim", "up", "--node-grace", grace]);
        let found = parsed.ok().and_then(|cli| match cli.command {
            Command::Up(up) => Some(up.node_grace.as_secs()),
            _ => None,
        });
        assert_eq!(found, expected, "{grace}");
    }
    for (nodes, is_valid) in [("0", true), ("10000", true), ("-1", false)] {
        let parsed = Cli::try_parse_from(["cloudsim", "up", "--nodes", nodes]);
        assert_eq!(parsed.is_ok(), is_valid, "{nodes}");
    }
    assert!(Cli::try_parse_from(["cloudsim", "up", "--ws-port", "70000"]).is_err());
    assert!(Cli::try_parse_from(["cloudsim", "up", "--hubs", "0"]).is_err());
    assert!(Cli::try_parse_from(["cloudsim", "up", "--renewal-grace", "30"]).is_err());
    let max = |text: &str| {
        Cli::try_parse_from([
            "cloudsim",
            "up",
            "--service-account-max-token-expiration",
            text,
        ])
    };
    assert!(max("59m").is_err() && max("1h").is_ok());
    assert!(Cli::try_parse_from(["cloudsim", "token", "--node", "edge-1", "--ttl", "10m"]).is_ok());
    assert!(Cli::try_parse_from(["cloudsim", "token", "--uses", "0"]).is_err());
    assert!(
        Cli::try_parse_from(["cloudsim", "node", "reset", "edge-1", "--kubeconfig", "k"]).is_ok()
    );
    assert!(Cli::try_parse_from(["cloudsim", "node", "reset", "--lost"]).is_ok());
    assert!(Cli::try_parse_from(["cloudsim", "node", "reset", "edge-1", "--lost"]).is_err());
    assert!(Cli::try_parse_from(["cloudsim", "node", "reset"]).is_err());
    assert!(Cli::try_parse_from(["cloudsim", "token", "-o", "json", "--uses", "2"]).is_ok());
    assert!(Cli::try_parse_from(["cloudsim", "up", "--controllers", "-job"]).is_ok());
    assert!(Cli::try_parse_from(["cloudsim", "up", "--controllers", "*,-jobs"]).is_err());
    assert!(
        Cli::try_parse_from([
            "cloudsim",
            "devices",
            "set",
            "ns/d",
            "t=1",
            "--kubeconfig",
            "k"
        ])
        .is_ok()
    );
    assert!(Cli::try_parse_from(["cloudsim", "devices", "set", "ns/d", "t="]).is_err());
    assert!(Cli::try_parse_from(["cloudsim", "devices", "set", "ns/d"]).is_err());
}
