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
