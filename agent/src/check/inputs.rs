//! The inputs of the checks: the configuration, the machine, and answers that several checks share.

use std::path::Path;

use objectstore::{LockHolder, StoreLock};
use tokio::sync::OnceCell;

use super::{
    cloud_answer::{self, CloudAnswer, read_ca},
    machine::Machine,
    report::CheckResult,
    token,
};
use crate::{
    app,
    cli::{InstallPaths, Join, Stage},
    config::{self, Config, Host, Warning},
    status::{ClientError, StatusReport, request_status},
};

/// The inputs of the checks.
pub(crate) struct Inputs<'a> {
    /// When the checks run.
    pub(crate) stage: Stage,
    /// The paths of the installation.
    pub(crate) paths: &'a InstallPaths,
    /// The options of `edge-agent join`; `None` for other commands.
    pub(crate) join: Option<&'a Join>,
    /// The path of the configuration.
    pub(crate) path: &'a Path,
    /// The configuration; the default one if that cannot be read.
    pub(crate) config: &'a Config,
    /// The warnings about the configuration, or why it cannot be read.
    pub(crate) loaded: Result<&'a [Warning], &'a config::Error>,
    /// The state of the machine.
    pub(crate) machine: &'a Machine,
    /// The machine's name and address.
    pub(crate) host: &'a Host,
    /// The answer to the join token.
    token: OnceCell<TokenAnswer>,
    /// The answers of the cloud's HTTPS servers.
    cloud: OnceCell<Vec<CloudAnswer>>,
    /// The state of the running agent, or why it is unknown.
    status: OnceCell<Result<StatusReport, ClientError>>,
}

/// The result of the check of the join token, and the cloud's CA if the server has proved it.
pub(crate) type TokenAnswer = (CheckResult, Option<Vec<u8>>);

impl<'a> Inputs<'a> {
    /// Collects the inputs of the checks in this stage.
    pub(crate) fn new(
        stage: Stage,
        paths: &'a InstallPaths,
        path: &'a Path,
        config: &'a Config,
        machine: &'a Machine,
        host: &'a Host,
    ) -> Self {
        Self {
            stage,
            paths,
            join: None,
            path,
            config,
            loaded: Ok(&[]),
            machine,
            host,
            token: OnceCell::new(),
            cloud: OnceCell::new(),
            status: OnceCell::new(),
        }
    }

    /// Adds the options of `edge-agent join`.
    pub(crate) fn with_join(self, join: &'a Join) -> Self {
        Self {
            join: Some(join),
            ..self
        }
    }

    /// Adds the warnings about the configuration, or why it cannot be read.
    pub(crate) fn with_warnings(self, loaded: Result<&'a [Warning], &'a config::Error>) -> Self {
        Self { loaded, ..self }
    }

    /// Reports whether this machine is a node.
    pub(crate) fn is_node(&self) -> bool {
        self.stage == Stage::Node
    }

    /// Reports whether the container runtime was named, so that the machine's default one is not searched for.
    pub(crate) fn is_runtime_named(&self) -> bool {
        self.is_node()
            || self
                .join
                .is_some_and(|join| join.runtime_endpoint.is_some())
    }

    /// Reports whether the node's name was chosen by the user.
    pub(crate) fn is_name_chosen(&self) -> bool {
        self.is_node() || self.join.is_some_and(|join| join.name.is_some())
    }

    /// Returns the process of the agent that uses the database of this node, if one runs.
    pub(crate) fn agent(&self) -> Option<LockHolder> {
        StoreLock::holder(&app::database(self.config))
    }

    /// Returns the cloud's answer to the join token, which is asked once.
    pub(crate) async fn token_answer(&self, join: &Join) -> &TokenAnswer {
        self.token
            .get_or_init(|| token::check(self.config, join))
            .await
    }

    /// Returns the answers of the cloud's HTTPS servers, which are asked once.
    pub(crate) async fn cloud_answers(&self) -> &[CloudAnswer] {
        self.cloud
            .get_or_init(async || {
                let ca = match self.join {
                    Some(join) => {
                        let (_, ca) = self.token_answer(join).await;
                        ca.clone().ok_or_else(|| "the CA is unknown".to_owned())
                    }
                    None => read_ca(&self.config.edge_hub.tls.ca),
                };
                cloud_answer::request_all(self.config, &ca).await
            })
            .await
    }

    /// Returns the state of the running agent, which is asked once.
    pub(crate) async fn agent_answer(&self) -> Result<&StatusReport, &ClientError> {
        let socket = &self.config.status.socket;
        let asked = self.status.get_or_init(|| request_status(socket)).await;
        asked.as_ref()
    }

    /// Returns the state of the running agent; otherwise the result of a check that needs it.
    pub(crate) async fn agent_status(&self) -> Result<&StatusReport, CheckResult> {
        self.agent_answer().await.map_err(|error| {
            let cure = match error {
                ClientError::Permission(_) => {
                    "run this command as root, or as a member of the group status.group of edgecore.yaml"
                }
                _ => "restart the agent: systemctl restart edge-agent",
            };
            CheckResult::warning(format!("cannot ask the agent: {}", error.what()), cure)
        })
    }
}
