//! Finds the kubeconfigs that a cloud's entries are merged into, and checks them before the cloud starts.

use std::{ffi::OsString, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use anyhow::bail;
use cloudsim::kubeconfig::Destination;
use kube::{Config, config::KubeConfigOptions};
use tokio::time::timeout;

use super::{connect::WRITTEN, environment, output::warn, proxy};
use crate::cli::Up;

/// How long a cloud that runs on this machine may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the files for the entries of `cloudsim up`: the given one, or else those of `$KUBECONFIG`, as for other commands.
pub(super) fn of(up: &Up, listed: Option<OsString>) -> Destination {
    let listed = environment::split_paths(listed);
    let files = match &up.kubeconfig {
        Some(file) => vec![file.clone()],
        None if listed.is_empty() => vec![WRITTEN.into()],
        None => listed,
    };
    Destination {
        files,
        context: up.context.clone(),
        make_current: up.set_current_context,
    }
}

/// Checks whether a cloud's entries may be merged into these files.
///
/// # Errors
/// A file is no kubeconfig; or it has a cluster of this name that answers, which could not be reached any more. Other clusters are not
/// contacted.
pub(super) async fn check(destination: &Destination) -> anyhow::Result<()> {
    for file in destination.files.iter().filter(|file| is_readable(file)) {
        warn(&format!(
            "other users of this machine can read {0}, which gets the key of an administrator; `chmod 600 {0}`",
            file.display()
        ));
    }
    let Some(file) = destination.find_cluster()? else {
        return Ok(());
    };
    let context = &destination.context;
    match answering(&file, context).await {
        None => Ok(()),
        Some(server) => bail!(
            "{} has the context {context} of the cluster at {server}, which is running; choose another file with --kubeconfig, or stop that \
             cluster first with `cloudsim down`",
            file.display()
        ),
    }
}

/// Reports whether a file exists that other users can read.
fn is_readable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o044 != 0)
}

/// Returns the server of a context if it answers. A server with another CA on this port is another cloud and does not count.
async fn answering(file: &Path, context: &str) -> Option<String> {
    let read = environment::read_file(file).ok()?;
    let options = KubeConfigOptions {
        context: Some(context.to_owned()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(read, &options).await.ok()?;
    let server = config.cluster_url.to_string();
    let client = proxy::client(config).ok()?;
    match timeout(ANSWER_TIMEOUT, client.apiserver_version()).await {
        // A server that refuses the request answers, too.
        Ok(Ok(_) | Err(kube::Error::Api(_))) => Some(server),
        Ok(Err(_)) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use cloudsim::{Cloud, Options};
    use testkit::within;

    fn up(arguments: &[&str]) -> Up {
        let words = ["cloudsim", "up"].iter().chain(arguments);
        let Command::Up(up) = Cli::parse_from(words).command else {
            panic!()
        };
        up
    }

    #[test]
    fn file_that_others_can_read_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        assert!(!is_readable(&file));
        for (mode, expected) in [(0o600, false), (0o640, true), (0o604, true), (0o622, false)] {
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_readable(&file), expected, "{mode:o}");
        }
    }

    #[test]
    fn given_file_comes_before_those_of_the_environment() {
        for (arguments, environment, files) in [
            (&[][..], None, &["cloudsim.kubeconfig"][..]),
            (&[], Some(""), &["cloudsim.kubeconfig"]),
            (&[], Some("a::b:a"), &["a", "b"]),
            (&["--kubeconfig", "c:d"], Some("a"), &["c:d"]),
        ] {
            let found = of(&up(arguments), environment.map(OsString::from)).files;
            assert_eq!(
                found,
                files
                    .iter()
                    .map(std::path::PathBuf::from)
                    .collect::<Vec<_>>()
            );
        }
    }

    #[tokio::test]
    async fn only_a_running_cluster_of_the_same_name_is_a_conflict() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let destination = Destination::from(path.clone());
        check(&destination).await.unwrap();
        let options = Options {
            kubeconfig: Some(destination.clone()),
            ..Options::default().any_ports()
        };
        let cloud = Cloud::start(options).await.unwrap();
        let refused = check(&destination).await.unwrap_err().to_string();
        assert!(
            refused.contains("--kubeconfig") && refused.contains(&path.display().to_string()),
            "{refused}"
        );
        check(&Destination {
            context: "other".into(),
            ..destination.clone()
        })
        .await
        .unwrap();
        cloud.stop().await.unwrap();
        check(&destination).await.unwrap();
        std::fs::write(&path, "no kubeconfig").unwrap();
        let refused = check(&destination).await.unwrap_err().to_string();
        assert!(
            refused.contains("is not a kubeconfig and was not changed"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn current_cluster_of_the_file_is_not_contacted() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let foreign = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        foreign.set_nonblocking(true).unwrap();
        let server = foreign.local_addr().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let text = format!(
            "current-context: prod\ncontexts: [{{name: prod, context: {{cluster: prod, user: prod}}}}]\n\
             clusters: [{{name: prod, cluster: {{server: 'http://{server}'}}}}]\nusers: [{{name: prod, user: {{token: t}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        let destination = Destination::from(path);
        check(&destination).await.unwrap();
        let options = Options {
            kubeconfig: Some(destination),
            ..Options::default().any_ports()
        };
        let cloud = within("the start", Cloud::start(options)).await.unwrap();
        assert!(!cloud.kubeconfig_entries().unwrap().is_current());
        cloud.stop().await.unwrap();
        let contact = foreign.accept().unwrap_err();
        assert_eq!(contact.kind(), std::io::ErrorKind::WouldBlock);
    }
}
