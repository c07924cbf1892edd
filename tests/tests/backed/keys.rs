//! KubeEdge's keys and its join token in a cluster: whoever comes there later goes on with them, cloudsim or CloudCore.

use cloudsim::{Cloud, Options, StartError};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tests::World;
use wire::enroll::Token;

use crate::{chain, raw::authority};

async fn field(world: &World, secret: &str, field: &str) -> Vec<u8> {
    let found = Api::<Secret>::namespaced(world.client(), "kubeedge")
        .get(secret)
        .await
        .unwrap();
    let ByteString(bytes) = found.data.unwrap().remove(field).unwrap();
    bytes
}

async fn start(world: &World, names: &[&str]) -> Result<Cloud, StartError> {
    let names = names.iter().map(|&name| name.to_owned()).collect();
    let cluster = Some(world.cluster().options("replica-2").await);
    Cloud::start(Options {
        cluster,
        names,
        ..Options::default().any_ports()
    })
    .await
}

#[tokio::test]
async fn keys_and_token_stay_and_the_servers_certificate_keeps_its_names() {
    let world = World::new(0).await;
    let authority = authority(&world).await;
    let first = field(&world, "cloudcoresecret", "cloudcoredata").await;
    let token = field(&world, "tokensecret", "tokendata").await;
    Token::parse(std::str::from_utf8(&token).unwrap())
        .unwrap()
        .check_ca(authority.cert_der())
        .unwrap();
    assert_eq!(
        token,
        world.cloud().token().as_bytes(),
        "`keadm gettoken` prints what the cloud says"
    );
    let second = start(&world, &["cloud.example"]).await.unwrap();
    let more = field(&world, "cloudcoresecret", "cloudcoredata").await;
    assert_ne!(more, first, "it is signed anew for one more name");
    assert!(authority.has_signed(&more));
    assert_eq!(second.token().as_bytes(), token);
    second.stop().await.unwrap();
    // the names of before are still in it
    let third = start(&world, &["127.0.0.1", "localhost", "cloud.example"])
        .await
        .unwrap();
    assert_eq!(
        field(&world, "cloudcoresecret", "cloudcoredata").await,
        more
    );
    third.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_damaged_is_made_anew_but_for_the_authority_which_is_named() {
    let world = World::new(0).await;
    let authority = authority(&world).await;
    let secrets = Api::<Secret>::namespaced(world.client(), "kubeedge");
    let damage = async |secret: &str, field: &str| {
        let broken = json!({"data": {field: ByteString(b"rubbish".to_vec())}});
        secrets
            .patch(secret, &PatchParams::default(), &Patch::Merge(&broken))
            .await
            .unwrap();
    };
    damage("tokensecret", "tokendata").await;
    damage("cloudcoresecret", "cloudcorekeydata").await;
    let again = start(&world, &["localhost"]).await.unwrap();
    Token::parse(again.token())
        .unwrap()
        .check_ca(authority.cert_der())
        .unwrap();
    assert_eq!(
        field(&world, "tokensecret", "tokendata").await,
        again.token().as_bytes()
    );
    assert_ne!(
        field(&world, "cloudcoresecret", "cloudcorekeydata").await,
        b"rubbish"
    );
    again.stop().await.unwrap();
    damage("casecret", "cakeydata").await;
    let refused = start(&world, &["localhost"]).await.expect_err("no cloud");
    let told = chain(&refused);
    assert!(told.contains("casecret"), "{told}");
    assert_eq!(
        field(&world, "casecret", "cakeydata").await,
        b"rubbish",
        "it is left as it is"
    );
}
