//! `make judges`: the reports of suites that others wrote agree with their reasons and with the page, a quick suite runs as its report
//! says, and a case that passed once may not fail.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use e2e::{CLOUDSIM, Output, binary, run};

/// What the judges read and write, in the repository.
const FILES: [&str; 4] = [
    "conformance/suites.toml",
    "conformance/reasons.toml",
    "docs/conformance.md",
    "README.md",
];
const REPORTS: &str = "conformance/reports/suites";

fn judges(arguments: &[&str], root: &Path) -> anyhow::Result<Output> {
    let mut command = e2e::python("../../conformance/judges")?;
    run(command.args(arguments).arg("--root").arg(root))
}

/// Copies what the judges read and write.
fn copy_to(root: &Path) -> anyhow::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::create_dir_all(root.join(REPORTS))?;
    fs::create_dir_all(root.join("docs"))?;
    for file in FILES {
        fs::copy(repository.join(file), root.join(file))?;
    }
    for entry in fs::read_dir(repository.join(REPORTS))? {
        let path = entry?.path();
        let name = path.file_name().context("no name")?;
        fs::copy(&path, root.join(REPORTS).join(name))?;
    }
    Ok(())
}

/// The directory in which the programs were built.
fn target_directory() -> anyhow::Result<PathBuf> {
    let program = binary(CLOUDSIM)?;
    let built = program.ancestors().nth(2).context("no directory")?;
    Ok(built.to_owned())
}

#[test]
fn reports_reasons_and_page_agree() -> anyhow::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    judges(&["check"], &repository)?.success()?;
    Ok(())
}

#[test]
fn a_case_that_passed_once_and_fails_is_named() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    copy_to(root.path())?;
    let reports = root.path().join(REPORTS);
    let passed = reports.join("kopf.passed");
    let report = fs::read_to_string(reports.join("kopf.yaml"))?;
    let failed = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("- tests."))
        .context("kopf has no failed case")?;
    let all = fs::read_to_string(&passed)?;
    fs::write(&passed, format!("{all}tests.{failed}\n"))?;
    let found = judges(&["check"], root.path())?;
    let why = format!("kopf: tests.{failed} has passed before and does not pass now");
    ensure!(
        found.code == Some(1) && found.stderr.contains(&why),
        "{found:?}"
    );
    Ok(())
}

/// Runs a suite of cases whose outcomes are these lines, in a repository of its own.
fn run_lines(root: &Path, lines: &str) -> anyhow::Result<Output> {
    run_suite(root, lines, "['cat', 'results']")
}

/// Does the same with a command that prints them.
fn run_suite(root: &Path, lines: &str, command: &str) -> anyhow::Result<Output> {
    let suites = root.join("suites/lines");
    fs::create_dir_all(&suites)?;
    fs::create_dir_all(root.join("conformance/reports/suites"))?;
    fs::write(suites.join("results"), lines)?;
    let sum = run(std::process::Command::new("python3").arg("-c").arg(
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import suites; print(suites.of_files(pathlib.Path(sys.argv[2])))",
    ).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/judges")).arg(&suites))?
    .success()?;
    let suite = format!(
        "[lines]\ntitle = 'lines'\nversion = '1'\nsource = 'directory lines'\nsha256 = '{}'\nsubject = 'none'\nprofile = 'none'\n\
         limit = 3\nrun = {command}\nresults = 'lines ^(?P<outcome>\\w+) (?P<name>\\w+)'\n",
        String::from_utf8_lossy(&sum.stdout).trim()
    );
    fs::write(root.join("conformance/suites.toml"), suite)?;
    for page in ["README.md", "docs/conformance.md"] {
        let path = root.join(page);
        fs::create_dir_all(path.parent().context("no folder")?)?;
        fs::write(
            &path,
            "- **Judged by others.**\n<!-- reports: written by `make judges` -->\n<!-- end of reports -->\n",
        )?;
    }
    let (given, built) = (root.join("suites"), root.join("target"));
    let (given, built) = (given.display().to_string(), built.display().to_string());
    judges(&["run", "--suites", &given, "--built", &built], root)
}

#[test]
fn a_suite_that_did_not_run_to_its_end_has_no_report() -> anyhow::Result<()> {
    for (lines, command, why) in [
        (
            "ok a\n",
            "['sh', '-c', 'cat results; exit 3']",
            "the suite ended with 3, and its 1 results do not say why",
        ),
        (
            "ok a\n",
            "['sh', '-c', 'cat results; kill -SEGV $$']",
            "the suite ended with -11",
        ),
        ("skipped a\n", "['cat', 'results']", "no case ran"),
        ("", "['cat', 'results']", "no case ran"),
        ("ok a\n", "['absent-program']", "cannot run absent-program"),
        (
            "ok a\n",
            "['sh', '-c', 'cat results; sleep 77731 & sleep 77732']",
            "did not end within 3 s",
        ),
    ] {
        let root = tempfile::tempdir()?;
        let root = root.path();
        fs::create_dir_all(root.join("conformance"))?;
        fs::write(root.join("conformance/reasons.toml"), "")?;
        let found = run_suite(root, lines, command)?;
        ensure!(found.code == Some(1), "{command}: {found:?}");
        ensure!(found.stderr.contains(why), "{command}: {found:?}");
        ensure!(!found.stderr.contains("Traceback"), "{command}: {found:?}");
        ensure!(!root.join(REPORTS).join("lines.yaml").exists(), "{command}");
    }
    for entry in fs::read_dir("/proc")? {
        let line = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        ensure!(!line.starts_with("sleep\x00777"), "{line}");
    }
    Ok(())
}

#[test]
fn only_an_improvement_is_written() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    let root = root.path();
    let reasons = |text: &str| fs::write(root.join("conformance/reasons.toml"), text);
    let why = "[[lines]]\ncases = ['b']\nwhose = 'suite'\nwhy = 'b is broken'\n";
    fs::create_dir_all(root.join("conformance"))?;
    let report = root.join("conformance/reports/suites/lines.yaml");
    let passed = || fs::read_to_string(report.with_extension("passed"));

    reasons("")?;
    let found = run_lines(root, "ok a\nfailed b\n")?;
    ensure!(
        found
            .stderr
            .contains("b fails, and conformance/reasons.toml does not say why")
            && !report.exists(),
        "a failed case without a reason: {found:?}"
    );
    reasons(why)?;
    run_lines(root, "ok a\nfailed b\n")?.success()?;
    ensure!(passed()? == "a\n", "the first report");
    judges(&["check"], root)?.success()?;

    reasons("[[lines]]\ncases = ['*']\nwhose = 'suite'\nwhy = 'all is broken'\n")?;
    let before = fs::read_to_string(&report)?;
    let found = run_lines(root, "failed a\nfailed b\n")?;
    let regression = "error: lines: a has passed before and does not pass now: failed";
    ensure!(
        found.code == Some(1) && found.stderr.trim() == regression,
        "a reason excuses no regression: {found:?}"
    );
    ensure!(
        fs::read_to_string(&report)? == before,
        "the old report stays"
    );

    let found = run_lines(root, "ok a\nok b\n")?;
    ensure!(
        found.stderr.contains("no failed case has this reason"),
        "a reason that no case needs: {found:?}"
    );
    reasons("")?;
    run_lines(root, "ok a\nok b\n")?.success()?;
    ensure!(passed()? == "a\nb\n", "an improvement is written");
    Ok(())
}

const REPORT: &str = "reports/suites/kopf.yaml";
const PASSED: &str = "reports/suites/kopf.passed";
const SUITES: &str = "suites.toml";
const REASONS: &str = "reasons.toml";
/// Edits of files below `conformance` and what `check` says: file, old text, new text, words of the error.
const EDITS: [(&str, &str, &str, &str); 23] = [
    (
        REPORT,
        "failed: 1",
        "failed: 0",
        "the statistics have 0 failed cases, and the report names 1",
    ),
    (
        REPORT,
        "passed: ",
        "passed: 9",
        "passed cases, and the report names ",
    ),
    (
        REPORT,
        "skipped: 0",
        "skipped: 3",
        "the statistics have 3 skipped cases",
    ),
    (
        REPORT,
        "skipped: 0",
        "skipped: many",
        "is no report of a suite (ValueError",
    ),
    (
        REPORT,
        "why: The package",
        "why: No package",
        "does not have this reason: No package",
    ),
    (
        REPORT,
        "[17-admission]",
        "[99]",
        "no failed case has the pattern",
    ),
    (REPORT, "version: ", "version: 0", "run the suite"),
    (REPORT, "name: kopf", "name: other", "run the suite"),
    (
        REPORT,
        "- name: standalone",
        "- name: cluster",
        "the report is of profile cluster",
    ),
    (
        REPORT,
        "result: failure",
        "result: success",
        "the result is success, and 1 cases failed",
    ),
    (
        REPORT,
        "commit: ",
        "commit: dirty-dirty #",
        "not on a commit",
    ),
    (REPORT, "date: '2", "date: '3", "is in the future"),
    (
        REPORT,
        "profiles:",
        "profile:",
        "is no report of a suite (KeyError",
    ),
    (
        REPORT,
        "apiVersion",
        "{",
        "is no report of a suite (ParserError",
    ),
    (
        PASSED,
        "examples.10",
        "examples.11-filtering-handlers.test_example_11.test_handler_filtering\n#",
        "is there 2 times",
    ),
    (
        REASONS,
        "[[kopf]]",
        "[[unheard]]",
        "conformance/suites.toml has not",
    ),
    (
        REASONS,
        "whose = \"suite\"",
        "whose = \"nobody\"",
        "is not one of ours, suite, unsupported",
    ),
    (
        REASONS,
        "why = \"The package oscrypto",
        "why = \"\" # \"",
        "an empty why",
    ),
    (
        REASONS,
        "cases = [\"*17-admission*\"]",
        "cases = \"*\"",
        "is no list of patterns",
    ),
    (
        REASONS,
        "[[kopf]]",
        "[[kopf",
        "conformance/reasons.toml cannot be read",
    ),
    (SUITES, "sha256 = \"5baa", "sha256 = \"", "is no checksum"),
    (
        SUITES,
        "title = ",
        "titel = ",
        "conformance/suites.toml cannot be read",
    ),
    (
        SUITES,
        "version = \"1.45",
        "version = \"2.0",
        "run the suite",
    ),
];

/// The report of kopf has one failed case, with one reason.
#[test]
fn an_edited_report_is_found() -> anyhow::Result<()> {
    for (file, from, to, why) in EDITS {
        let root = tempfile::tempdir()?;
        copy_to(root.path())?;
        let path = root.path().join("conformance").join(file);
        let text = fs::read_to_string(&path)?;
        ensure!(text.contains(from), "{from} is not in {file}");
        fs::write(&path, text.replacen(from, to, 1))?;
        let found = judges(&["check"], root.path())?;
        ensure!(found.code == Some(1), "{to}: {found:?}");
        ensure!(found.stderr.contains(why), "{to}: {found:?}");
        ensure!(!found.stderr.contains("Traceback"), "{to}: {found:?}");
    }
    Ok(())
}

#[test]
fn what_an_earlier_commit_has_may_not_be_lost() -> anyhow::Result<()> {
    let (failed, passed) = (
        "tests.e2e.test_examples.test_all_examples_are_runnable[17-admission]",
        "examples.10-builtins.test_example_10.test_pods_reacted",
    );
    let file = |name: &str| format!("{REPORTS}/{name}");
    // both files of a report, and the page, are changed so that they agree
    let fall = |root: &Path| -> anyhow::Result<()> {
        let edit = |name: &str, changes: &[(&str, &str)]| -> anyhow::Result<()> {
            let mut text = fs::read_to_string(root.join(name))?;
            for (from, to) in changes {
                ensure!(text.contains(from), "{name}: {from}");
                text = text.replacen(from, to, 1);
            }
            Ok(fs::write(root.join(name), text)?)
        };
        edit(&file("kopf.passed"), &[(&format!("{passed}\n"), "")])?;
        let more = format!("  - {failed}\n  - {passed}\n");
        let counts = [("passed: 16", "passed: 15"), ("failed: 1", "failed: 2")];
        edit(
            &file("kopf.yaml"),
            &[counts[0], counts[1], (&format!("  - {failed}\n"), &more)],
        )?;
        let both = "cases = [\"*17-admission*\", \"*test_pods_reacted\"]";
        edit(
            "conformance/reasons.toml",
            &[("cases = [\"*17-admission*\"]", both)],
        )
    };
    let renew = |root: &Path| -> anyhow::Result<()> {
        fall(root)?;
        for name in ["conformance/suites.toml", &file("kopf.yaml")] {
            let text = fs::read_to_string(root.join(name))?;
            fs::write(root.join(name), text.replace("1.45.2", "1.46.0"))?;
        }
        Ok(())
    };
    let remove = |root: &Path| -> anyhow::Result<()> {
        fs::remove_file(root.join(file("kopf.yaml")))?;
        Ok(fs::remove_file(root.join(file("kopf.passed")))?)
    };
    let remove_one = |root: &Path| Ok(fs::remove_file(root.join(file("kopf.yaml")))?);
    let fallen = format!("kopf: {passed} has passed before and does not pass now: failed");
    type Change<'a> = &'a dyn Fn(&Path) -> anyhow::Result<()>;
    for (change, why) in [
        (&fall as Change<'_>, fallen.as_str()),
        (&renew, &fallen),
        (&remove, "kopf: its report was removed"),
        (
            &remove_one,
            "kopf: one of kopf.yaml and kopf.passed is missing",
        ),
    ] {
        let root = tempfile::tempdir()?;
        copy_to(root.path())?;
        for arguments in [
            &["init", "--quiet"][..],
            &["add", "."],
            &[
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@example.com",
                "commit",
                "--quiet",
                "-m",
                "reports",
            ],
        ] {
            let mut git = std::process::Command::new("git");
            run(git.args(arguments).current_dir(root.path()))?.success()?;
        }
        judges(&["check"], root.path())?.success()?;
        change(root.path())?;
        judges(&["page"], root.path())?;
        let found = judges(&["check"], root.path())?;
        ensure!(
            found.code == Some(1) && found.stderr.contains(why),
            "{why}: {found:?}"
        );
    }
    Ok(())
}

/// Runs a suite that takes seconds, and expects its report. A case that is expected to pass and does not exist any more is a regression,
/// too.
fn run_quick(suite: &str) -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    copy_to(root.path())?;
    let passed = root.path().join(REPORTS).join(suite);
    let passed = passed.with_extension("passed");
    let all = fs::read_to_string(&passed)?;
    fs::write(&passed, format!("a case that is gone\n{all}"))?;
    let built = target_directory()?.display().to_string();
    let arguments = ["run", "--suite", suite, "--built", &built];
    let found = judges(&arguments, root.path())?;
    let why = format!(
        "error: {suite}: a case that is gone has passed before and does not pass now: missing"
    );
    ensure!(
        found.code == Some(1) && found.stderr.trim() == why,
        "{found:?}"
    );
    Ok(())
}

#[test]
fn json_schema_is_judged_as_its_report_says() -> anyhow::Result<()> {
    run_quick("json-schema")
}

#[test]
fn cel_is_judged_as_its_report_says() -> anyhow::Result<()> {
    run_quick("cel-spec")
}
