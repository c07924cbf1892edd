//! Leader election: the holder of Lease `kubeedge/cloudsim` does what must be done once.
//!
//! Source: client-go's leader election. A holder counts as gone when its Lease has not changed for the Lease's duration, by the
//! observer's clock, so clocks need not agree.

use std::{pin::pin, time::Duration};

use clock::Instant;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::pki::NAMESPACE;

/// The name of the Lease.
pub const LEASE: &str = "cloudsim";
/// The annotation with the installation whose replicas hold the Lease.
const INSTALLATION: &str = "cloudsim/installation";
/// The duration of a Lease; client-go's.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew the Lease for this long stops leading.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the leader renews the Lease.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How often the others try to acquire it, and how long one try may take.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The pause after a write that collided with another one.
const CONFLICT_PAUSE: Duration = Duration::from_millis(100);

/// Whether this replica leads; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Leading(watch::Receiver<bool>);

impl Leading {
    /// A replica without others always leads.
    pub(crate) fn always() -> Self {
        Self(watch::channel(true).1)
    }

    /// Runs what `start` returns while this replica leads, each time anew, until `stop`. It must end soon after its token is cancelled.
    pub(crate) async fn run<F: Future<Output = ()>>(
        mut self,
        stop: CancellationToken,
        start: impl Fn(CancellationToken) -> F,
    ) {
        loop {
            // cancel-safe: nothing is held
            match stop
                .run_until_cancelled(self.0.wait_for(|leads| *leads))
                .await
            {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
            let term = stop.child_token();
            let mut work = pin!(start(term.clone()));
            let lost = async {
                // the election has ended, so everything must
                if self.0.wait_for(|leads| !*leads).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            clock::select! {
                // cancel-safe: it is awaited below
                () = &mut work => return,
                // cancel-safe: a state that is not seen is kept
                () = lost => {}
            }
            term.cancel();
            work.await;
        }
    }
}

/// Another installation of cloudsim that serves the cluster.
#[derive(Debug)]
pub(super) struct OtherInstallation {
    /// The name of the installation.
    pub(super) installation: String,
    /// Its replica that leads.
    pub(super) holder: String,
}

/// The result of a try to acquire the Lease.
enum Attempt {
    /// This replica holds it.
    Mine,
    /// Another replica of this installation holds it.
    Replica,
    /// A replica of another installation holds it, and has renewed it since it was first seen.
    Other(OtherInstallation),
    /// A replica of another installation holds it which may be gone.
    Unknown,
    /// Somebody else wrote the Lease at the same time.
    Conflict,
}

/// Takes part in the election.
pub(super) struct Election {
    api: Api<Lease>,
    /// The name of this replica.
    identity: String,
    /// The name of the installation, common to its replicas.
    installation: String,
    leads: watch::Sender<bool>,
    /// Whether the API server answered the last call.
    reached: watch::Sender<bool>,
    /// The Lease as last seen, and since when it has not changed.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Election {
    pub(super) fn new(client: &Client, identity: &str, installation: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), NAMESPACE),
            identity: identity.to_owned(),
            installation: installation.to_owned(),
            leads: watch::Sender::new(false),
            reached: watch::Sender::new(true),
            seen: None,
        }
    }

    pub(super) fn leading(&self) -> Leading {
        Leading(self.leads.subscribe())
    }

    pub(super) fn reachability(&self) -> watch::Receiver<bool> {
        self.reached.subscribe()
    }

    /// Returns the other installation that serves the cluster, if there is one. A foreign Lease that does not change has no holder.
    pub(super) async fn other(&mut self) -> Result<Option<OtherInstallation>, kube::Error> {
        let begun = Instant::now();
        loop {
            let Some(lease) = self.api.get_opt(LEASE).await? else {
                return Ok(None);
            };
            let installation = installation(&lease);
            let spec = lease.spec.unwrap_or_default();
            let holder = spec.holder_identity.clone().unwrap_or_default();
            if installation == self.installation || holder.is_empty() {
                return Ok(None);
            }
            match &self.seen {
                Some((first, _)) if *first != spec => {
                    return Ok(Some(OtherInstallation {
                        installation,
                        holder,
                    }));
                }
                Some(_) if begun.elapsed() > LEASE_DURATION => {
                    info!(
                        installation,
                        holder, "another cloudsim installation has stopped; taking over"
                    );
                    return Ok(None);
                }
                Some(_) => {}
                None => {
                    info!(
                        installation,
                        holder, "checking whether another cloudsim installation is alive"
                    );
                    self.seen = Some((spec, begun));
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Takes the Lease, unless another replica of this installation has it: of two installations that start together one alone serves.
    /// Returns the other installation if a living replica of that one has the Lease.
    pub(super) async fn claim(&mut self) -> Result<Option<OtherInstallation>, kube::Error> {
        loop {
            match self.try_acquire_or_renew().await? {
                Attempt::Mine => {
                    self.set(true);
                    return Ok(None);
                }
                Attempt::Replica => return Ok(None),
                Attempt::Other(other) => return Ok(Some(other)),
                Attempt::Unknown => sleep(RETRY_INTERVAL).await,
                Attempt::Conflict => sleep(CONFLICT_PAUSE).await,
            }
        }
    }

    /// Runs until `stop`; then releases the Lease.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let (mut renewed, mut is_failing) = (Instant::now(), false);
        loop {
            let leads = *self.leads.borrow();
            let stood = timeout(RENEW_INTERVAL, self.try_acquire_or_renew()).await;
            self.reached.send_replace(matches!(stood, Ok(Ok(_))));
            match stood {
                Ok(Ok(attempt)) => {
                    renewed = Instant::now();
                    if std::mem::take(&mut is_failing) {
                        info!("Lease kubeedge/{LEASE} renewed again");
                    }
                    self.set(matches!(attempt, Attempt::Mine));
                    if let Attempt::Other(OtherInstallation {
                        installation,
                        holder,
                    }) = attempt
                    {
                        warn!(
                            installation,
                            holder,
                            "conflict with another cloudsim installation detected; stop one of them"
                        );
                    }
                }
                failed => {
                    is_failing = true;
                    if let Ok(Err(error)) = failed {
                        warn!(
                            error = &error as &dyn std::error::Error,
                            "failed to renew Lease kubeedge/{LEASE}; retrying"
                        );
                    } else {
                        warn!(
                            "failed to renew Lease kubeedge/{LEASE}: API server timed out; retrying"
                        );
                    }
                    if leads && renewed.elapsed() > RENEW_DEADLINE {
                        self.set(false);
                    }
                }
            }
            let pause = if *self.leads.borrow() {
                RENEW_INTERVAL
            } else {
                RETRY_INTERVAL
            };
            // cancel-safe: sleeping holds no data
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
        }
        if *self.leads.borrow() {
            self.set(false);
            // another replica may lead at once
            let _ = timeout(RETRY_INTERVAL, self.give_up()).await;
        }
    }

    fn set(&self, leads: bool) {
        let changed = self
            .leads
            .send_if_modified(|now| std::mem::replace(now, leads) != leads);
        if changed {
            info!(identity = self.identity, leads, "leader election changed");
        }
    }

    /// Tries once to acquire or renew the Lease.
    async fn try_acquire_or_renew(&mut self) -> Result<Attempt, kube::Error> {
        let Some(lease) = self.api.get_opt(LEASE).await? else {
            let lease = self.lease(Lease::default(), &self.identity);
            return read_acquisition(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() {
            let since = match &self.seen {
                Some((before, since)) if *before == spec => *since,
                _ => Instant::now(),
            };
            let is_alive = self
                .seen
                .as_ref()
                .is_some_and(|(before, _)| *before != spec);
            let seconds = spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok());
            let duration = seconds.map_or(LEASE_DURATION, Duration::from_secs);
            self.seen = Some((spec, since));
            if since.elapsed() < duration {
                let installation = installation(&lease);
                return Ok(if installation == self.installation {
                    Attempt::Replica
                } else if is_alive {
                    Attempt::Other(OtherInstallation {
                        installation,
                        holder,
                    })
                } else {
                    Attempt::Unknown
                });
            }
        }
        let lease = self.lease(lease, &self.identity);
        read_acquisition(
            self.api
                .replace(LEASE, &PostParams::default(), &lease)
                .await,
        )
    }

    async fn give_up(&self) -> Result<(), kube::Error> {
        let lease = self.api.get(LEASE).await?;
        let is_mine = lease
            .spec
            .as_ref()
            .is_some_and(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        if is_mine {
            let lease = self.lease(lease, "");
            read_acquisition(
                self.api
                    .replace(LEASE, &PostParams::default(), &lease)
                    .await,
            )?;
        }
        Ok(())
    }

    /// Returns the Lease with a new holder; with none if `holder` is empty.
    fn lease(&self, before: Lease, holder: &str) -> Lease {
        let now = clock::now();
        let now = MicroTime(now.round(jiff::Unit::Microsecond).unwrap_or(now));
        let mut spec = before.spec.unwrap_or_default();
        // the API refuses an empty one
        let holder = (!holder.is_empty()).then(|| holder.to_owned());
        if spec.holder_identity != holder {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions =
                Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        spec.holder_identity = holder;
        spec.lease_duration_seconds = i32::try_from(LEASE_DURATION.as_secs()).ok();
        spec.renew_time = Some(now);
        let mut metadata = ObjectMeta {
            name: Some(LEASE.to_owned()),
            managed_fields: None,
            ..before.metadata
        };
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(INSTALLATION.to_owned(), self.installation.clone());
        Lease {
            metadata,
            spec: Some(spec),
        }
    }
}

fn installation(lease: &Lease) -> String {
    let annotations = lease.metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(INSTALLATION).cloned())
        .unwrap_or_default()
}

/// Reads the result of a write that makes this replica the holder.
fn read_acquisition(written: Result<Lease, kube::Error>) -> Result<Attempt, kube::Error> {
    match written {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Attempt::Conflict),
        written => written.map(|_| Attempt::Mine),
    }
}
