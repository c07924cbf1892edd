//! The devices and models that the agent has sent, and a task for each device.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tracing::{error, info};
use wire::dmi::{self, MapperRegisterResponse, Message};

use crate::{Device, Protocol, agent::Agent, task};

/// The pause after a protocol's code has panicked.
const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// The size below which an answer has all devices, bytes. Devices that do not fit into gRPC's usual 4 MiB are sent by calls.
const WHOLE_ANSWER: usize = 2 * 1024 * 1024;

/// Namespace and name.
type Key = (String, String);

/// Keeps devices and models. Cheap to clone.
pub(crate) struct Keeper<P> {
    protocol: Arc<P>,
    agent: Agent,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    models: BTreeMap<Key, dmi::DeviceModel>,
    devices: BTreeMap<Key, Running>,
}

struct Running {
    /// The device as the agent sent it.
    told: dmi::Device,
    device: watch::Sender<Arc<Device>>,
    _task: AbortOnDropHandle<()>,
}

impl<P> Clone for Keeper<P> {
    fn clone(&self) -> Self {
        let Self {
            protocol,
            agent,
            kept,
        } = self;
        Self {
            protocol: protocol.clone(),
            agent: agent.clone(),
            kept: kept.clone(),
        }
    }
}

impl<P: Protocol> Keeper<P> {
    pub(crate) fn new(protocol: P, agent: Agent) -> Self {
        Self {
            protocol: Arc::new(protocol),
            agent,
            kept: Arc::default(),
        }
    }

    /// Returns the devices that are served.
    pub(crate) fn names(&self) -> BTreeSet<Key> {
        self.kept.lock().devices.keys().cloned().collect()
    }

    /// Takes over the agent's answer to the registration. Devices that were served `before` and are not in the answer are removed, unless
    /// the answer is so large that some may have been left out.
    pub(crate) fn begin(&self, answer: MapperRegisterResponse, before: BTreeSet<Key>) {
        if answer.encoded_len() < WHOLE_ANSWER {
            let named = |key: &Key| {
                answer
                    .device_list
                    .iter()
                    .any(|it| (&it.namespace, &it.name) == (&key.0, &key.1))
            };
            before
                .iter()
                .filter(|key| !named(key))
                .for_each(|(namespace, name)| self.remove(namespace, name));
        }
        for model in answer.model_list {
            self.put_model(model);
        }
        for device in answer.device_list {
            let name = device.name.clone();
            if let Err(status) = self.put(device) {
                error!(
                    device = name,
                    error = status.message(),
                    "cannot serve a device"
                );
            }
        }
    }

    /// Adds or replaces a model, and updates its devices.
    pub(crate) fn put_model(&self, model: dmi::DeviceModel) {
        let key = (model.namespace.clone(), model.name.clone());
        let mut kept = self.kept.lock();
        for running in kept
            .devices
            .values()
            .filter(|running| model_of(&running.told) == key)
        {
            // a device that cannot be parsed with the new model stays as it was
            if let Ok(device) = Device::read(&running.told, &model) {
                change(running, device);
            }
        }
        kept.models.insert(key, model);
    }

    /// Removes a model.
    pub(crate) fn remove_model(&self, namespace: &str, name: &str) {
        self.kept
            .lock()
            .models
            .remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Adds or replaces a device.
    pub(crate) fn put(&self, told: dmi::Device) -> Result<(), Status> {
        let key = (told.namespace.clone(), told.name.clone());
        let mut kept = self.kept.lock();
        let Some(model) = kept.models.get(&model_of(&told)) else {
            let (_, model) = model_of(&told);
            return Err(Status::failed_precondition(format!(
                "model {model} of device {} is not known",
                told.name
            )));
        };
        let device = Device::read(&told, model)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        if let Some(running) = kept.devices.get_mut(&key) {
            change(running, device);
            running.told = told;
            return Ok(());
        }
        info!(device = told.name, "serving device");
        let (sender, receiver) = watch::channel(Arc::new(device));
        let serving = serve(self.protocol.clone(), receiver, self.agent.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(serving));
        kept.devices.insert(
            key,
            Running {
                told,
                device: sender,
                _task: task,
            },
        );
        Ok(())
    }

    /// Removes a device.
    pub(crate) fn remove(&self, namespace: &str, name: &str) {
        if self
            .kept
            .lock()
            .devices
            .remove(&(namespace.to_owned(), name.to_owned()))
            .is_some()
        {
            info!(device = name, "device removed");
        }
    }

    /// Returns a device as the agent sent it.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<dmi::Device> {
        let kept = self.kept.lock();
        kept.devices
            .get(&(namespace.to_owned(), name.to_owned()))
            .map(|running| running.told.clone())
    }
}

fn change(running: &Running, device: Device) {
    running.device.send_if_modified(|current| {
        let is_other = **current != device;
        if is_other {
            *current = Arc::new(device);
        }
        is_other
    });
}

fn model_of(device: &dmi::Device) -> Key {
    let name = device
        .spec
        .as_ref()
        .map(|spec| spec.device_model_reference.clone())
        .unwrap_or_default();
    (device.namespace.clone(), name)
}

/// Serves one device. A panic in a protocol's code stops only this device, and only for a while.
async fn serve<P: Protocol>(protocol: Arc<P>, device: watch::Receiver<Arc<Device>>, agent: Agent) {
    loop {
        let run = task::run(protocol.clone(), device.clone(), agent.clone());
        let run = AbortOnDropHandle::new(tokio::spawn(run));
        match run.await {
            Ok(()) => return,
            Err(error) if error.is_panic() => {
                let name = device.borrow().name.clone();
                error!(device = name, %error, "protocol code panicked; restarting the device");
                sleep(AFTER_A_PANIC).await;
            }
            Err(_) => return,
        }
    }
}
