//! The type `semver`: semantic versions.

use super::context::Context;
use crate::cel::{
    error::{EvalError, Evaluated},
    semver::Version,
    value::{Val, order},
};

/// Calls a function of versions. A second argument that is true makes the parser tolerant.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], _: &mut Context<'_>) -> Option<Evaluated<'a>> {
    let parsed = |text: &str, tolerant: bool| {
        if tolerant {
            Version::parse_tolerant(text)
        } else {
            Version::parse(text)
        }
    };
    let tolerant = matches!(args, [_, Val::Bool(true)]);
    Some(match (name, args) {
        ("isSemver", [Val::String(text)] | [Val::String(text), Val::Bool(_)]) => {
            Ok(Val::Bool(parsed(text, tolerant).is_ok()))
        }
        ("semver", [Val::String(text)] | [Val::String(text), Val::Bool(_)]) => {
            parsed(text, tolerant)
                .map(|version| Val::Semver(version.into()))
                .map_err(EvalError::Failed)
        }
        ("isGreaterThan", [Val::Semver(one), Val::Semver(two)]) => {
            Ok(Val::Bool(one.compare(two).is_gt()))
        }
        ("isLessThan", [Val::Semver(one), Val::Semver(two)]) => {
            Ok(Val::Bool(one.compare(two).is_lt()))
        }
        ("compareTo", [Val::Semver(one), Val::Semver(two)]) => {
            Ok(Val::Int(order(one.compare(two))))
        }
        ("major" | "minor" | "patch", [Val::Semver(version)]) => {
            let [major, minor, patch] = version.numbers;
            let number = match name {
                "major" => major,
                "minor" => minor,
                _ => patch,
            };
            Ok(Val::Int(number.cast_signed()))
        }
        _ => return None,
    })
}
