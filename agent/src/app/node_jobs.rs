//! Starts TaskManager.

use std::sync::Arc;

use componentbase::Supervisor;
use edged::{ImagePuller, RuntimeChannel, Signals, machine_signals};
use tokio_util::sync::CancellationToken;

use super::{Error, connect, database, services::Deps};
use crate::{
    config::Config,
    taskmanager::{self, ClientOfSecrets, Configuration, ImageFiles, NodeJobs, Task, Upgrade},
};

/// Starts TaskManager, if enabled; returns the handle of its jobs.
pub(super) fn start(
    config: &Config,
    (deps, configuration): (Deps, Option<Configuration>),
    (runtime, signals): (RuntimeChannel, Option<Arc<dyn Signals>>),
    supervisor: &mut Supervisor,
    shutdown: &CancellationToken,
) -> Result<Option<NodeJobs>, Error> {
    let Some(settings) = &config.task_manager else {
        return Ok(None);
    };
    let Deps {
        store,
        hub,
        messages,
        client,
    } = deps;
    let pods = &config.edged;
    let images = (pods.image_endpoint != pods.runtime_endpoint)
        .then(|| connect(&pods.image_endpoint))
        .transpose()?;
    let upgrade = configuration.as_ref().map(|file| {
        let files = ImageFiles::new(runtime.clone(), images.clone());
        Upgrade::new(file, database(config), files)
    });
    let machine = signals.is_none().then(|| pods.root_dir.clone());
    let signals =
        signals.unwrap_or_else(|| machine_signals(runtime.clone(), pods.root_dir.clone()));
    let task = Task::new(
        taskmanager::Config {
            node: config.node.name.clone(),
            store,
            hub,
            client: ClientOfSecrets(client),
            images: ImagePuller::new(runtime, images),
            signals,
            machine,
            configuration,
            upgrade,
            may_disconnect: settings.allow_connection_updates,
        },
        messages,
    );
    let jobs = task.jobs();
    supervisor.supervise_optional("taskmanager", task, shutdown);
    Ok(Some(jobs))
}
