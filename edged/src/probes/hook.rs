//! Runs a lifecycle hook of a container once, ignoring its output.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::{
    address::{self, Address, HttpTarget},
    http,
};
use crate::runtime::Runtime;

/// The action of a hook, with everything resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HookAction {
    /// Run a command in the container.
    Exec(Vec<String>),
    /// Get a page.
    HttpGet(HttpTarget),
    /// Connect.
    TcpSocket(Address),
    /// Wait.
    Sleep(Duration),
}

impl HookAction {
    /// Resolves the hook's action in a pod with this IP address. All fields of the hook are listed here, so that a handler of a
    /// newer API is not forgotten.
    fn of(hook: &LifecycleHandler, container: &Container, pod_ip: &str) -> Result<Self, String> {
        let LifecycleHandler {
            exec,
            http_get,
            sleep,
            tcp_socket,
        } = hook;
        Ok(match (sleep, exec, http_get, tcp_socket) {
            (Some(sleep), ..) => Self::Sleep(Duration::from_secs(
                u64::try_from(sleep.seconds).unwrap_or(0),
            )),
            (_, Some(exec), ..) => Self::Exec(address::command(exec, container)),
            (.., Some(get), _) => Self::HttpGet(address::page(get, container, pod_ip)?),
            (.., Some(tcp)) => Self::TcpSocket(address::socket(tcp, container, pod_ip)?),
            (None, None, None, None) => return Err("the hook has no handler".into()),
        })
    }
}

/// A running container and the address of its pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookContainer<'a> {
    /// Its specification.
    pub(crate) spec: &'a Container,
    /// The runtime's id of the container.
    pub(crate) id: &'a str,
    /// The pod's IP address, empty if it has none.
    pub(crate) pod_ip: &'a str,
}

/// Runs the hook of the container for at most `limit`.
pub(crate) async fn run(
    runtime: &Runtime,
    hook: &LifecycleHandler,
    container: HookContainer<'_>,
    limit: Duration,
) -> Result<(), String> {
    let action = HookAction::of(hook, container.spec, container.pod_ip)?;
    let done = async {
        match &action {
            HookAction::Exec(command) => match runtime.exec(container.id, command, limit).await {
                Ok(answer) if answer.exit_code == 0 => Ok(()),
                Ok(answer) => Err(format!("command exited with {}", answer.exit_code)),
                Err(error) => Err(error.message()),
            },
            HookAction::HttpGet(page) => http::get(&**runtime.network(), page).await.map(drop),
            HookAction::TcpSocket(address) => {
                http::connect(&**runtime.network(), address).await.map(drop)
            }
            HookAction::Sleep(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
        }
    };
    let ended = tokio::time::timeout(limit, done).await;
    ended.unwrap_or_else(|_| Err(format!("it did not end within {} s", limit.as_secs())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_hook_is_one_of_its_handlers() {
        let container: Container = serde_json::from_value(json!({"name": "web"})).unwrap();
        let action = |hook: Value| {
            HookAction::of(
                &serde_json::from_value(hook).unwrap(),
                &container,
                "10.0.0.1",
            )
        };
        let address = Address {
            host: "10.0.0.1".into(),
            port: 80,
        };
        assert_eq!(
            action(json!({"sleep": {"seconds": 3}})),
            Ok(HookAction::Sleep(Duration::from_secs(3)))
        );
        assert_eq!(
            action(json!({"sleep": {"seconds": -1}})),
            Ok(HookAction::Sleep(Duration::ZERO))
        );
        assert_eq!(
            action(json!({"tcpSocket": {"port": 80}})),
            Ok(HookAction::TcpSocket(address))
        );
        assert_eq!(
            action(json!({"exec": {"command": ["a"]}})),
            Ok(HookAction::Exec(vec!["a".into()]))
        );
        assert!(matches!(
            action(json!({"httpGet": {"port": 80}})),
            Ok(HookAction::HttpGet(_))
        ));
        assert_eq!(action(json!({})), Err("the hook has no handler".into()));
    }
}
