//! Questions that are with the node's resolvers: a bound for all, and one for each client, so that one that asks for much leaves room for
//! the others.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

/// Of all clients.
const ALL: usize = 512;
/// Of one client: a quarter, so that three of them leave room.
const OF_ONE: usize = ALL / 4;

/// The shares; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    all: usize,
    clients: HashMap<IpAddr, usize>,
}

/// A question's place; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place(Shares, IpAddr);

impl Shares {
    /// A place for a question of this client, where there is one.
    pub(super) fn admit(&self, client: IpAddr) -> Option<Place> {
        let mut table = self.0.lock();
        if table.all >= ALL {
            return None;
        }
        let own = table.clients.entry(client).or_default();
        if *own >= OF_ONE {
            return None;
        }
        *own += 1;
        table.all += 1;
        Some(Place(self.clone(), client))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.0.0.lock();
        table.all = table.all.saturating_sub(1);
        if let Some(own) = table.clients.get_mut(&self.1) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                table.clients.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_has_no_more_than_its_share() {
        let shares = Shares::default();
        let client = |number: u8| IpAddr::from([10, 0, 0, number]);
        let mut places: Vec<Place> = (0..OF_ONE).map(|_| shares.admit(client(1)).unwrap()).collect();
        assert!(shares.admit(client(1)).is_none());
        for number in 2..=4 {
            places.extend((0..OF_ONE).map(|_| shares.admit(client(number)).unwrap()));
        }
        assert!(shares.admit(client(5)).is_none());
        drop(places);
        assert!(shares.admit(client(1)).is_some());
        assert!(shares.0.lock().clients.is_empty());
    }
}
