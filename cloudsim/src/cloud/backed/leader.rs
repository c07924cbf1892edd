//! Which replica does what is to be done once: the holder of Lease `kubeedge/cloudsim`.
//!
//! Source: client-go's leader election. A holder is taken for gone when its Lease has not changed for as long as it says, by the clock of
//! whoever looks: clocks that differ change nothing.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use jiff::Timestamp;
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

/// The Lease.
pub const LEASE: &str = "cloudsim";
/// The annotation that says whose replicas hold it in turn.
const INSTALLATION: &str = "cloudsim/installation";
/// How long a Lease is good for; client-go's.
const DURATION: Duration = Duration::from_secs(15);
/// A holder that could not renew it for so long leads no more.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often the holder renews it.
const RENEW: Duration = Duration::from_secs(5);
/// How often the others look at it, and how long one look may take.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Whether this replica leads; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Leading(watch::Receiver<bool>);

impl Leading {
    /// There is no other replica.
    pub(crate) fn always() -> Self {
        Self(watch::channel(true).1)
    }

    /// Runs what `start` makes as long as this replica leads, each time anew, until `stop`. It is to end soon after its token is
    /// cancelled.
    pub(crate) async fn run<F: Future<Output = ()>>(
        mut self,
        stop: CancellationToken,
        start: impl Fn(CancellationToken) -> F,
    ) {
        loop {
            // cancel-safe: nothing is held
            match stop.run_until_cancelled(self.0.wait_for(|leads| *leads)).await {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
            let term = stop.child_token();
            let mut work = pin!(start(term.clone()));
            let lost = async {
                // who elects has ended: so does everything
                if self.0.wait_for(|leads| !*leads).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                // cancel-safe: it is awaited below
                () = &mut work => return,
                // cancel-safe: a state that is not seen stays
                () = lost => {}
            }
            term.cancel();
            work.await;
        }
    }
}

/// Another installation of cloudsim serves the cluster.
#[derive(Debug)]
pub(super) struct Other {
    /// Its name.
    pub(super) installation: String,
    /// The replica of it that leads.
    pub(super) holder: String,
}

/// Stands for election.
pub(super) struct Election {
    api: Api<Lease>,
    /// This replica.
    identity: String,
    /// All replicas of this cloud.
    installation: String,
    leads: watch::Sender<bool>,
    /// Whether the API server has answered when it was last asked.
    reached: watch::Sender<bool>,
    /// The Lease as it was last, and since when it has been so.
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

    pub(super) fn reached(&self) -> watch::Receiver<bool> {
        self.reached.subscribe()
    }

    /// The other installation whose replicas are alive, if there is one. A Lease of another one that does not change is nobody's.
    pub(super) async fn other(&mut self) -> Result<Option<Other>, kube::Error> {
        let begun = Instant::now();
        loop {
            let Some(lease) = self.api.get_opt(LEASE).await? else { return Ok(None) };
            let installation = installation(&lease);
            let spec = lease.spec.unwrap_or_default();
            let holder = spec.holder_identity.clone().unwrap_or_default();
            if installation == self.installation || holder.is_empty() {
                return Ok(None);
            }
            match &self.seen {
                Some((first, _)) if *first != spec => return Ok(Some(Other { installation, holder })),
                Some(_) if begun.elapsed() > DURATION => {
                    info!(
                        installation,
                        holder, "another installation of cloudsim has ended: this one takes its place"
                    );
                    return Ok(None);
                }
                Some(_) => {}
                None => {
                    info!(installation, holder, "looking whether another installation of cloudsim is alive");
                    self.seen = Some((spec, begun));
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// Until `stop`; gives the Lease up then.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            let leads = *self.leads.borrow();
            let stood = timeout(RENEW, self.stand()).await;
            self.reached.send_replace(matches!(stood, Ok(Ok(_))));
            match stood {
                Ok(Ok(is_mine)) => {
                    renewed = Instant::now();
                    self.set(is_mine);
                }
                failed => {
                    if let Ok(Err(error)) = failed {
                        warn!(
                            error = &error as &dyn std::error::Error,
                            "the Lease kubeedge/{LEASE} cannot be renewed"
                        );
                    } else {
                        warn!("the Lease kubeedge/{LEASE} cannot be renewed: the API server does not answer");
                    }
                    if leads && renewed.elapsed() > DEADLINE {
                        self.set(false);
                    }
                }
            }
            let pause = if *self.leads.borrow() { RENEW } else { RETRY_INTERVAL };
            // cancel-safe: sleeping holds no data
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                break;
            }
        }
        if *self.leads.borrow() {
            self.set(false);
            // another one may begin at once
            let _ = timeout(RETRY_INTERVAL, self.give_up()).await;
        }
    }

    fn set(&self, leads: bool) {
        let changed = self.leads.send_if_modified(|now| std::mem::replace(now, leads) != leads);
        if changed {
            info!(identity = self.identity, leads, "leadership of this cloud's replicas");
        }
    }

    /// One look, and one attempt. Whether the Lease is this replica's.
    async fn stand(&mut self) -> Result<bool, kube::Error> {
        let Some(lease) = self.api.get_opt(LEASE).await? else {
            let lease = self.lease(Lease::default(), &self.identity);
            return raced(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() {
            let since = match &self.seen {
                Some((before, since)) if *before == spec => *since,
                _ => Instant::now(),
            };
            let is_alive = self.seen.as_ref().is_some_and(|(before, _)| *before != spec);
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let duration = seconds.map_or(DURATION, Duration::from_secs);
            self.seen = Some((spec, since));
            if since.elapsed() < duration {
                let theirs = installation(&lease);
                if is_alive && theirs != self.installation {
                    warn!(
                        installation = theirs,
                        holder, "another installation of cloudsim serves this cluster: end one of them"
                    );
                }
                return Ok(false);
            }
        }
        let lease = self.lease(lease, &self.identity);
        raced(self.api.replace(LEASE, &PostParams::default(), &lease).await)
    }

    async fn give_up(&self) -> Result<(), kube::Error> {
        let lease = self.api.get(LEASE).await?;
        let is_mine =
            lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        if is_mine {
            let lease = self.lease(lease, "");
            raced(self.api.replace(LEASE, &PostParams::default(), &lease).await)?;
        }
        Ok(())
    }

    /// The Lease, held by `holder` from now on; by nobody where that is empty.
    fn lease(&self, before: Lease, holder: &str) -> Lease {
        let now = Timestamp::now();
        let now = MicroTime(now.round(jiff::Unit::Microsecond).unwrap_or(now));
        let mut spec = before.spec.unwrap_or_default();
        // an empty one is refused
        let holder = (!holder.is_empty()).then(|| holder.to_owned());
        if spec.holder_identity != holder {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        spec.holder_identity = holder;
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
        spec.renew_time = Some(now);
        let mut metadata =
            ObjectMeta { name: Some(LEASE.to_owned()), managed_fields: None, ..before.metadata };
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(INSTALLATION.to_owned(), self.installation.clone());
        Lease { metadata, spec: Some(spec) }
    }
}

fn installation(lease: &Lease) -> String {
    let annotations = lease.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(INSTALLATION).cloned()).unwrap_or_default()
}

/// Somebody else was faster.
fn raced(written: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        written => written.map(|_| true),
    }
}
