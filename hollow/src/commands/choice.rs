//! Finds the cloud of a command: that of the options, of `$KUBECONFIG` or of the current directory, or else the one that this user runs.

use std::path::PathBuf;

use anyhow::bail;
use wire::text::count;

use super::{
    connect::WRITTEN,
    environment,
    output::warn,
    running::{Records, RunningCloud},
};
use crate::cli::Access;

/// Returns the kubeconfig and context of a command's cloud:
///
/// 1. the options, if they name a kubeconfig;
/// 2. the cloud of this user in the files of `$KUBECONFIG`, or in `cloudsim.kubeconfig` here;
/// 3. the context of `$KUBECONFIG`, as for kubectl;
/// 4. the only cloud of this user.
///
/// With `--context`, only clouds of that name count.
///
/// # Errors
/// This user runs several clouds, and nothing says which one is meant.
pub(super) fn choose(access: Access, records: &Records) -> anyhow::Result<Access> {
    if access.kubeconfig.is_some() {
        return Ok(access);
    }
    let clouds = records.list_with_service().unwrap_or_else(|error| {
        warn(&format!("cannot find clouds of this user: {error:#}"));
        Vec::new()
    });
    let clouds = matching(&access, clouds);
    let variable = environment::split_paths(std::env::var_os("KUBECONFIG"));
    let named = || environment::merge(&variable).ok().flatten();
    let is_named = named().is_some_and(|read| {
        let wanted = access.context.as_ref().or(read.current_context.as_ref());
        wanted.is_some_and(|wanted| read.contexts.iter().any(|context| context.name == *wanted))
    });
    choose_among(access, clouds, &variable, is_named)
}

/// Chooses with the files of `$KUBECONFIG`, and whether they have the context that is wanted.
fn choose_among(
    access: Access,
    mut clouds: Vec<RunningCloud>,
    variable: &[PathBuf],
    is_named: bool,
) -> anyhow::Result<Access> {
    // In cluster mode, the kubeconfig is that of the cluster.
    clouds.retain(|cloud| cloud.kubeconfig.is_some());
    let here = in_files(&clouds, variable);
    let chosen = match here.as_slice() {
        [cloud] => Some(cloud.clone()),
        [] if is_named => None,
        [] => only(clouds, "")?,
        // The files say which one is current.
        _ => None,
    };
    Ok(chosen.map_or(access, |cloud| Access {
        kubeconfig: cloud.kubeconfig,
        context: cloud.context,
    }))
}

/// Returns the clouds that the options name; without options, all.
pub(super) fn matching(access: &Access, mut clouds: Vec<RunningCloud>) -> Vec<RunningCloud> {
    clouds.retain(|cloud| cloud.is_of(access.kubeconfig.as_deref(), access.context.as_deref()));
    clouds
}

/// Returns the clouds whose entries are in the files of `$KUBECONFIG`, or else in that of the current directory.
pub(super) fn in_files(clouds: &[RunningCloud], variable: &[PathBuf]) -> Vec<RunningCloud> {
    let written = [PathBuf::from(WRITTEN)];
    let files = if variable.is_empty() {
        &written
    } else {
        variable
    };
    let is_here = |cloud: &&RunningCloud| files.iter().any(|file| cloud.is_of(Some(file), None));
    clouds.iter().filter(is_here).cloned().collect()
}

/// Returns the only cloud, if there is any.
///
/// # Errors
/// There are several; `cure` is what else the command offers then.
pub(super) fn only(
    mut clouds: Vec<RunningCloud>,
    cure: &str,
) -> anyhow::Result<Option<RunningCloud>> {
    if clouds.len() <= 1 {
        return Ok(clouds.pop());
    }
    let names = clouds.iter().map(|cloud| {
        let file = cloud.kubeconfig.as_ref();
        let file = file.map_or_else(String::new, |file| format!(" in {}", file.display()));
        format!("{}{file}", cloud.name())
    });
    bail!(
        "{} are running: {}; choose one with --kubeconfig and --context{cure}",
        count(clouds.len(), "cloud"),
        names.collect::<Vec<_>>().join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{process::Process, running::tests::cloud};

    #[test]
    fn cloud_is_that_of_options_files_or_this_user() {
        let own = Process::own().unwrap();
        let of = |file: &str, context: &str| RunningCloud {
            kubeconfig: Some(file.into()),
            ..cloud(own.clone(), context)
        };
        let in_cluster = RunningCloud {
            kubeconfig: None,
            ..cloud(own.clone(), "kind")
        };
        let blue = || vec![of("/x/blue", "blue")];
        let both = || vec![of("/x/blue", "blue"), of("/x/green", "green")];
        let shared = || vec![of("/x/blue", "blue"), of("/x/blue", "green")];
        for (clouds, variable, is_named, expected) in [
            (Vec::new(), &[][..], false, Ok("")),
            (blue(), &[], false, Ok("/x/blue blue")),
            (vec![in_cluster], &[], false, Ok("")),
            // $KUBECONFIG names another cluster
            (blue(), &["/x/other"], true, Ok("")),
            // it has no such context
            (blue(), &["/x/other"], false, Ok("/x/blue blue")),
            (both(), &["/x/green"], true, Ok("/x/green green")),
            (both(), &["/x/other", "/x/blue"], true, Ok("/x/blue blue")),
            (shared(), &["/x/blue"], true, Ok("")),
            (both(), &["/x/other"], false, Err("2 clouds are running")),
            (both(), &[], false, Err("--context")),
        ] {
            let files: Vec<PathBuf> = variable.iter().map(PathBuf::from).collect();
            let about = format!("{clouds:?} {variable:?} {is_named}");
            let found = choose_among(Access::default(), clouds, &files, is_named);
            let shown = found.map(|access| {
                let file = access.kubeconfig.unwrap_or_default();
                let context = access.context.unwrap_or_default();
                format!("{} {context}", file.display()).trim().to_owned()
            });
            match expected {
                Ok(expected) => assert_eq!(shown.unwrap(), expected, "{about}"),
                Err(part) => {
                    let refused = shown.unwrap_err().to_string();
                    assert!(refused.contains(part), "{about}: {refused}");
                }
            }
        }
    }
}
