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
/// A suite that takes seconds.
const QUICK: &str = "json-schema";

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

/// Runs a suite of two cases whose outcomes are these lines, in a repository of its own.
fn run_lines(root: &Path, lines: &str) -> anyhow::Result<Output> {
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
         run = ['cat', 'results']\nresults = 'lines ^(?P<outcome>\\w+) (?P<name>\\w+)'\n",
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
    let regression = "error: lines: a has passed before and does not pass now";
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

#[test]
fn an_edited_report_is_found() -> anyhow::Result<()> {
    for (from, to, why) in [
        (
            "failed: 1",
            "failed: 0",
            "0 cases failed, but reasons are given for 1",
        ),
        (
            "passed: ",
            "passed: 9",
            "have passed once: a case that passes may not fail again",
        ),
        (
            "why: The package",
            "why: No package",
            "the report and conformance/reasons.toml differ in",
        ),
        ("version: ", "version: 0", "the report is of version 0"),
    ] {
        let root = tempfile::tempdir()?;
        copy_to(root.path())?;
        let report = root.path().join(REPORTS).join("kopf.yaml");
        let text = fs::read_to_string(&report)?;
        ensure!(text.contains(from), "{from} is not in the report");
        fs::write(&report, text.replacen(from, to, 1))?;
        let found = judges(&["check"], root.path())?;
        ensure!(
            found.code == Some(1) && found.stderr.contains("error: kopf: "),
            "{to}: {found:?}"
        );
        ensure!(found.stderr.contains(why), "{to}: {found:?}");
    }
    Ok(())
}

#[test]
fn a_suite_runs_as_its_report_says_and_a_regression_is_named() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    copy_to(root.path())?;
    // a case that is expected to pass and does not exist any more is a regression, too
    let passed = root
        .path()
        .join(REPORTS)
        .join(QUICK)
        .with_extension("passed");
    let all = fs::read_to_string(&passed)?;
    fs::write(&passed, format!("a case that is gone\n{all}"))?;
    let built = target_directory()?.display().to_string();
    let arguments = ["run", "--suite", QUICK, "--built", &built];
    let found = judges(&arguments, root.path())?;
    let why =
        format!("error: {QUICK}: a case that is gone has passed before and does not pass now");
    ensure!(
        found.code == Some(1) && found.stderr.trim() == why,
        "{found:?}"
    );
    Ok(())
}
