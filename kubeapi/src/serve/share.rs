//! Limits the requests in progress of each client: one beyond its share is answered with 429 and `Retry-After`, as by API priority and
//! fairness.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::limits::ServerLimits;
use crate::Identity;

/// The owner of a share: a user with a client certificate, or else an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Client {
    User(String),
    Address(IpAddr),
}

impl Client {
    pub(super) fn of(identity: Option<&Identity>, address: IpAddr) -> Self {
        match identity {
            Some(identity) => Self::User(identity.user.clone()),
            None => Self::Address(address),
        }
    }
}

/// The client has as many requests in progress as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyRequests;

/// The shares of all clients of a server; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    limits: ServerLimits,
    all: Arc<Mutex<ClientTable>>,
}

#[derive(Debug, Default)]
struct ClientTable {
    clients: HashMap<Client, Share>,
    unread: usize,
}

/// The share of one client.
#[derive(Debug)]
struct Share {
    /// The number of its requests, waiting ones included; the share is removed with the last one.
    users: usize,
    requests: Arc<Semaphore>,
    streams: usize,
    unread: usize,
}

impl Shares {
    pub(super) fn new(limits: ServerLimits) -> Self {
        Self {
            limits,
            all: Arc::default(),
        }
    }

    /// Begins a request, which waits for others of the same client unless it is `exempt`.
    pub(super) async fn begin(
        &self,
        client: Client,
        exempt: bool,
    ) -> Result<Request, TooManyRequests> {
        let (mut request, requests) = {
            let mut all = self.all.lock();
            let limit = self.limits.client.requests;
            let share = all.clients.entry(client.clone()).or_insert_with(|| Share {
                users: 0,
                requests: Arc::new(Semaphore::new(limit)),
                streams: 0,
                unread: 0,
            });
            share.users += 1;
            let is_over = share.unread >= self.limits.client.unread_bytes;
            let requests = share.requests.clone();
            let request = Request {
                shares: self.clone(),
                client,
                permit: None,
                streams: 0,
                unread: 0,
            };
            drop(all);
            if is_over {
                // what it has asked for is to be read first
                return Err(TooManyRequests);
            }
            (request, requests)
        };
        if !exempt {
            let waited = timeout(self.limits.client.queue, requests.acquire_owned()).await;
            request.permit = Some(
                waited
                    .map_err(|_| TooManyRequests)?
                    .map_err(|_| TooManyRequests)?,
            );
        }
        Ok(request)
    }
}

/// A request in progress; its part of the share is freed when this is dropped.
#[derive(Debug)]
pub(super) struct Request {
    shares: Shares,
    client: Client,
    permit: Option<OwnedSemaphorePermit>,
    streams: usize,
    unread: usize,
}

impl Request {
    /// Counts the bytes of the response that are in memory; `None` for a response of unknown length.
    pub(super) fn answer(&mut self, bytes: Option<usize>) -> Result<(), TooManyRequests> {
        let limits = &self.shares.limits;
        let mut all = self.shares.all.lock();
        let ClientTable { clients, unread } = &mut *all;
        let share = clients.get_mut(&self.client).ok_or(TooManyRequests)?;
        match bytes {
            None if share.streams >= limits.client.streams => return Err(TooManyRequests),
            None => {
                share.streams += 1;
                self.streams = 1;
                self.permit = None;
            }
            // what fits into the buffers of a connection
            Some(bytes) if bytes <= super::limits::CHUNK_BYTES => {}
            // the first one always goes, however large it is
            Some(bytes)
                if share.unread > 0 && share.unread + bytes > limits.client.unread_bytes =>
            {
                return Err(TooManyRequests);
            }
            Some(bytes) if *unread > 0 && *unread + bytes > limits.unread_bytes => {
                return Err(TooManyRequests);
            }
            Some(bytes) => {
                share.unread += bytes;
                *unread += bytes;
                self.unread = bytes;
            }
        }
        Ok(())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut all = self.shares.all.lock();
        all.unread -= self.unread;
        if let Some(share) = all.clients.get_mut(&self.client) {
            share.users -= 1;
            share.streams -= self.streams;
            share.unread -= self.unread;
            if share.users == 0 {
                all.clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::serve::ClientLimits;

    fn shares() -> Shares {
        let client = ClientLimits {
            requests: 2,
            queue: Duration::from_millis(20),
            streams: 1,
            unread_bytes: 300_000,
        };
        Shares::new(ServerLimits {
            client,
            unread_bytes: 500_000,
            ..ServerLimits::default()
        })
    }

    fn user(name: &str) -> Client {
        Client::User(name.to_owned())
    }

    #[tokio::test]
    async fn requests_of_one_client_wait_for_each_other_and_not_for_ever() {
        let shares = shares();
        let first = shares.begin(user("a"), false).await.unwrap();
        let mut second = shares.begin(user("a"), false).await.unwrap();
        assert_eq!(
            shares.begin(user("a"), false).await.unwrap_err(),
            TooManyRequests
        );
        assert!(
            shares.begin(user("b"), false).await.is_ok()
                && shares.begin(user("a"), true).await.is_ok()
        );
        second.answer(None).unwrap();
        let mut third = shares.begin(user("a"), false).await.unwrap();
        assert_eq!(
            third.answer(None),
            Err(TooManyRequests),
            "one watch is all that it may have"
        );
        drop((first, second, third));
        assert!(shares.all.lock().clients.is_empty());
    }

    #[tokio::test]
    async fn what_a_client_does_not_read_is_bounded() {
        let shares = shares();
        let answer = async |client: &str, bytes| {
            let mut request = shares.begin(user(client), true).await?;
            request.answer(Some(bytes)).map(|()| request)
        };
        let _held = [
            answer("a", 200_000).await.unwrap(),
            answer("a", 100_000).await.unwrap(),
        ];
        assert_eq!(
            answer("a", 10).await.unwrap_err(),
            TooManyRequests,
            "it is refused before anything is made"
        );
        let large = answer("b", 400_000).await;
        assert!(large.is_err(), "all clients have a bound, too");
        let held = answer("b", 150_000).await.unwrap();
        assert!(answer("c", 100_000).await.is_err() && answer("c", 60_000).await.is_ok());
        drop(_held);
        drop(held);
        assert!(
            answer("b", 900_000).await.is_ok(),
            "one answer is always given"
        );
        assert_eq!(shares.all.lock().unread, 0);
    }
}
