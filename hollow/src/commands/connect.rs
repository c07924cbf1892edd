//! Connects to a running cloud by its kubeconfig.

use std::{
    error::Error,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustls::CertificateError::{BadSignature, UnknownIssuer};

use super::{
    environment::{self, Unusable},
    nearest, packaged_service,
    proxy::{self, CONNECT_TIMEOUT},
};
use crate::cli::Access;

/// Where `cloudsim up` writes its kubeconfig by default.
pub(super) const WRITTEN: &str = "cloudsim.kubeconfig";

/// Returns a client. Without a file it uses, like kubectl, `$KUBECONFIG`, which may list several files, or else the kubeconfig that
/// `cloudsim up` writes to the current directory.
pub(super) async fn connect(access: &Access) -> anyhow::Result<Client> {
    const CURE: &str = "is `cloudsim up` running? Name its kubeconfig with --kubeconfig or in $KUBECONFIG; \
        `cloudsim status` lists the clouds of this machine";
    let read = match read(access) {
        Ok(read) => read,
        Err(error) => {
            let other = (access.kubeconfig.as_deref())
                .filter(|file| !packaged_service::has_kubeconfig(file));
            let is_missing = matches!(error, Unusable::Missing(_)) && other.is_none();
            return Err(match packaged_service::fault().await {
                Some(fault) if is_missing => {
                    anyhow!("no cloud is running on this machine: {fault}")
                }
                _ => unread(error, CURE),
            });
        }
    };
    let contexts: Vec<String> = read
        .contexts
        .iter()
        .map(|context| context.name.clone())
        .collect();
    let options = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    let cure = format!("choose one with --context: {}", contexts.join(", "));
    if let Some(wanted) = access
        .context
        .as_ref()
        .filter(|wanted| !contexts.contains(wanted))
    {
        bail!(
            "there is no context {wanted:?} in {}{}; {cure}",
            file(access).display(),
            nearest(wanted, contexts.iter().map(String::as_str))
        );
    }
    let config = Config::from_custom_kubeconfig(read, &options)
        .await
        .with_context(|| {
            let wanted = access
                .context
                .as_deref()
                .map_or("current context".to_owned(), |name| {
                    format!("context {name:?}")
                });
            format!(
                "cannot use the {wanted} of {}; {cure}",
                file(access).display()
            )
        })?;
    proxy::client(config).with_context(|| {
        format!(
            "cannot use the credentials in {}; {CURE}",
            file(access).display()
        )
    })
}

/// Reads the kubeconfig of [`connect`].
pub(super) fn read(access: &Access) -> Result<Kubeconfig, Unusable> {
    match &access.kubeconfig {
        Some(file) => environment::read_file(file),
        None => match environment::read()? {
            None => environment::read_file(Path::new(WRITTEN)),
            Some(read) => Ok(read),
        },
    }
}

/// Names the file, or the files, of [`connect`].
pub(super) fn file(access: &Access) -> PathBuf {
    let of_environment = || {
        std::env::var_os("KUBECONFIG")
            .filter(|files| !files.is_empty())
            .map(PathBuf::from)
    };
    access
        .kubeconfig
        .clone()
        .or_else(of_environment)
        .unwrap_or_else(|| PathBuf::from(WRITTEN))
}

/// Adds the cure to the error of a kubeconfig.
pub(super) fn unread(error: Unusable, cure: &str) -> anyhow::Error {
    let text = format!("{}; {cure}", wire::text::with_causes(&error));
    anyhow::Error::msg(text)
}

/// Explains the error of a request to the cloud of a kubeconfig that cannot be reached, or whose certificate is refused: most often
/// another cloud runs at the same address now. Other errors stay as they are.
pub(super) async fn explain(access: &Access, error: anyhow::Error) -> anyhow::Error {
    let Some(rustls::Error::InvalidCertificate(why)) = error.chain().find_map(tls_error) else {
        return match is_unreachable(&error) {
            true => unreachable(access, &error).await,
            false => error,
        };
    };
    let file = file(access);
    let text = match why {
        // a CA that was made anew has the same name and another key
        BadSignature | UnknownIssuer => format!(
            "another cloud than the one that wrote {} answers at its address; give the kubeconfig of the cloud that runs there now with \
                 --kubeconfig or in $KUBECONFIG, or start that of this file again (--data-dir keeps a cloud)",
            file.display()
        ),
        _ => format!(
            "the certificate of what answers at the address in {} is refused; compare `date` on both machines, and the address with the \
                 names that the cloud was started with (`cloudsim up --name`)",
            file.display()
        ),
    };
    anyhow::Error::new(rustls::Error::InvalidCertificate(why.clone())).context(text)
}

/// Reports whether no answer came from the server: not even a refusal.
fn is_unreachable(error: &anyhow::Error) -> bool {
    let of_transport =
        |error: &kube::Error| matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_));
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref())
        .any(of_transport)
}

/// Returns why a server cannot be reached: the last cause, which the errors around it do not explain further.
fn reason(error: &anyhow::Error) -> String {
    let kind = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind);
    match kind {
        Some(ErrorKind::ConnectionRefused) => {
            "connection refused: nothing listens there".to_owned()
        }
        Some(ErrorKind::TimedOut) => "no answer".to_owned(),
        _ if error.root_cause().is::<tokio::time::error::Elapsed>() => {
            format!("no answer within {CONNECT_TIMEOUT:?}")
        }
        _ => error.root_cause().to_string(),
    }
}

/// Describes the server that cannot be reached, with the cure. The reason comes first.
async fn unreachable(access: &Access, error: &anyhow::Error) -> anyhow::Error {
    let reason = reason(error);
    let read = read(access).unwrap_or_default();
    let current = access
        .context
        .clone()
        .or(read.current_context)
        .unwrap_or_default();
    let cluster =
        (read.contexts.iter().find(|context| context.name == current)).and_then(|context| {
            context
                .context
                .as_ref()
                .map(|context| context.cluster.clone())
        });
    let server = (read
        .clusters
        .into_iter()
        .find(|named| Some(&named.name) == cluster.as_ref()))
    .and_then(|named| named.cluster?.server)
    .unwrap_or_default();
    let others: Vec<String> = read
        .contexts
        .into_iter()
        .map(|context| context.name)
        .filter(|name| *name != current)
        .collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!(" ({})", others.join(", "))
    };
    if packaged_service::has_kubeconfig(&file(access))
        && let Some(fault) = packaged_service::fault().await
    {
        return anyhow!("cannot reach {server} ({reason}): {fault}");
    }
    anyhow!(
        "cannot reach {server} ({reason}), the server of context {current} in {}; is `cloudsim up` running? Otherwise start it, or \
         choose another context with --context{others} or another file with --kubeconfig",
        file(access).display()
    )
}

/// Returns the error of TLS itself. An error of input and output does not count the one that it contains among its sources.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let inner: &(dyn Error + 'static) = error.downcast_ref::<io::Error>()?.get_ref()?;
    tls_error(inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli::ListArgs, commands::nodes, testing::TestCloud};

    #[tokio::test]
    async fn a_file_of_another_cloud_and_one_that_is_missing_are_told_apart() {
        let start = async || TestCloud::builder().nodes(0).start().await.unwrap();
        let (old, new) = (start().await, start().await);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let port = |cloud: &TestCloud| cloud.cloud().addresses().api.unwrap().port().to_string();
        let listed = async || {
            let access = Access {
                kubeconfig: Some(path.clone()),
                context: None,
            };
            let listed = nodes::run(&access, ListArgs::default(), None).await;
            match listed {
                Err(error) => Err(format!("{:#}", explain(&access, error).await)),
                Ok(()) => Ok(()),
            }
        };
        let missing = listed().await.unwrap_err();
        assert!(
            missing.starts_with(&format!("file {} does not exist;", path.display())),
            "{missing}"
        );
        std::fs::write(&path, "apiVersion: [").unwrap();
        let broken = listed().await.unwrap_err();
        assert!(
            broken.starts_with(&format!("{} is not a kubeconfig: line 1", path.display()))
                && broken.contains("--kubeconfig"),
            "{broken}"
        );
        std::fs::write(&path, old.kubeconfig().replace(&port(&old), &port(&new))).unwrap();
        let other = listed().await.unwrap_err();
        let expected = format!(
            "another cloud than the one that wrote {} answers",
            path.display()
        );
        assert!(
            other.starts_with(&expected) && !other.contains("cannot reach"),
            "{other}"
        );
        std::fs::write(&path, new.kubeconfig()).unwrap();
        assert_eq!(listed().await, Ok(()));
        std::fs::write(&path, new.kubeconfig().replace("127.0.0.1", "127.0.0.2")).unwrap();
        let silent = listed().await.unwrap_err();
        let server = format!("https://127.0.0.2:{}", port(&new));
        let expected = format!(
            "cannot reach {server} (connection refused: nothing listens there), the server of context cloudsim in {};",
            path.display()
        );
        assert!(
            silent.starts_with(&expected) && silent.contains("--context or another file"),
            "{silent}"
        );
        assert!(silent.contains("cloudsim up"), "{silent}");
    }
}
