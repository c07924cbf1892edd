//! The commands of the user pages do what the pages show, on a machine with a network of its own, so that their ports are free.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, ensure};
use e2e::pages::{SESSIONS, Session, Terminal, shows};

/// Runs the pages of a session. `places` are texts of the pages, and paths below the session's directory.
fn follow(
    session: &'static str,
    places: &'static [(&str, &str)],
    least: usize,
) -> anyhow::Result<()> {
    let (_, pages) = SESSIONS
        .iter()
        .find(|(name, _)| *name == session)
        .context("no such session")?;
    testkit::in_network_namespace(move || {
        testkit::ip(&["link", "set", "lo", "up"]);
        let directory = tempfile::tempdir()?;
        let below = |place: &str| place.replace("HERE", &directory.path().display().to_string());
        let places: Vec<_> = places
            .iter()
            .map(|(shown, here)| (*shown, below(here)))
            .collect();
        let places: Vec<_> = places
            .iter()
            .map(|(shown, here)| (*shown, here.as_str()))
            .collect();
        let mut machine = Session::new(directory.path(), &places)?;
        let mut commands = 0;
        for page in *pages {
            commands += machine.run_page(page)?;
        }
        ensure!(commands >= least, "only {commands} commands were run");
        Ok(())
    })
}

#[test]
fn pages_about_the_cloud_show_what_its_commands_do() -> anyhow::Result<()> {
    follow("cloud", &[("DIR", "HERE/data")], 30)
}

#[test]
fn pages_about_a_node_show_what_its_commands_do() -> anyhow::Result<()> {
    let places = &[
        ("/tmp/tutorial", "HERE/tutorial"),
        ("/tmp/edge", "HERE/edge"),
        ("/etc/kubeedge", "HERE/tutorial/node/etc/kubeedge"),
        ("/var/lib/kubeedge", "HERE/tutorial/node/var/lib/kubeedge"),
        // the configuration of a node that has joined without --root is at its default path
        (
            "edge-agent db",
            "edge-agent --config HERE/tutorial/node/etc/kubeedge/config/edgecore.yaml db",
        ),
        (
            "edge-agent check",
            "edge-agent --config HERE/tutorial/node/etc/kubeedge/config/edgecore.yaml check",
        ),
        (
            "edge-agent status",
            "edge-agent --config HERE/tutorial/node/etc/kubeedge/config/edgecore.yaml status",
        ),
        (
            "edge-agent bundle",
            "edge-agent --config HERE/tutorial/node/etc/kubeedge/config/edgecore.yaml bundle",
        ),
        ("DIR", "HERE/data"),
    ];
    follow("node", places, 30)
}

#[test]
fn pages_about_rules_show_what_their_commands_do() -> anyhow::Result<()> {
    follow("rules", &[("/tmp/edge", "HERE/edge")], 15)
}

#[test]
fn the_page_about_recordings_shows_what_its_commands_do() -> anyhow::Result<()> {
    follow("record", &[], 2)
}

#[test]
fn the_page_about_the_live_page_shows_what_its_commands_do() -> anyhow::Result<()> {
    follow("page", &[], 3)
}

#[test]
fn the_page_about_conformance_shows_what_its_commands_do() -> anyhow::Result<()> {
    follow("conformance", &[], 3)
}

#[test]
fn the_page_about_snapshots_shows_what_its_commands_do() -> anyhow::Result<()> {
    follow("snapshot", &[], 5)
}

#[test]
fn a_shown_line_may_differ_in_times_from_the_printed_line() {
    for (said, shown, numbers_vary, wanted) in [
        (
            "a\nhello   1/1  Running  0  3m20s\n",
            "hello 1/1 Running 0 1s",
            false,
            true,
        ),
        (
            "hello 0/1 Running 0 1s",
            "hello 1/1 Running 0 1s",
            false,
            false,
        ),
        (
            "ready after 90 ms, with",
            "ready after 1380 ms, with",
            false,
            true,
        ),
        ("ready after 90 pods", "ready after 80 pods", false, false),
        ("web-7d9 Ready", "web-… Ready", false, true),
        ("web-7d9 Ready x", "web-… Ready", false, false),
        ("x web-7d9 Ready", "web-…", false, false),
        ("x web-7d9 Ready", "…web-…", false, true),
        ("a one b two c", "a … b … c", false, true),
        ("a one c", "a … b … c", false, false),
        (
            "OK: 12 objects (3 encrypted)",
            "OK: 57 objects (0 encrypted)",
            true,
            true,
        ),
        (
            "OK: 12 objects (3 encrypted)",
            "OK: 57 objects (0 encrypted)",
            false,
            false,
        ),
        ("anything", "  …", false, true),
    ] {
        assert_eq!(
            shows(said, shown, numbers_vary),
            wanted,
            "{said:?} {shown:?}"
        );
    }
}

#[test]
fn lines_of_pages_are_run_as_a_shell_runs_them() -> anyhow::Result<()> {
    let mut terminal = Terminal {
        directory: std::env::temp_dir(),
        variables: BTreeMap::from([("A".to_owned(), "1 2".to_owned())]),
        programs: BTreeMap::from([("own".to_owned(), PathBuf::from("printf"))]),
    };
    for (line, wanted) in [
        ("printf %s- a 'b c' d\"e f\"'g'", "a-b c-de fg-"),
        ("printf %s- $A \"$A\" '$A'", "1 2-1 2-$A-"),
        ("printf %s \"$(printf %s x | sed s/x/y/)\"", "y"),
        ("printf a && printf b", "ab"),
        ("export B=7 && printf $B", "7"),
        ("own own", "own"),
    ] {
        assert_eq!(terminal.run(line)?.success()?.text(), wanted, "{line}");
    }
    assert_eq!(terminal.run("false && printf x")?.code, Some(1));
    for line in ["a > b", "a; b", "a &", "printf 'a", "printf $NONE"] {
        assert!(terminal.run(line).is_err(), "{line}");
    }
    Ok(())
}
