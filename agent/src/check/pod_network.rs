//! Whether this machine reaches the addresses of its pods, as probes and port-forward do: a part of the check `cni`.

use std::{io::ErrorKind, time::Duration};

use futures::future::join_all;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use super::report::CheckResult;
use crate::status::PodState;

/// The most pods that are tried.
const MAX_PODS: usize = 5;
/// How long a pod on this machine may take to accept or refuse a connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a pod is tried, and the time between.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// The port of a pod that declares none: a refusal answers the question as well.
const ANY_PORT: u16 = 9;

/// Returns a result for the pods that have an address of their own; `None` if there are none.
pub(super) async fn judge(pods: &[PodState]) -> Option<CheckResult> {
    let with_address = pods.iter().filter(|pod| !pod.ip.is_empty());
    let tried = join_all(
        with_address
            .take(MAX_PODS)
            .map(async |pod| (pod, answer(pod).await)),
    )
    .await;
    let silent = tried
        .iter()
        .find_map(|(pod, answer)| Some((pod, answer.as_ref().err()?)));
    match silent {
        None if tried.is_empty() => None,
        None => Some(CheckResult::Passed("this machine reaches its pods".into())),
        Some((pod, why)) => Some(CheckResult::bad(
            format!(
                "this machine cannot reach pod {}/{} at {} ({why}): probes and port-forward fail",
                pod.namespace, pod.name, pod.ip
            ),
            "allow traffic between this machine and its pods in the firewall (`nft list ruleset`), and check the route (`ip route get ADDRESS`)",
        )),
    }
}

/// Tries to connect, and again after a failure: a pod that has just started may not answer yet.
async fn answer(pod: &PodState) -> Result<(), String> {
    let mut answer = connect(pod).await;
    for _ in 1..ATTEMPTS {
        if answer.is_ok() {
            break;
        }
        sleep(PAUSE).await;
        answer = connect(pod).await;
    }
    answer
}

/// Tries to connect once. A refusal is an answer of the pod, too.
async fn connect(pod: &PodState) -> Result<(), String> {
    let port = pod.port.unwrap_or(ANY_PORT);
    let connecting = TcpStream::connect((pod.ip.as_str(), port));
    match timeout(ANSWER_TIMEOUT, connecting).await {
        Err(_) => Err(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())),
        Ok(Err(error)) if error.kind() != ErrorKind::ConnectionRefused => Err(error.to_string()),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn refusal_is_an_answer_and_a_missing_route_is_not() {
        let pod = |ip: &str| PodState {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            ip: ip.to_owned(),
            ..PodState::default()
        };
        assert_eq!(judge(&[pod("")]).await, None);
        // nothing listens at the port
        let refused = judge(&[pod("127.0.0.1")]).await;
        assert!(
            matches!(refused, Some(CheckResult::Passed(_))),
            "{refused:?}"
        );
        // no connection can begin to a group of hosts
        let silent = judge(&[pod(""), pod("224.0.0.1")]).await.unwrap();
        assert!(
            silent.texts().0.contains("default/web at 224.0.0.1"),
            "{silent:?}"
        );
    }
}
