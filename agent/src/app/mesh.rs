//! EdgeMesh, where it is switched on.

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    edgemesh::{self, EdgeMesh},
    metamanager::MetaManager,
    rt::Supervisor,
};

/// Starts it; `services` reads what MetaServer serves.
pub(super) fn start(
    config: &Config,
    meta: &MetaManager,
    services: Option<Client>,
    (supervisor, shutdown): (&mut Supervisor, &CancellationToken),
) -> Option<EdgeMesh> {
    let settings = config.edge_mesh.clone()?;
    let (mesh, task) = edgemesh::new(edgemesh::Config {
        node: config.node.name.clone(),
        settings,
        services: services?,
        own: meta.client(),
    });
    supervisor.keep("edgemesh", task, shutdown);
    Some(mesh)
}
