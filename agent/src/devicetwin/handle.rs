//! What other rooms hold of this one.

use std::{collections::BTreeMap, sync::Arc};

use crds::devices::{Device, DeviceModel, TwinProperty};
use kubeapi::store::{Object, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use wire::{
    topic::DeviceId,
    twin::{self, INTERNAL, Member, NOT_FOUND, Twins},
};

use super::{
    counts::{Count, Counts},
    history::Past,
};
use crate::{
    metamanager::{DeviceObject, DeviceObjects},
    rt::{Metric, Queue},
};

/// Why a request about a device was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// 400, 404, 413 or 500, as on the result topics.
    pub code: u16,
    /// In words.
    pub reason: String,
}

/// An object of a device or model could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The store failed.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// The cloud sent something else under its name.
    #[error("{id} is not what its kind says; mend the object in the cloud")]
    Malformed {
        /// Which.
        id: DeviceId,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// What is wanted of it cannot be told now.
    #[error("what is wanted of it cannot be told")]
    Refused(#[from] Refused),
}

/// A device in the [`Catalogue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Grows with every change of the object, or of what is wanted of the device.
    pub revision: u64,
    /// The object's UID: another one is another device.
    pub uid: Arc<str>,
    /// How it is reached, as mappers name it.
    pub protocol: Option<Arc<str>>,
    /// Its model.
    pub model: Option<DeviceId>,
}

/// The devices and models of this node whose objects the cloud has sent. Devices that are only members are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Devices.
    pub devices: BTreeMap<DeviceId, Listed>,
    /// Models, each with a number that grows with every change.
    pub models: BTreeMap<DeviceId, u64>,
}

/// The newest [`Catalogue`]; compare it with what was last seen, nothing else tells what has changed. There is none before
/// what is stored has been read.
#[derive(Clone, Debug)]
pub struct Devices(pub(super) watch::Receiver<Option<Arc<Catalogue>>>);

impl Devices {
    /// As it is now; `None`: it has not been read yet.
    pub fn now(&self) -> Option<Arc<Catalogue>> {
        self.0.borrow().clone()
    }

    /// The next one that was not returned yet, the first as soon as there is one; `None` when the room has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Arc<Catalogue>> {
        loop {
            if self.0.has_changed().ok()?
                && let Some(catalogue) = self.0.borrow_and_update().clone()
            {
                return Some(catalogue);
            }
            self.0.changed().await.ok()?;
            self.0.mark_changed();
        }
    }
}

/// A request of another room, or of a mapper.
#[derive(Debug)]
pub(super) enum Command {
    /// Values that are or are wanted.
    Update { device: DeviceId, event: twin::Event, twins: Twins, done: Done<Twins> },
    /// Values that a mapper has read, with the wanted ones that it has seen.
    Report { device: DeviceId, readings: Vec<Reading>, done: Done<()> },
    /// A device's state.
    State { device: DeviceId, state: String, done: Done<()> },
    /// Asks for a twin.
    Twin { device: DeviceId, done: Done<Twins> },
    /// Asks for what is wanted of a device.
    Desired { device: DeviceId, done: Done<BTreeMap<String, String>> },
    /// Asks for what is wanted of all devices.
    AllDesired { done: oneshot::Sender<BTreeMap<DeviceId, BTreeMap<String, String>>> },
    /// Asks for what a device was.
    History { device: DeviceId, done: Done<Vec<Past>> },
    /// Asks for all devices.
    Members { done: oneshot::Sender<Vec<Member>> },
}

impl Command {
    /// Itself where it changes nothing; else it is refused.
    pub(super) fn question_or(self, why: &Refused) -> Option<Self> {
        // whoever asked may have left
        match self {
            Self::Update { done, .. } => drop(done.send(Err(why.clone()))),
            Self::Report { done, .. } | Self::State { done, .. } => drop(done.send(Err(why.clone()))),
            question @ (Self::Twin { .. }
            | Self::Desired { .. }
            | Self::AllDesired { .. }
            | Self::History { .. }
            | Self::Members { .. }) => return Some(question),
        }
        None
    }
}

/// Where an answer goes, after what it says is on disk.
pub(super) type Done<T> = oneshot::Sender<Result<T, Refused>>;

/// A property as a mapper has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Which property.
    pub property: String,
    /// Its value; `None` where the mapper could not read it.
    pub value: Option<String>,
    /// When it was read, milliseconds since the Unix epoch; `None`: now.
    pub at: Option<i64>,
    /// The wanted value that the mapper has acted on.
    pub observed: Option<String>,
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct DeviceTwin {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) catalogue: watch::Receiver<Option<Arc<Catalogue>>>,
    pub(super) counts: Arc<Counts>,
    pub(super) objects: DeviceObjects,
}

impl DeviceTwin {
    /// The devices and models of this node, now and as they change.
    pub fn devices(&self) -> Devices {
        let mut catalogue = self.catalogue.clone();
        catalogue.mark_changed();
        Devices(catalogue)
    }

    /// How requests ended.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The devices and what was asked about them, as figures.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let (devices, models) = match self.catalogue.borrow().as_deref() {
            Some(catalogue) => (catalogue.devices.len() as u64, catalogue.models.len() as u64),
            None => (0, 0),
        };
        let mut requests = Metric::counter(
            "devicetwin_requests_total",
            "Requests of mappers about devices and their twins, by how they ended.",
        );
        for count in Count::ALL.into_iter().filter(|count| *count != Count::Reported) {
            requests = requests.with(&[("result", count.as_str())], self.counts.get(count));
        }
        let reports = Metric::counter(
            "devicetwin_reports_total",
            "Reports of twins and states of devices that the cloud has confirmed.",
        );
        vec![
            Metric::gauge("devicetwin_devices", "Devices of this node.").of(devices),
            Metric::gauge("devicetwin_device_models", "Models of devices on this node.").of(models),
            requests,
            reports.of(self.counts.get(Count::Reported)),
        ]
    }

    /// How full its queue is.
    pub(crate) fn queues(&self) -> Option<Queue> {
        Queue::of("devicetwin/commands", &self.commands.downgrade())
    }

    /// A device's object, its desired values replaced by those that count now: one may have been set at the edge since.
    pub async fn device(&self, id: &DeviceId) -> Result<Option<Device>, Unavailable> {
        let object = self.objects.get(DeviceObject::Device, id).await?;
        let Some(mut device) = object.map(|object| typed::<Device>(id, object)).transpose()? else {
            return Ok(None);
        };
        let desired = match self.desired(id).await {
            // DeviceTwin has not seen the object yet
            Err(refused) if refused.code == NOT_FOUND => BTreeMap::new(),
            desired => desired?,
        };
        wants(&mut device, desired);
        Ok(Some(device))
    }

    /// The devices of a protocol, each as [`Self::device`] gives it, and all models. One that cannot be read is left out.
    pub async fn devices_of(
        &self,
        protocol: &str,
    ) -> Result<(BTreeMap<DeviceId, Device>, BTreeMap<DeviceId, DeviceModel>), Unavailable> {
        let models = self.objects.list(DeviceObject::Model).await?.0;
        let devices = self.objects.list(DeviceObject::Device).await?.0;
        let (done, answer) = oneshot::channel();
        self.commands.send(Command::AllDesired { done }).await.map_err(|_| Refused::ended())?;
        let mut desired = answer.await.map_err(|_| Refused::ended())?;
        let models = models.iter().filter_map(listed::<DeviceModel>).collect();
        let devices = devices.iter().filter_map(listed::<Device>);
        let is_own = |(_, device): &(DeviceId, Device)| {
            device.spec.protocol.as_ref().and_then(|it| it.protocol_name.as_deref()) == Some(protocol)
        };
        let devices = devices.filter(is_own).map(|(id, mut device)| {
            wants(&mut device, desired.remove(&id).unwrap_or_default());
            (id, device)
        });
        Ok((devices.collect(), models))
    }

    /// A model's object.
    pub async fn model(&self, id: &DeviceId) -> Result<Option<DeviceModel>, Unavailable> {
        let object = self.objects.get(DeviceObject::Model, id).await?;
        object.map(|object| typed(id, object)).transpose()
    }

    /// What a mapper has read. When it returns, that is on disk, and reported to the cloud sooner or later. One bad value
    /// refuses them all.
    pub async fn report(&self, device: &DeviceId, readings: Vec<Reading>) -> Result<(), Refused> {
        self.ask(|done| Command::Report { device: device.clone(), readings, done }).await
    }

    /// A device's state: `online`, `offline`, `ok`, `unknown` or `unhealthy`.
    pub async fn report_state(&self, device: &DeviceId, state: &str) -> Result<(), Refused> {
        self.ask(|done| Command::State { device: device.clone(), state: state.to_owned(), done }).await
    }

    /// Sets values at the edge, wanted ones too; answers the properties as they became.
    pub async fn update(&self, device: &DeviceId, twins: Twins) -> Result<Twins, Refused> {
        let event = twin::Event::default();
        self.ask(|done| Command::Update { device: device.clone(), event, twins, done }).await
    }

    /// A device's properties.
    pub async fn twin(&self, device: &DeviceId) -> Result<Twins, Refused> {
        self.ask(|done| Command::Twin { device: device.clone(), done }).await
    }

    /// What is wanted of a device: value by property.
    pub async fn desired(&self, device: &DeviceId) -> Result<BTreeMap<String, String>, Refused> {
        self.ask(|done| Command::Desired { device: device.clone(), done }).await
    }

    /// What the values of a device were, the oldest first: changes of the last day, each property at most once a second.
    pub async fn history(&self, device: &DeviceId) -> Result<Vec<Past>, Refused> {
        self.ask(|done| Command::History { device: device.clone(), done }).await
    }

    /// All devices of this node, those too that are only members.
    pub async fn members(&self) -> Result<Vec<Member>, Refused> {
        let (done, answer) = oneshot::channel();
        self.commands.send(Command::Members { done }).await.map_err(|_| Refused::ended())?;
        answer.await.map_err(|_| Refused::ended())
    }

    async fn ask<T>(&self, command: impl FnOnce(Done<T>) -> Command) -> Result<T, Refused> {
        let (done, answer) = oneshot::channel();
        self.commands.send(command(done)).await.map_err(|_| Refused::ended())?;
        answer.await.unwrap_or_else(|_| Err(Refused::ended()))
    }
}

impl Refused {
    pub(super) fn new(code: u16, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// It could not be written, or something older is still to be.
    pub(super) fn unwritten() -> Self {
        Self::new(INTERNAL, "the change could not be written to disk; send it again")
    }

    fn ended() -> Self {
        Self::new(INTERNAL, "the agent is shutting down; ask again when it runs")
    }
}

/// Puts what is wanted of a device into its object.
fn wants(device: &mut Device, desired: BTreeMap<String, String>) {
    for (property, value) in desired {
        let named = |it: &&mut crds::devices::DeviceProperty| it.name.as_deref() == Some(&property);
        if let Some(found) = device.spec.properties.iter_mut().find(named) {
            found.desired.get_or_insert_with(TwinProperty::default).value = value;
        }
    }
}

/// One of a list; one that is not what its kind says is told of by whoever follows the objects.
fn listed<T: DeserializeOwned>(object: &Object) -> Option<(DeviceId, T)> {
    Some((
        DeviceId::new(&object.key.namespace, &object.key.name)?,
        serde_json::from_slice(&object.json).ok()?,
    ))
}

fn typed<T: DeserializeOwned>(id: &DeviceId, object: Value) -> Result<T, Unavailable> {
    serde_json::from_value(object).map_err(|source| Unavailable::Malformed { id: id.clone(), source })
}
