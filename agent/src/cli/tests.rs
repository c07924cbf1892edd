//! Parsing of the command line, and printed documents.

use clap::ValueEnum;

use super::*;

fn cli(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn it_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn lines() {
    assert_eq!(
        cli("edge-agent").unwrap().config,
        PathBuf::from("/etc/kubeedge/config/edgecore.yaml")
    );
    assert_eq!(
        cli("edge-agent --config=/a").unwrap().config,
        PathBuf::from("/a")
    );
    for line in [
        "edge-agent -v 4",
        "edge-agent -v4",
        "edge-agent -v=4",
        "edge-agent --v 4",
        "edge-agent --v=4",
    ] {
        assert_eq!(cli(line).unwrap().verbosity, 4, "{line}");
    }
    assert_eq!(cli("edge-agent -v -1").unwrap().verbosity, -1);
    assert_eq!(
        cli("edge-agent --log-filter off -v 4")
            .unwrap()
            .log_filter(),
        "off"
    );
    for line in [
        "edge-agent -v many",
        "edge-agent --minconfig --defaultconfig",
        "edge-agent what",
        "edge-agent join --cloud c",
        "edge-agent join --token t",
        "edge-agent completion",
    ] {
        assert!(cli(line).is_err(), "{line}");
    }
}

#[test]
fn the_configuration_may_stand_before_a_subcommand_and_behind_it() {
    for (line, config) in [
        ("edge-agent --config /a db check", "/a"),
        ("edge-agent db check --config /a", "/a"),
        ("edge-agent --config /b db check --config /a", "/a"),
        ("edge-agent db check", config::DEFAULT_PATH),
        (
            "edge-agent db check --root /r",
            "/r/etc/kubeedge/config/edgecore.yaml",
        ),
    ] {
        let cli = cli(line).unwrap();
        let Some(Command::Db(db)) = &cli.command else {
            panic!("{line}")
        };
        let Db::Check { file, .. } = db.or(&cli.config) else {
            panic!("{line}")
        };
        assert_eq!(file.paths.config(), PathBuf::from(config), "{line}");
    }
}

#[test]
fn how_much_is_logged_may_stand_behind_a_subcommand() {
    for line in [
        "edge-agent -v 4 join --cloud c --token t",
        "edge-agent join --cloud c --token t -v 4",
    ] {
        assert_eq!(cli(line).unwrap().verbosity, 4, "{line}");
    }
    let Some(Command::Reset(reset)) = cli("edge-agent --config /a reset").unwrap().command else {
        panic!()
    };
    assert_eq!(
        reset.paths.or(std::path::Path::new("/a")).config(),
        PathBuf::from("/a")
    );
}

#[test]
fn filters_are_valid_and_never_quieter_with_more() {
    use tracing_subscriber::{Layer, Registry, filter::Targets};
    let mut before = None;
    for v in [-1, 0, 1, 2, 3, 4, 5, 6, 9, 10, i32::MAX, i32::MIN + 1] {
        let filter = filter(v);
        let targets: Targets = filter
            .parse()
            .unwrap_or_else(|error| panic!("{filter}: {error}"));
        let level = Layer::<Registry>::max_level_hint(&targets);
        assert!(v < -1 || before <= level, "{v}: {filter}");
        before = level;
    }
}

#[test]
fn prints_instead_of_running() {
    for (line, part) in [
        (
            "edge-agent --minconfig",
            "# The settings that most nodes need",
        ),
        ("edge-agent --defaultconfig", "remoteQueryTimeout: 60"),
        ("edge-agent completion bash", "complete -F"),
        ("edge-agent completion zsh", "#compdef edge-agent"),
        ("edge-agent completions fish", "complete -c edge-agent"),
    ] {
        let mut out = Vec::new();
        assert!(cli(line).unwrap().print(&mut out).unwrap(), "{line}");
        assert!(String::from_utf8(out).unwrap().contains(part), "{line}");
    }
    assert!(!cli("edge-agent").unwrap().print(&mut Vec::new()).unwrap());
}

#[test]
fn a_closed_pipe_is_an_error_and_no_panic() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for line in ["edge-agent --minconfig", "edge-agent completion bash"] {
        assert!(cli(line).unwrap().print(&mut Closed).is_err());
    }
}

#[test]
fn help_teaches() {
    let help = Cli::command().term_width(100).render_help().to_string();
    insta::assert_snapshot!(help);
}

#[test]
fn help_and_readme_say_alike_what_is_not_there() {
    let readme = include_str!("../../../README.md");
    let missing = readme
        .split("## Not yet")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap();
    let words = ["TCP relay", "EdgeMesh", "CSI volumes"];
    assert_eq!(
        missing
            .lines()
            .filter(|line| line.starts_with("- "))
            .count(),
        3,
        "{missing}"
    );
    let said = EXAMPLES.lines().last().unwrap();
    assert!(
        words
            .iter()
            .all(|word| missing.contains(word) && said.contains(word)),
        "{missing}{said}"
    );
}

#[test]
fn version_names_commit_kubeedge_and_kubernetes() {
    let short = cli("edge-agent -V").unwrap_err().to_string();
    assert_eq!(
        short.trim_end(),
        concat!("edge-agent ", env!("CARGO_PKG_VERSION"))
    );
    let long = cli("edge-agent --version").unwrap_err().to_string();
    for part in [
        short.trim_end(),
        "\nCommit: ",
        "\nKubeEdge Version: v1.",
        "\nKubernetes Version: v1.",
    ] {
        assert!(long.contains(part), "{part}: {long}");
    }
    let kubelet = edged::NodeConfig::default().kubelet_version;
    assert_eq!(
        kubelet,
        format!(
            "{}-kubeedge-{}",
            edged::KUBERNETES_VERSION,
            wire::version::KUBEEDGE
        )
    );
}

#[test]
fn mistyped_words_are_answered_with_the_nearest_known_one() {
    for (line, near) in [
        ("edge-agent rest", "reset"),
        ("edge-agent joni", "join"),
        ("edge-agent completon bash", "completion"),
        ("edge-agent db chek", "check"),
        ("edge-agent --confg /a", "--config"),
        ("edge-agent join --clod c --token t", "--cloud"),
        ("edge-agent reset --forse", "--force"),
        ("edge-agent db check -o jso", "json"),
        ("edge-agent --log-format jsn", "json"),
    ] {
        let error = cli(line).unwrap_err().to_string();
        assert!(
            error.contains("similar") && error.contains(&format!("'{near}'")),
            "{line}: {error}"
        );
    }
}

#[test]
fn guessed_commands_are_answered_with_what_to_type() {
    let answer = |line: &str| {
        let args = line.split(' ').map(std::ffi::OsString::from).collect();
        try_parse_with_tips::<Cli>(args, &tips::EDGE_AGENT).map_err(|error| error.to_string())
    };
    for (line, tip) in [
        ("edge-agent start", "`systemctl start edge-agent`"),
        ("edge-agent -v 4 run", "`edge-agent` without a command"),
        ("edge-agent stop", "`systemctl stop edge-agent`"),
        ("edge-agent restart", "`systemctl restart edge-agent`"),
        ("edge-agent health", "`edge-agent status`"),
        ("edge-agent logs", "`journalctl -u edge-agent -f`"),
        ("edge-agent get pods", "kubectl --kubeconfig"),
        ("edge-agent leave", "`edge-agent reset`"),
        ("edge-agent rejoin", "--rejoin"),
        ("edge-agent token", "`cloudsim token`"),
        ("edge-agent config", "`edge-agent --minconfig`"),
        ("edge-agent dump", "`edge-agent db dump`"),
        ("edge-agent export", "`edge-agent db export`"),
    ] {
        let error = answer(line).unwrap_err();
        assert!(
            error.contains("tip: ") && error.contains(tip),
            "{line}: {error}"
        );
    }
    let version = answer("edge-agent version").unwrap();
    let mut out = Vec::new();
    assert!(version.print(&mut out).unwrap());
    let long = cli("edge-agent --version").unwrap_err().to_string();
    assert_eq!(String::from_utf8(out).unwrap(), long);
    let command = Cli::command();
    for word in tips::EDGE_AGENT.iter().flat_map(|tip| tip.words) {
        assert!(command.find_subcommand(word).is_none(), "{word}");
    }
}

#[test]
fn wrong_options_of_join_are_refused_before_any_check() {
    for (option, part) in [
        ("--ignore-checks=port,runtimee", "'runtime'"),
        ("--ignore-checks=disk", "'disk'"),
        ("--ignore-preflight-errors=swap", "'swap'"),
        ("--labels=a=b,zone=north_", "not a valid value"),
        ("--labels==b", "not a valid key"),
        ("-l=a/b/c=d", "not a valid key"),
        ("--name=Edge_1", "RFC 1123"),
        ("--node-ip=0.0.0.0", "address of the node"),
        ("--runtime-endpoint=tcp://192.0.2.1", "unix:///"),
        ("--cloud=https://cloud", "write only the host"),
        ("--cert-port=0", "from 1 to 65535"),
        ("--cgroup-driver=system", "'systemd'"),
    ] {
        let base = "edge-agent join --cloud c --token t";
        let line = base.replace(
            "--cloud c ",
            if option.contains("cloud") {
                ""
            } else {
                "--cloud c "
            },
        );
        let error = cli(&format!("{line} {option}")).unwrap_err().to_string();
        assert!(error.contains(part), "{option}: {error}");
    }
    let all = "edge-agent join --cloud c --token t --ignore-checks port,cgroups,all";
    let Some(Command::Join(join)) = cli(all).unwrap().command else {
        panic!()
    };
    let expected = [CheckName::Ports, CheckName::Cgroups, CheckName::All];
    assert_eq!(join.ignore_checks, expected);
    // the page lists them
    for entry in checks_of(Stage::Join) {
        assert!(JOIN_NOTES.contains(&entry.name.name()), "{entry:?}");
    }
}

#[test]
fn table_of_checks_has_each_check_once_and_needs_are_in_it() {
    let all: Vec<CheckName> = CHECKS.iter().map(|entry| entry.name).collect();
    for name in CheckName::value_variants() {
        let rows = all.iter().filter(|row| *row == name).count();
        assert_eq!(rows, usize::from(*name != CheckName::All), "{name:?}");
        assert!(
            !name.title().is_empty() && !name.title().ends_with('.'),
            "{name:?}"
        );
    }
    for entry in CHECKS {
        for need in entry.needs {
            assert!(all.contains(need), "{entry:?}");
        }
    }
    let skipped = cli("edge-agent check --skip port,disk-speed --skip db").unwrap();
    let Some(Command::Check(check)) = skipped.command else {
        panic!()
    };
    let expected = [CheckName::Ports, CheckName::DiskSpeed, CheckName::Database];
    assert_eq!(check.skip, expected);
    for (unknown, near) in [("runtme", "runtime"), ("cerificate", "certificate")] {
        let error = cli(&format!("edge-agent check --skip {unknown}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(near), "{error}");
    }
    assert!(cli("edge-agent check --skip all").is_err());
    let ignored = "edge-agent join --cloud c --token t --ignore-checks kernel";
    assert!(cli(ignored).is_err(), "join has no such check");
}
