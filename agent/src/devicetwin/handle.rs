//! The handle of DeviceTwin for other modules.

use std::{collections::BTreeMap, sync::Arc};

use componentbase::{Metric, Queue};
use crds::devices::{Device, DeviceModel, TwinProperty};
use objectstore::{Object, StoreError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use wire::{
    topic::DeviceId,
    twin::{self, INTERNAL, Member, NOT_FOUND, Twins},
};

use super::{
    counts::{RequestCounts, RequestOutcome},
    history::HistoryEntry,
};
use crate::metamanager::{DeviceObject, DeviceObjects};

/// Why a request about a device failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RequestError {
    /// 400, 404, 413 or 500, as on the result topics.
    pub code: u16,
    /// The reason as a text.
    pub reason: String,
}

/// Why an object of a device or model could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The store failed.
    #[error("cannot read the database; `edge-agent db check` names the damaged objects")]
    Store(#[from] StoreError),
    /// The object is not valid.
    #[error("{id} does not have the format of its kind; correct the object in the cloud")]
    Malformed {
        /// The id of the device or model.
        id: DeviceId,
        /// The error of the decoder.
        source: serde_json::Error,
    },
    /// Its desired values are not available now.
    #[error("cannot get the device's desired values")]
    Refused(#[from] RequestError),
}

/// A device in the [`Catalogue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Grows with every change of the object, or of the device's desired values.
    pub revision: u64,
    /// The object's UID: another UID is another device.
    pub uid: Arc<str>,
    /// The protocol, as mappers name it.
    pub protocol: Option<Arc<str>>,
    /// The model of the device.
    pub model: Option<DeviceId>,
}

/// The devices and models of this node whose objects the cloud has sent, without devices that are only members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Devices.
    pub devices: BTreeMap<DeviceId, CatalogueEntry>,
    /// Models, each with a number that grows with every change.
    pub models: BTreeMap<DeviceId, u64>,
}

/// A watch of the newest [`Catalogue`]. Compare it with the last one that was seen to find what has changed. There is none
/// until the stored objects have been read.
#[derive(Clone, Debug)]
pub struct Devices(pub(super) watch::Receiver<Option<Arc<Catalogue>>>);

impl Devices {
    /// Returns the current catalogue; `None` if the objects have not been read yet.
    pub fn now(&self) -> Option<Arc<Catalogue>> {
        self.0.borrow().clone()
    }

    /// Waits for the next catalogue, the first as soon as there is one; `None` when DeviceTwin has ended. Cancel-safe.
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

/// A request of another module, or of a mapper.
#[derive(Debug)]
pub(super) enum Command {
    /// Sets reported or desired values.
    Update {
        device: DeviceId,
        event: twin::Event,
        twins: Twins,
        responder: Responder<Twins>,
    },
    /// Sets values that a mapper has read, with the desired values that it has seen.
    Report {
        device: DeviceId,
        readings: Vec<Reading>,
        responder: Responder<()>,
    },
    /// Sets a device's state.
    State {
        device: DeviceId,
        state: String,
        responder: Responder<()>,
    },
    /// Queries the twin of a device.
    Twin {
        device: DeviceId,
        responder: Responder<Twins>,
    },
    /// Queries the desired values of a device.
    Desired {
        device: DeviceId,
        responder: Responder<BTreeMap<String, String>>,
    },
    /// Queries the desired values of all devices.
    AllDesired {
        responder: oneshot::Sender<BTreeMap<DeviceId, BTreeMap<String, String>>>,
    },
    /// Queries the history of a device.
    History {
        device: DeviceId,
        responder: Responder<Vec<HistoryEntry>>,
    },
    /// Queries all devices.
    Members {
        responder: oneshot::Sender<Vec<Member>>,
    },
}

impl Command {
    /// Returns the command if it is only a query; otherwise answers it with the error.
    pub(super) fn query_or_fail(self, why: &RequestError) -> Option<Self> {
        // the receiver may be gone
        match self {
            Self::Update { responder, .. } => drop(responder.send(Err(why.clone()))),
            Self::Report { responder, .. } | Self::State { responder, .. } => {
                drop(responder.send(Err(why.clone())))
            }
            question @ (Self::Twin { .. }
            | Self::Desired { .. }
            | Self::AllDesired { .. }
            | Self::History { .. }
            | Self::Members { .. }) => return Some(question),
        }
        None
    }
}

/// The receiver of an answer, which is sent after the change is on disk.
pub(super) type Responder<T> = oneshot::Sender<Result<T, RequestError>>;

/// A property as a mapper has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The name of the property.
    pub property: String,
    /// The value; `None` if the mapper could not read it.
    pub value: Option<String>,
    /// When it was read, milliseconds since the Unix epoch; `None` for now.
    pub at: Option<i64>,
    /// The desired value that the mapper has acted on.
    pub observed: Option<String>,
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct DeviceTwin {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) catalogue: watch::Receiver<Option<Arc<Catalogue>>>,
    pub(super) counts: Arc<RequestCounts>,
    pub(super) objects: DeviceObjects,
}

impl DeviceTwin {
    /// Returns a watch of the devices and models of this node.
    pub fn devices(&self) -> Devices {
        let mut catalogue = self.catalogue.clone();
        catalogue.mark_changed();
        Devices(catalogue)
    }

    /// Returns the counts of the requests' outcomes.
    pub fn counts(&self) -> &RequestCounts {
        &self.counts
    }

    /// Returns metrics of the devices and of the requests about them.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let (devices, models) = match self.catalogue.borrow().as_deref() {
            Some(catalogue) => (
                catalogue.devices.len() as u64,
                catalogue.models.len() as u64,
            ),
            None => (0, 0),
        };
        let mut requests = Metric::counter(
            "devicetwin_requests_total",
            "Requests of mappers about devices and twins, by result: done, bad_request, not_found, too_large.",
        );
        for count in RequestOutcome::ALL
            .into_iter()
            .filter(|count| *count != RequestOutcome::Reported)
        {
            requests = requests.with(&[("result", count.as_str())], self.counts.get(count));
        }
        let reports = Metric::counter(
            "devicetwin_reports_total",
            "Reports of twins and states that the cloud has confirmed.",
        );
        vec![
            Metric::gauge("devicetwin_devices", "Devices of this node.").of(devices),
            Metric::gauge("devicetwin_device_models", "Device models of this node.").of(models),
            requests,
            reports.of(self.counts.get(RequestOutcome::Reported)),
        ]
    }

    /// Reports how full the queue is.
    pub(crate) fn queues(&self) -> Option<Queue> {
        Queue::of("devicetwin/commands", &self.commands.downgrade())
    }

    /// Returns a device's object with the current desired values, which may have been set at the edge since.
    pub async fn device(&self, id: &DeviceId) -> Result<Option<Device>, ObjectError> {
        let object = self.objects.get(DeviceObject::Device, id).await?;
        let Some(mut device) = object
            .map(|object| decode::<Device>(id, object))
            .transpose()?
        else {
            return Ok(None);
        };
        let desired = match self.desired_values(id).await {
            // DeviceTwin has not read the object yet
            Err(refused) if refused.code == NOT_FOUND => BTreeMap::new(),
            desired => desired?,
        };
        set_desired(&mut device, desired);
        Ok(Some(device))
    }

    /// Returns the devices of a protocol, each as [`Self::device`] does, and all models. Objects that cannot be read are left
    /// out.
    pub async fn devices_of(
        &self,
        protocol: &str,
    ) -> Result<(BTreeMap<DeviceId, Device>, BTreeMap<DeviceId, DeviceModel>), ObjectError> {
        let models = self.objects.list(DeviceObject::Model).await?.0;
        let devices = self.objects.list(DeviceObject::Device).await?.0;
        let (responder, answer) = oneshot::channel();
        self.commands
            .send(Command::AllDesired { responder })
            .await
            .map_err(|_| RequestError::ended())?;
        let mut desired = answer.await.map_err(|_| RequestError::ended())?;
        let models = models
            .iter()
            .filter_map(decode_listed::<DeviceModel>)
            .collect();
        let devices = devices.iter().filter_map(decode_listed::<Device>);
        let is_own = |(_, device): &(DeviceId, Device)| {
            device
                .spec
                .protocol
                .as_ref()
                .and_then(|it| it.protocol_name.as_deref())
                == Some(protocol)
        };
        let devices = devices.filter(is_own).map(|(id, mut device)| {
            set_desired(&mut device, desired.remove(&id).unwrap_or_default());
            (id, device)
        });
        Ok((devices.collect(), models))
    }

    /// Returns a model's object.
    pub async fn model(&self, id: &DeviceId) -> Result<Option<DeviceModel>, ObjectError> {
        let object = self.objects.get(DeviceObject::Model, id).await?;
        object.map(|object| decode(id, object)).transpose()
    }

    /// Stores values that a mapper has read. They are on disk when this returns, and are reported to the cloud later. One
    /// invalid value refuses all of them.
    pub async fn report(
        &self,
        device: &DeviceId,
        readings: Vec<Reading>,
    ) -> Result<(), RequestError> {
        self.ask(|responder| Command::Report {
            device: device.clone(),
            readings,
            responder,
        })
        .await
    }

    /// Sets a device's state: `online`, `offline`, `ok`, `unknown` or `unhealthy`.
    pub async fn report_state(&self, device: &DeviceId, state: &str) -> Result<(), RequestError> {
        self.ask(|responder| Command::State {
            device: device.clone(),
            state: state.to_owned(),
            responder,
        })
        .await
    }

    /// Sets values at the edge, desired ones too; returns the properties after the change.
    pub async fn update(&self, device: &DeviceId, twins: Twins) -> Result<Twins, RequestError> {
        let event = twin::Event::default();
        self.ask(|responder| Command::Update {
            device: device.clone(),
            event,
            twins,
            responder,
        })
        .await
    }

    /// Returns a device's properties.
    pub async fn twin(&self, device: &DeviceId) -> Result<Twins, RequestError> {
        self.ask(|responder| Command::Twin {
            device: device.clone(),
            responder,
        })
        .await
    }

    /// Returns the desired values of a device by property.
    pub async fn desired_values(
        &self,
        device: &DeviceId,
    ) -> Result<BTreeMap<String, String>, RequestError> {
        self.ask(|responder| Command::Desired {
            device: device.clone(),
            responder,
        })
        .await
    }

    /// Returns the history of a device's values, the oldest first: changes of the last day, each property at most once a
    /// second.
    pub async fn history(&self, device: &DeviceId) -> Result<Vec<HistoryEntry>, RequestError> {
        self.ask(|responder| Command::History {
            device: device.clone(),
            responder,
        })
        .await
    }

    /// Returns all devices of this node, also those that are only members.
    pub async fn members(&self) -> Result<Vec<Member>, RequestError> {
        let (responder, answer) = oneshot::channel();
        self.commands
            .send(Command::Members { responder })
            .await
            .map_err(|_| RequestError::ended())?;
        answer.await.map_err(|_| RequestError::ended())
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(Responder<T>) -> Command,
    ) -> Result<T, RequestError> {
        let (responder, answer) = oneshot::channel();
        self.commands
            .send(command(responder))
            .await
            .map_err(|_| RequestError::ended())?;
        answer.await.unwrap_or_else(|_| Err(RequestError::ended()))
    }
}

impl RequestError {
    pub(super) fn new(code: u16, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }

    /// The change could not be written, or an older one is still to be.
    pub(super) fn unwritten() -> Self {
        Self::new(
            INTERNAL,
            "the change could not be written to disk; send it again",
        )
    }

    fn ended() -> Self {
        Self::new(INTERNAL, "the agent is shutting down; try again later")
    }
}

/// Sets the desired values in the object of a device.
fn set_desired(device: &mut Device, desired: BTreeMap<String, String>) {
    for (property, value) in desired {
        let named = |it: &&mut crds::devices::DeviceProperty| it.name.as_deref() == Some(&property);
        if let Some(found) = device.spec.properties.iter_mut().find(named) {
            found
                .desired
                .get_or_insert_with(TwinProperty::default)
                .value = value;
        }
    }
}

/// Decodes an object of a list; an invalid one is logged where the objects are followed.
fn decode_listed<T: DeserializeOwned>(object: &Object) -> Option<(DeviceId, T)> {
    Some((
        DeviceId::new(&object.key.namespace, &object.key.name)?,
        serde_json::from_slice(&object.json).ok()?,
    ))
}

fn decode<T: DeserializeOwned>(id: &DeviceId, object: Value) -> Result<T, ObjectError> {
    serde_json::from_value(object).map_err(|source| ObjectError::Malformed {
        id: id.clone(),
        source,
    })
}
