//! The metrics of all modules but EdgeD, and what else its server shows of them.

use componentbase::{Collector, HealthMonitor, Metric, Queue};
use edged::{Diagnostics, Storage};

use crate::{
    devicetwin::{DeviceTwin, dmi::Dmi},
    edgehub::EdgeHub,
    edgemesh::EdgeMesh,
    eventbus::Bus,
    metamanager::MetaManager,
    servicebus::ServiceBus,
};

/// The modules.
pub(super) struct Sources {
    pub(super) hub: EdgeHub,
    pub(super) meta: MetaManager,
    pub(super) bus: Bus,
    pub(super) devices: Option<DeviceTwin>,
    pub(super) dmi: Option<Dmi>,
    pub(super) services: Option<ServiceBus>,
    pub(super) mesh: Option<EdgeMesh>,
    pub(super) vitals: HealthMonitor,
}

/// Returns the state of the modules that EdgeD's server shows, with a collector of their metrics.
pub(super) fn diagnostics(sources: Sources, storage: Storage) -> Diagnostics {
    Diagnostics {
        link: Some(sources.hub.link()),
        vitals: sources.vitals.clone(),
        storage,
        metrics: Collector::new(move |queues| sources.metrics(queues)),
    }
}

impl Sources {
    fn metrics(&self, mut all: Vec<Queue>) -> Vec<Metric> {
        all.extend(self.hub.queues());
        all.extend(self.meta.queues());
        all.extend(self.bus.queues());
        all.extend(self.devices.iter().filter_map(DeviceTwin::queues));
        all.extend(self.services.iter().flat_map(ServiceBus::queues));
        let mut metrics = self.hub.metrics();
        metrics.extend(self.bus.metrics());
        metrics.extend(self.devices.iter().flat_map(DeviceTwin::metrics));
        metrics.extend(self.dmi.iter().flat_map(Dmi::metrics));
        metrics.extend(self.services.iter().flat_map(ServiceBus::metrics));
        metrics.extend(self.mesh.iter().flat_map(EdgeMesh::metrics));
        metrics.extend(queues(&all));
        metrics.push(self.vitals.metric());
        metrics
    }
}

fn queues(all: &[Queue]) -> [Metric; 2] {
    let name = "edge_agent_queue_messages";
    let waiting = Metric::gauge(name, "Entries in a queue of the agent.");
    let name = "edge_agent_queue_capacity";
    let bound = Metric::gauge(name, "Capacity of a queue of the agent.");
    let with = |metric: Metric, figure: fn(&Queue) -> usize| {
        all.iter().fold(metric, |metric, queue| {
            metric.with(&[("queue", queue.name)], figure(queue) as u64)
        })
    };
    [
        with(waiting, |queue| queue.waiting),
        with(bound, |queue| queue.bound),
    ]
}
