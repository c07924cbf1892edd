//! Check `config`: the configuration is valid, and each of its settings has an effect.

use std::error::Error as _;

use wire::text::count;

use super::{
    inputs::Inputs,
    report::{CheckResult, Finding},
};
use crate::{
    cli::Stage,
    config::{self, Warning, WarningKind},
};

pub(crate) fn check(inputs: &Inputs<'_>) -> Finding {
    if inputs.stage != Stage::Node {
        let what = format!(
            "{} does not exist: this machine has not joined a cloud; checked with default settings",
            inputs.path.display()
        );
        return CheckResult::Remark(what).into();
    }
    match inputs.loaded {
        Ok(warnings) => judge(&inputs.path.display().to_string(), warnings),
        Err(error) => invalid(error),
    }
}

fn judge(path: &str, warnings: &[Warning]) -> Finding {
    let is_unused = |warning: &&Warning| matches!(warning.kind, WarningKind::NotUsed { .. });
    let unused = warnings.iter().filter(is_unused).count();
    let wrong: Vec<String> = warnings
        .iter()
        .filter(|warning| !is_unused(warning))
        .map(ToString::to_string)
        .collect();
    let details = warnings.iter().map(ToString::to_string).collect();
    let result = if !wrong.is_empty() {
        CheckResult::warning(
            format!("{path}: {}", wrong.join("; ")),
            "correct or remove these settings; `edge-agent --defaultconfig` prints all of them",
        )
    } else if unused > 0 {
        CheckResult::Remark(format!(
            "{path} is valid; {} of EdgeCore not used by this agent",
            count(unused, "setting")
        ))
    } else {
        CheckResult::Passed(format!("{path} is valid"))
    };
    Finding::with_details(result, details)
}

fn invalid(error: &config::Error) -> Finding {
    let mut what = error.to_string();
    if let Some(source) = error.source() {
        what = format!("{what}: {source}");
    }
    let (what, cure) = match error {
        config::Error::Invalid {
            path,
            errors,
            typos,
        } => {
            let typos = typos.iter().map(ToString::to_string);
            let all: Vec<String> = errors
                .iter()
                .map(ToString::to_string)
                .chain(typos)
                .collect();
            (
                format!("{}: {}", path.display(), all.join("; ")),
                "correct these settings and restart the agent",
            )
        }
        config::Error::Missing { path } => (
            format!("{} does not exist", path.display()),
            "check the path in --config, or join a cloud with `edge-agent join`",
        ),
        config::Error::Read { .. } => (what, "run this command as root"),
        _ => (
            what,
            "correct the file; `edge-agent --minconfig` prints a valid one",
        ),
    };
    CheckResult::bad(what, cure).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Host;

    #[test]
    fn unknown_keys_warn_and_invalid_values_fail() {
        for (text, expected) in [
            ("modules: {edgeHub: {heartbeat: 15}}", "ok"),
            (
                "modules: {edgeHub: {heartbeat: 15}, dbTest: {enable: true}}",
                "note: 1 setting of EdgeCore",
            ),
            (
                "modules: {edgeHub: {tokn: ''}}",
                "warning: line 1: modules.edgeHub.tokn: unknown key, ignored; did you mean token?",
            ),
            ("modules: {edgeHub: {heartbeat: many}}", "error: heartbeat"),
            ("modules: [", "error: is not YAML"),
            ("", "error: has no settings"),
        ] {
            let host = Host {
                name: "edge-1".into(),
                address: [192, 0, 2, 7].into(),
            };
            let found = match config::parse(Path::new("/x.yaml"), text, None, &host) {
                Ok((_, warnings)) => judge("/x.yaml", &warnings),
                Err(error) => invalid(&error),
            };
            let (grade, part) = expected.split_once(": ").unwrap_or((expected, ""));
            let got = match &found.result {
                CheckResult::Passed(_) => "ok",
                CheckResult::Remark(_) => "note",
                CheckResult::Warning { .. } => "warning",
                CheckResult::Failed { .. } => "error",
                other => panic!("{other:?}"),
            };
            let (what, _) = found.result.texts();
            assert!(got == grade && what.contains(part), "{text}: {found:?}");
            assert!(what.contains("/x.yaml"), "{what}");
        }
    }
}
