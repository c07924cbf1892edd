//! `cloudsim token`: prints the cloud's join token, or makes one for a node, a time or a number of uses.

use std::time::Duration;

use anyhow::Context;
use cloudsim::pki::{JoinToken, JoinTokens, Name, NodeCertificates, Pki, TokenRequest};

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde::{Deserialize, Serialize};
use wire::enroll::Token;

use super::{connect::connect, print, print_line, remote::Remote, warn};
use crate::cli::{Access, Output, TokenScope};

#[derive(Deserialize)]
struct Made {
    token: String,
    /// Whether an earlier certificate holds the node's name.
    #[serde(default)]
    held: bool,
}

/// A token and its limits, for programs.
#[derive(Debug, PartialEq, Serialize)]
struct PrintedToken<'a> {
    token: &'a str,
    /// The only node that may use it.
    node: Option<String>,
    /// The number of certificates that it may get when new; `None` means any number.
    uses: Option<u32>,
    expires: Timestamp,
}

impl<'a> PrintedToken<'a> {
    fn of(token: &'a str, uses: Option<u32>) -> anyhow::Result<Self> {
        let scope = Token::parse(token)?.claims()?;
        let expires = i64::try_from(scope.expires)?;
        Ok(Self {
            token,
            node: scope.node,
            uses,
            expires: Timestamp::from_second(expires)?,
        })
    }
}

pub(super) async fn run(
    access: &Access,
    output: Option<Output>,
    scope: TokenScope,
) -> anyhow::Result<()> {
    let TokenScope { node, ttl, uses } = scope;
    let (token, uses) = if node.is_some() || ttl.is_some() || uses.is_some() {
        // A token for one node is for one machine, hence one certificate by default.
        let uses = uses.or(node.is_some().then_some(1));
        let seconds = ttl.map(|ttl| ttl.get().as_secs());
        let cloud = Remote::of(access).await?;
        let request = TokenRequest {
            node,
            seconds,
            uses,
        };
        let made = if cloud.is_a_cluster().await? {
            mint(&cloud.client, &request).await?
        } else {
            cloud.ask::<Made>(Method::POST, "tokens", &request).await?
        };
        if let Some(node) = request.node.filter(|_| made.held) {
            warn(&format!(
                "the cloud already has a node {node}; this token works for another machine only after `cloudsim node reset {node}`"
            ));
        }
        (made.token, uses)
    } else {
        let client = connect(access).await?;
        let token = JoinToken::read(&client)
            .await
            .context("cannot read the join token")?;
        (token.context("the cloud has no join token")?, None)
    };
    match output {
        Some(output) => print(output, &PrintedToken::of(token.trim(), uses)?),
        None => {
            print_line(token.trim());
            Ok(())
        }
    }
}

/// Creates a token with the authority that is stored in the cluster.
async fn mint(client: &Client, request: &TokenRequest) -> anyhow::Result<Made> {
    let authority = Pki::read_authority(client).await?;
    let authority =
        authority.context("the cluster has no Secret kubeedge/casecret: no cloud has run there")?;
    let token = JoinTokens::in_cluster(client)
        .mint(&authority, request)
        .await?;
    let held = match &request.node {
        Some(node) => {
            let certificates = NodeCertificates::in_cluster(client);
            let known = certificates
                .name(node, authority.cert_der(), Duration::ZERO)
                .await?;
            matches!(known, Name::Held | Name::Lost)
        }
        None => false,
    };
    Ok(Made { token, held })
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use wire::enroll::{Ca, TokenScope as Scope};

    use super::*;

    #[test]
    fn a_token_tells_what_it_is_good_for() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let ca = Ca::generate(now).unwrap();
        let scope = Scope {
            node: Some("edge-1".to_owned()),
            id: Some("t".to_owned()),
        };
        let token = Token::mint_for(&ca, now, Duration::from_secs(600), &scope).unwrap();
        let told = serde_json::to_value(PrintedToken::of(&token, Some(1)).unwrap()).unwrap();
        let expected = serde_json::json!({"token": token, "node": "edge-1", "uses": 1, "expires": "2023-11-14T22:23:20Z"});
        assert_eq!(told, expected);
        let shared = Token::mint(&ca, now, Duration::from_secs(1)).unwrap();
        let told = PrintedToken::of(&shared, None).unwrap();
        assert_eq!((told.node, told.uses), (None, None));
        assert!(PrintedToken::of("a.b.c.d", None).is_err());
    }
}
