//! Starts EdgeD, if pods run on this node, and the tunnel for their logs.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use componentbase::Supervisor;
use componentbase::addresses;
use edged::{
    AddressSource, Diagnostics, LocalKubelet, NodeConfig, PodNetwork, RuntimeChannel, Signals,
    StaticPods, SyncConfig,
};
use k8s_openapi::api::core::v1::Taint;
use kube::Client;
use record::Recorder;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use wire::volumes::{DEFAULT_DIRECTORY, DIRECTORY_ANNOTATION};

use super::{Error, connect, volumes_directory};
use crate::{
    config::Config,
    edgehub::{InProcessLink, Proxy},
    edgestream,
    metamanager::MetaManager,
};

/// What [`super::AgentParts`] has for EdgeD.
pub(super) struct Inputs {
    pub(super) runtime: RuntimeChannel,
    pub(super) signals: Option<Arc<dyn Signals>>,
    pub(super) pod_network: Option<Arc<dyn PodNetwork>>,
    pub(super) secrets_in_memory: bool,
    /// The API for Services, if it is another one.
    pub(super) services: Option<Client>,
}

/// What the tunnel needs.
#[derive(Clone, Copy)]
pub(super) struct ToCloud<'a> {
    meta: &'a MetaManager,
    recorder: &'a Recorder,
    in_process: Option<&'a InProcessLink>,
}

impl<'a> ToCloud<'a> {
    pub(super) fn new(
        meta: &'a MetaManager,
        recorder: &'a Recorder,
        in_process: Option<&'a InProcessLink>,
    ) -> Self {
        Self {
            meta,
            recorder,
            in_process,
        }
    }
}

/// Starts EdgeD, and the tunnel for logs if that is enabled; returns the handle of the kubelet API.
pub(super) fn start(
    config: &Config,
    edged: edged::Config,
    to_cloud: ToCloud<'_>,
    supervisor: &mut Supervisor,
    shutdown: &CancellationToken,
) -> Result<LocalKubelet, Error> {
    let address = edged.node.address.clone();
    let (edged, edged_task) = edged::new(edged)?;
    supervisor.supervise("edged", edged_task, shutdown);
    if let Some(stream) = edge_stream_config(config, address, to_cloud)? {
        supervisor.supervise_optional("edgestream", edgestream::new(stream, edged.api()), shutdown);
    }
    Ok(LocalKubelet::new(config.node.name.clone(), edged.api()))
}

/// Warns of settings that have no effect on a node that runs no pods.
pub(super) fn warn_without(config: &Config) {
    if config.edge_stream.is_some() {
        warn!(
            "cannot start the stream tunnel: modules.edgeStream is enabled, but modules.edged is disabled"
        );
    }
}

/// Returns the tunnel's settings, if it is enabled.
fn edge_stream_config(
    config: &Config,
    address: AddressSource,
    ToCloud {
        meta,
        recorder,
        in_process,
    }: ToCloud<'_>,
) -> Result<Option<edgestream::Config>, Error> {
    let Some(stream) = &config.edge_stream else {
        return Ok(None);
    };
    let endpoint = &stream.endpoint;
    Ok(Some(edgestream::Config {
        node_name: config.node.name.clone(),
        address,
        node: config.node.register.then(|| meta.node_confirmed()),
        server: endpoint.server.clone(),
        proxy: Proxy::from_environment(|name| std::env::var(name).ok())?,
        tls: stream.tls.clone(),
        handshake_timeout: endpoint.handshake_timeout,
        read_deadline: endpoint.read_deadline,
        write_deadline: endpoint.write_deadline,
        recorder: recorder.clone(),
        in_process: in_process.cloned(),
    }))
}

/// Returns the Node's annotations in addition to those that every node has.
fn annotations(config: &Config) -> BTreeMap<String, String> {
    let directory = volumes_directory(config);
    let is_default = directory == Path::new(DEFAULT_DIRECTORY);
    let annotation = || {
        (
            DIRECTORY_ANNOTATION.to_owned(),
            directory.display().to_string(),
        )
    };
    (!is_default).then(annotation).into_iter().collect()
}

/// Returns EdgeD's settings.
pub(super) fn config(
    config: &Config,
    meta: &MetaManager,
    inputs: Inputs,
    diagnostics: Diagnostics,
) -> Result<edged::Config, Error> {
    let (node, pods) = (&config.node, &config.edged);
    let address = match (&node.interface, node.ip) {
        (Some(name), _) if addresses::of_interface(name).is_none() => {
            return Err(Error::Interface(name.clone()));
        }
        (Some(name), _) => AddressSource::Interface(name.clone()),
        (None, Some(ip)) => AddressSource::Fixed(ip),
        (None, None) => AddressSource::Route,
    };
    let images =
        (pods.image_endpoint != pods.runtime_endpoint).then(|| connect(&pods.image_endpoint));
    let taint = |taint: &crate::config::Taint| Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    };
    Ok(edged::Config {
        node_name: node.name.clone(),
        client: meta.client(),
        services: inputs.services.unwrap_or_else(|| meta.client()),
        api_ca: None,
        pods_complete: meta.pods_complete(),
        online: meta.reconnections(),
        runtime: inputs.runtime,
        root_dir: pods.root_dir.clone(),
        log_dir: pods.pod_logs_dir.clone(),
        secrets_in_memory: inputs.secrets_in_memory,
        // simulated containers have neither
        device_plugins: inputs.secrets_in_memory,
        report_events: pods.report_events,
        static_pods: pods.static_pod_path.clone().map(|path| StaticPods {
            path,
            every: pods.file_check_frequency,
        }),
        allowed_sysctls: pods.allowed_sysctls.clone(),
        resolv_conf: pods
            .resolv_conf
            .clone()
            .unwrap_or_else(|| "/dev/null".into()),
        images: images.transpose()?,
        node: NodeConfig {
            labels: node.labels.clone(),
            annotations: annotations(config),
            taints: node.taints.iter().map(taint).collect(),
            address,
            capacity: node.capacity,
            max_pods: node.max_pods,
            pods_per_core: node.pods_per_core,
            max_images: node.max_images,
            kube_reserved: node.kube_reserved.clone(),
            system_reserved: node.system_reserved.clone(),
            eviction_hard: node.eviction_hard.clone(),
            register: node.register,
            register_schedulable: node.schedulable,
            kubelet_port: pods.server.port(),
            lease_duration: node.lease_duration,
            status_frequency: node.status_update_frequency,
            report_frequency: node.status_report_frequency,
            cluster_dns: pods.cluster_dns.iter().map(ToString::to_string).collect(),
            cluster_domain: pods.cluster_domain.clone(),
            ..NodeConfig::default()
        },
        sync: SyncConfig {
            resync: pods.sync_frequency,
            pulls: pods.parallel_image_pulls,
            ..SyncConfig::default()
        },
        diagnostics,
        housekeeping: pods.housekeeping.clone(),
        eviction: pods.eviction.clone(),
        shutdown: pods.shutdown.clone(),
        groups: pods.groups.clone(),
        sandbox_image: pods.sandbox_image.clone(),
        settings: pods.settings.clone(),
        signals: inputs.signals,
        pod_network: inputs.pod_network,
        server: Some(pods.server).filter(|address| address.port() != 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Host;

    #[test]
    fn persistent_volumes_are_beside_the_database() {
        let host = Host {
            name: "edge-1".into(),
            address: [192, 0, 2, 7].into(),
        };
        let annotation = |root: &str| {
            let text = crate::config::minimal_config(&host);
            let text =
                crate::config::relocate(&text, |path| Path::new(root).join(&path[1..])).unwrap();
            let config = crate::config::parse(Path::new("/x.yaml"), &text, None, &host)
                .unwrap()
                .0;
            annotations(&config).remove(DIRECTORY_ANNOTATION)
        };
        assert_eq!(
            annotation("/"),
            None,
            "the parameter `path` of the StorageClass applies"
        );
        assert_eq!(
            annotation("/srv/e").as_deref(),
            Some("/srv/e/var/lib/kubeedge/volumes")
        );
    }
}
