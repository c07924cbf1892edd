//! A store whose commits wait or fail on command.

use std::{future::Future, pin::Pin, sync::Arc};

use objectstore::{
    Key, Listing, MemoryStore, Object, Page, Resource, Scope, Store, StoreError, Watch, Write,
};
use tokio::sync::watch;

use testkit::within;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Open,
    /// Commits that touch an object of this name wait.
    Closed(String),
    /// Commits that touch an object of this name fail.
    Failing(String),
}

/// A [`MemoryStore`] whose commits can be held back or made to fail.
#[derive(Debug)]
pub struct Gate {
    inner: Arc<MemoryStore>,
    mode: watch::Sender<Mode>,
    /// The number of commits that were held back or failed.
    arrived: watch::Sender<u64>,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

impl Gate {
    /// Creates an open gate with an empty store.
    pub fn new() -> Arc<Self> {
        let (mode, arrived) = (watch::Sender::default(), watch::Sender::default());
        Arc::new(Self {
            inner: MemoryStore::new(),
            mode,
            arrived,
        })
    }

    /// Makes commits that touch objects called `name` wait from now on.
    pub fn close(&self, name: &str) {
        self.mode.send_replace(Mode::Closed(name.to_owned()));
    }

    /// Makes commits that touch objects called `name` fail from now on.
    pub fn fail(&self, name: &str) {
        self.mode.send_replace(Mode::Failing(name.to_owned()));
    }

    /// Lets everything through.
    pub fn open(&self) {
        self.mode.send_replace(Mode::Open);
    }

    /// Waits until this many commits in all were held back or failed.
    pub async fn wait_arrived(&self, count: u64) {
        let mut arrived = self.arrived.subscribe();
        let enough = arrived.wait_for(|seen| *seen >= count);
        within("a commit at the gate", enough)
            .await
            .expect("the gate lives");
    }

    async fn pass(&self, writes: &[Write]) -> Result<(), StoreError> {
        let mut mode = self.mode.subscribe();
        let mut counted = false;
        loop {
            let now = mode.borrow_and_update().clone();
            let concerned = |name: &String| writes.iter().find(|write| write.key.name == *name);
            match &now {
                Mode::Failing(name) if let Some(write) = concerned(name) => {
                    self.arrived.send_modify(|count| *count += 1);
                    return Err(StoreError::NotAnObject(write.key.clone()));
                }
                Mode::Closed(name) if concerned(name).is_some() => {
                    if !counted {
                        self.arrived.send_modify(|count| *count += 1);
                        counted = true;
                    }
                }
                _ => return Ok(()),
            }
            mode.changed().await.expect("the gate owns its sender");
        }
    }
}

impl Store for Gate {
    fn get<'a, 'b, 'r>(&'a self, key: &'b Key) -> Answer<'r, Option<Object>>
    where
        'a: 'r,
        'b: 'r,
        Self: 'r,
    {
        self.inner.get(key)
    }

    fn list<'a, 'b, 'c, 'r>(&'a self, scope: &'b Scope, page: &'c Page) -> Answer<'r, Listing>
    where
        'a: 'r,
        'b: 'r,
        'c: 'r,
        Self: 'r,
    {
        self.inner.list(scope, page)
    }

    fn sizes<'a, 'r>(&'a self) -> Answer<'r, Vec<(Resource, u64)>>
    where
        'a: 'r,
        Self: 'r,
    {
        self.inner.sizes()
    }

    fn commit<'a, 'r>(&'a self, writes: Vec<Write>) -> Answer<'r, Vec<Object>>
    where
        'a: 'r,
        Self: 'r,
    {
        Box::pin(async move {
            self.pass(&writes).await?;
            self.inner.commit(writes).await
        })
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        self.inner.watch(scope, after)
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }
}
