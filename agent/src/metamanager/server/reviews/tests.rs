//! Callers learn who they are and what MetaServer allows them, and never that they are administrators.

use std::{path::Path, sync::Arc};

use http::Request;

use super::{
    super::{access, loopback::LocalClients, tests::loopback},
    *,
};

fn parts(identity: Option<(&str, &str)>) -> Parts {
    let (mut parts, ()) = Request::post("/").body(()).unwrap().into_parts();
    if let Some((user, group)) = identity {
        parts.extensions.insert(Identity::new(user, [group]));
    }
    parts
}

async fn accounts() -> Authenticator {
    let own = access::tests::own().await;
    Authenticator::Accounts(Arc::new(access::tests::access(&own, Vec::new())))
}

/// Returns the authentication of programs of this machine, with the token of the kubeconfig.
fn local() -> Authenticator {
    Authenticator::Local(Arc::new(LocalClients::new(
        &loopback(Path::new("/")),
        Some("token"),
    )))
}

fn robot() -> Caller {
    Caller::Account("ns".into(), "robot".into())
}

#[tokio::test]
async fn subject_reviews_return_the_callers_identity() {
    let (accounts, local) = (accounts().await, local());
    let edge_2 = Caller::Other("system:node:edge-2".into());
    let node = |name| Some((name, "system:nodes"));
    let rows = [
        (
            &local,
            Caller::Owner,
            None,
            "system:node:edge-1",
            vec!["system:nodes"],
        ),
        (
            &accounts,
            Caller::Owner,
            node("system:node:edge-1"),
            "system:node:edge-1",
            vec!["system:nodes"],
        ),
        (
            &accounts,
            edge_2,
            node("system:node:edge-2"),
            "system:node:edge-2",
            vec!["system:nodes"],
        ),
        (
            &accounts,
            robot(),
            None,
            "system:serviceaccount:ns:robot",
            vec!["system:serviceaccounts", "system:serviceaccounts:ns"],
        ),
    ];
    for (who, caller, certificate, user, mut groups) in rows {
        let parts = parts(certificate);
        let answer = super::answer(
            SelfReview::Subject,
            who,
            &caller,
            &parts,
            "edge-1",
            &json!({}),
        )
        .await
        .unwrap();
        groups.push("system:authenticated");
        assert_eq!(
            answer["status"]["userInfo"],
            json!({"username": user, "groups": groups}),
            "{caller:?}"
        );
    }
}

/// Returns whether the caller may, or the code of the response if that is an error.
async fn ask(who: &Authenticator, caller: &Caller, line: &str) -> Result<bool, u16> {
    let [verb, resource, namespace] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
    let wanted =
        json!({"verb": verb, "resource": resource, "subresource": part, "namespace": namespace});
    let question = json!({"spec": {"resourceAttributes": wanted}});
    let answer = super::answer(
        SelfReview::Access,
        who,
        caller,
        &parts(None),
        "edge-1",
        &question,
    )
    .await;
    let allowed = answer.map(|answer| answer["status"]["allowed"].as_bool().unwrap());
    allowed.map_err(|refused| {
        super::super::super::response::error_response(&refused)
            .status()
            .as_u16()
    })
}

#[tokio::test]
async fn access_reviews_say_what_metaserver_allows() {
    let (accounts, local) = (accounts().await, local());
    let edge_2 = Caller::Other("system:node:edge-2".into());
    let rows = [
        (&accounts, robot(), "list configmaps ns", Ok(true)),
        (&accounts, robot(), "get configmaps ns", Ok(false)),
        (&accounts, robot(), "list configmaps other", Ok(false)),
        (&accounts, robot(), "get secrets ns", Ok(false)),
        (&accounts, robot(), "get pods/log ns", Ok(false)),
        (&accounts, robot(), "* * ns", Ok(false)),
        (&accounts, edge_2, "list configmaps ns", Ok(false)),
        (&accounts, Caller::Owner, "list configmaps ns", Err(405)),
        (&local, Caller::Owner, "list configmaps ns", Err(405)),
        (&local, Caller::Owner, "get secrets ns", Ok(false)),
        (
            &local,
            Caller::Owner,
            "create serviceaccounts/token ns",
            Ok(false),
        ),
        (&local, Caller::Owner, "get pods/log ns", Ok(true)),
        (&local, Caller::Owner, "create pods/exec ns", Ok(true)),
        (&local, Caller::Owner, "* * ns", Ok(false)),
    ];
    for (who, caller, line, expected) in rows {
        assert_eq!(
            ask(who, &caller, line).await,
            expected,
            "{caller:?}: {line}"
        );
    }

    let question = json!({"spec": {"namespace": "ns"}});
    let parts = parts(None);
    let answer = super::answer(
        SelfReview::Rules,
        &accounts,
        &robot(),
        &parts,
        "edge-1",
        &question,
    )
    .await
    .unwrap();
    let resources: Vec<_> = answer["status"]["resourceRules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| &rule["resources"])
        .collect();
    assert_eq!(json!(resources), json!([["nodes"], ["configmaps"]]));
    let refused = super::answer(
        SelfReview::Rules,
        &local,
        &Caller::Owner,
        &parts,
        "edge-1",
        &question,
    )
    .await;
    assert!(refused.is_err(), "the cloud decides what the node may do");
    for (path, expected) in [("/apis", true), ("/metrics", false)] {
        let question = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": path}}});
        let answer = super::answer(
            SelfReview::Access,
            &local,
            &Caller::Owner,
            &parts,
            "edge-1",
            &question,
        )
        .await;
        assert_eq!(answer.unwrap()["status"]["allowed"], expected, "{path}");
    }
}
