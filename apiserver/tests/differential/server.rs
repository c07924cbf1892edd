//! An API to send requests to: ours in process, or that of a kubeconfig.

use std::{path::Path, sync::Arc, time::Duration};

use apiserver::{TokenError, TokenGrant, TokenIssuer, VerifiedToken};
use async_trait::async_trait;
use bytes::Bytes;
use http::{
    HeaderValue, Request, Response,
    header::{ACCEPT, USER_AGENT},
};
use http_body_util::{BodyExt, Full};
use k8s_openapi::{
    api::authentication::v1::TokenRequestStatus, apimachinery::pkg::apis::meta::v1::Time,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kubeapi::{Api, Identity};
use objectstore::MemoryStore;
use serde_json::{Value, json};
use testkit::{eventually, within};
use tower::ServiceExt;

use super::{
    requests,
    step::{Step, Variables},
};

/// An API that answers requests: ours in this process, or another one.
pub(crate) enum Server {
    Ours(Api),
    Real(kube::Client),
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

/// Issues tokens that are masked, and knows none.
struct Issuer;

#[async_trait]
impl TokenIssuer for Issuer {
    async fn issue(&self, grant: &TokenGrant) -> Result<TokenRequestStatus, TokenError> {
        let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
        Ok(TokenRequestStatus {
            token: "token".to_owned(),
            expiration_timestamp: Time(now + grant.lifetime),
        })
    }

    fn max_lifetime(&self) -> Option<Duration> {
        None
    }

    async fn verify(
        &self,
        _token: &str,
        _audiences: &[String],
    ) -> Result<VerifiedToken, TokenError> {
        Err(TokenError::Refused("invalid bearer token".to_owned()))
    }
}

impl Server {
    /// Makes an empty API of ours.
    pub(crate) fn ours() -> Self {
        let builder = apiserver::builder(MemoryStore::new()).rbac(true);
        Self::Ours(builder.token_issuer(Arc::new(Issuer)).build())
    }

    /// Connects to the API server of a kubeconfig.
    pub(crate) async fn of_kubeconfig(path: &Path) -> Self {
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap();
        // a refusal such as 504 is an answer
        config.default_retry = false;
        Self::Real(kube::Client::try_from(config).unwrap())
    }

    /// Creates the namespaces of a story, with the service account that pods need.
    pub(crate) async fn prepare(&self, namespace: &str) {
        for name in ["default", namespace] {
            let mut variables = Variables::of_story(name);
            for (path, object) in [
                ("/api/v1/namespaces", json!({"metadata": {"name": name}})),
                (
                    "/api/v1/namespaces/$NS/serviceaccounts",
                    json!({"metadata": {"name": "default"}}),
                ),
            ] {
                let step = Step {
                    request: format!("POST {path}"),
                    body: object,
                    ..Step::default()
                };
                let answer = self.send(&step, &mut variables).await;
                assert!(matches!(answer.code, 201 | 409), "{path}: {answer:?}");
            }
        }
    }

    /// Sends a request, repeatedly if it waits for a code.
    pub(crate) async fn send(&self, step: &Step, variables: &mut Variables) -> Answer {
        let answer = match step.until {
            None => self.send_once(step, variables).await,
            Some(code) => {
                let looks = async || {
                    let answer = self.send_once(step, variables).await;
                    if answer.code == code {
                        Ok(answer)
                    } else {
                        Err(answer)
                    }
                };
                eventually(&step.request, looks).await
            }
        };
        variables.learn(step, &answer.body);
        answer
    }

    async fn send_once(&self, step: &Step, variables: &Variables) -> Answer {
        let request = http_request(step, variables);
        match self {
            Self::Ours(api) => {
                let mut request = request.map(Full::new);
                request.extensions_mut().insert(Identity::new(
                    "admin",
                    ["system:masters", "system:authenticated"],
                ));
                let response = api.service().oneshot(request).await.unwrap();
                read(&step.request, response).await
            }
            Self::Real(client) => {
                let request = request.map(|bytes| kube::client::Body::from(bytes.to_vec()));
                let response = client.send(request).await.unwrap();
                read(&step.request, response).await
            }
        }
    }
}

fn http_request(step: &Step, variables: &Variables) -> Request<Bytes> {
    let body = variables.insert_all(&step.body);
    let mut request = requests::http_request(&variables.insert(&step.request), &body);
    let headers = request.headers_mut();
    for (name, value) in [(USER_AGENT, "differential/1"), (ACCEPT, "application/json")] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    request
}

async fn read<B: http_body::Body<Data = Bytes>>(request: &str, response: Response<B>) -> Answer
where
    B::Error: std::fmt::Debug,
{
    let (parts, body) = response.into_parts();
    let bytes = within(request, body.collect()).await.unwrap().to_bytes();
    let warnings = parts.headers.get_all("warning");
    Answer {
        code: parts.status.as_u16(),
        warnings: warnings
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect(),
        body: parse(&bytes),
    }
}

/// Returns the JSON of an answer, the list of values of a watch, or its text.
fn parse(bytes: &[u8]) -> Value {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(bytes)
        .into_iter()
        .collect();
    match values {
        Ok(mut values) if values.len() == 1 && values[0]["type"].is_null() => values.remove(0),
        Ok(values) if !bytes.is_empty() => values.into(),
        _ => String::from_utf8_lossy(bytes).into_owned().into(),
    }
}
