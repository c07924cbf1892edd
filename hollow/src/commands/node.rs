//! `cloudsim node reset`: revokes a node's certificates, so that its name is free for another machine.

use anyhow::bail;
use cloudsim::pki::{NodeCertificates, UNKNOWN};
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde::Deserialize;

use super::{print_line, remote::Remote};
use crate::cli::Access;

#[derive(Deserialize)]
struct Done {
    reset: bool,
}

#[derive(Deserialize)]
struct Opened {
    lost: Vec<String>,
}

/// Resets a node; without a name, all whose records were lost.
pub(super) async fn reset(access: &Access, name: Option<String>) -> anyhow::Result<()> {
    let cloud = Remote::of(access).await?;
    let is_a_cluster = cloud.is_a_cluster().await?;
    let Some(name) = name else {
        if is_a_cluster {
            bail!("in cluster mode, there are no lost records to accept; name the node to reset");
        }
        let opened: Opened = cloud.ask(Method::POST, "reset", &()).await?;
        print_line(&message(&opened.lost));
        return Ok(());
    };
    let done = if is_a_cluster {
        Done {
            reset: reset_in_cluster(&cloud.client, &name).await?,
        }
    } else {
        cloud
            .ask(Method::POST, &format!("reset/{name}"), &())
            .await?
    };
    print_line(&if done.reset {
        format!("{name}: certificates revoked; a machine can join with a token under this name")
    } else {
        format!("{name}: no certificate to revoke; a machine can join with a token under this name")
    });
    Ok(())
}

/// Revokes a node's certificates in a cluster, and returns whether it had any. The replica with its session ends that when it notices.
async fn reset_in_cluster(client: &Client, name: &str) -> anyhow::Result<bool> {
    let certificates = NodeCertificates::in_cluster(client);
    let is_known = certificates.has_any(name).await?
        || Api::<Node>::all(client.clone())
            .get_opt(name)
            .await?
            .is_some();
    if !is_known {
        bail!("this cluster has no node {name}; `cloudsim nodes` lists all nodes");
    }
    Ok(certificates.reset(name).await?)
}

/// Returns the message about the names that were opened.
fn message(lost: &[String]) -> String {
    let name = |name: &String| match name.as_str() {
        UNKNOWN => "names without a record".to_owned(),
        name => name.to_owned(),
    };
    match lost {
        [] => "no record of a node is lost; nothing was changed".to_owned(),
        lost => format!(
            "{}: certificates revoked; machines can join with a token under these names",
            lost.iter().map(name).collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_is_told() {
        assert!(message(&[]).contains("nothing was changed"));
        let message = message(&[UNKNOWN.to_owned(), "edge-1".to_owned()]);
        assert!(
            message.starts_with("names without a record, edge-1: "),
            "{message}"
        );
    }
}
