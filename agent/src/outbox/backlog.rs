//! The messages on disk: chunks in the store, numbered in the order in which they came.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use objectstore::{Expect, Key, Page, Resource, Scope, Store, StoreError, Write};
use serde_json::{Value, json};
use tracing::warn;
use wire::Message;

use super::{GROUP, Limits};

/// The largest message: larger ones were never accepted.
const MAX_MESSAGE_BYTES: usize = wire::json::DEFAULT_LIMIT;

/// The most messages of a chunk to which others are added.
const MAX_OPEN_MESSAGES: usize = 64;
/// The most bytes of such a chunk: each change rewrites it.
const MAX_OPEN_BYTES: usize = 16 * 1024;
/// The number of the first chunk, with space for older ones.
const FIRST_CHUNK: u64 = 1 << 32;

/// The position of a new chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkPosition {
    /// Before all others.
    Front,
    /// After all others.
    Back,
}

/// The size of a chunk.
#[derive(Clone, Copy, Debug)]
struct Size {
    messages: usize,
    bytes: usize,
}

/// The chunks of one outbox.
#[derive(Debug)]
pub(super) struct Backlog {
    store: Arc<dyn Store>,
    resource: Resource,
    limits: Limits,
    chunks: BTreeMap<u64, Size>,
    /// The oldest chunk, if it was read: the messages of it that were not sent.
    oldest: Option<VecDeque<Message>>,
    /// The newest chunk, if more messages fit into it: its number and messages. Messages that come one by one would otherwise be
    /// chunks of their own, each of which is removed with a write of its own.
    open: Option<(u64, Vec<String>)>,
}

impl Backlog {
    /// Reads the chunks of an outbox.
    pub(super) async fn load(
        store: Arc<dyn Store>,
        what: &str,
        limits: Limits,
    ) -> Result<Self, StoreError> {
        let resource = Resource::new(GROUP, what);
        let scope = Scope {
            resource: resource.clone(),
            namespace: None,
        };
        let mut chunks = BTreeMap::new();
        for object in store.list(&scope, &Page::default()).await?.items {
            let Ok(number) = object.key.name.parse::<u64>() else {
                continue;
            };
            let messages = object.value()?["messages"].as_array().map_or(0, Vec::len);
            chunks.insert(
                number,
                Size {
                    messages,
                    bytes: object.json.len(),
                },
            );
        }
        Ok(Self {
            store,
            resource,
            limits,
            chunks,
            oldest: None,
            open: None,
        })
    }

    /// Reports whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the number of waiting messages.
    pub(super) fn len(&self) -> usize {
        let sent = match (&self.oldest, self.chunks.first_key_value()) {
            (Some(left), Some((_, size))) => size.messages.saturating_sub(left.len()),
            _ => 0,
        };
        self.chunks
            .values()
            .map(|size| size.messages)
            .sum::<usize>()
            .saturating_sub(sent)
    }

    /// Writes a chunk, and drops the oldest ones if there are too many; returns how many messages were dropped.
    pub(super) async fn push(
        &mut self,
        messages: &[String],
        place: ChunkPosition,
    ) -> Result<usize, StoreError> {
        let (number, messages) = self.chunk_for(messages, place);
        let value = json!({"metadata": {}, "messages": &messages});
        // as it is stored: a message is a string there, whose quotation marks and backslashes take two bytes
        let size = Size {
            messages: messages.len(),
            bytes: value.to_string().len(),
        };
        let (mut over, mut dropped) = (Vec::new(), 0);
        let others = || self.chunks.iter().filter(|(other, _)| **other != number);
        let all = others().map(|(_, size)| size).chain([&size]);
        let (mut count, mut bytes) = all.fold((0, 0), |(count, bytes), size| {
            (count + size.messages, bytes + size.bytes)
        });
        for (number, old) in others() {
            if count <= self.limits.messages && bytes <= self.limits.bytes {
                break;
            }
            // some messages of the oldest chunk may have been sent
            let left = self
                .oldest
                .as_ref()
                .filter(|_| over.is_empty())
                .map_or(old.messages, VecDeque::len);
            dropped += left;
            (count, bytes) = (count - old.messages, bytes - old.bytes);
            over.push(*number);
        }
        let mut writes = vec![Write {
            key: self.key(number),
            expect: Expect::Anything,
            value: Some(value),
        }];
        writes.extend(over.iter().map(|number| self.removal(*number)));
        self.store.commit(writes).await?;
        if !over.is_empty() || place == ChunkPosition::Front {
            // a few messages of the former oldest chunk may be sent once more
            self.oldest = None;
        }
        for number in &over {
            self.chunks.remove(number);
        }
        self.chunks.insert(number, size);
        if place == ChunkPosition::Back {
            let has_room = size.messages < MAX_OPEN_MESSAGES && size.bytes < MAX_OPEN_BYTES;
            self.open = has_room.then_some((number, messages));
        }
        Ok(dropped)
    }

    /// Returns the number of the chunk for new messages, and all that it holds then: the newest chunk if it has room and is not being
    /// sent, or a new one.
    fn chunk_for(&self, messages: &[String], place: ChunkPosition) -> (u64, Vec<String>) {
        let (first, last) = (
            self.chunks.keys().next().copied(),
            self.chunks.keys().next_back().copied(),
        );
        if place == ChunkPosition::Front {
            return (
                first.map_or(FIRST_CHUNK, |first| first.saturating_sub(1)),
                messages.to_vec(),
            );
        }
        match &self.open {
            Some((number, before))
                if last == Some(*number) && !(first == last && self.is_read()) =>
            {
                (*number, before.iter().chain(messages).cloned().collect())
            }
            _ => (
                last.map_or(FIRST_CHUNK, |last| last.saturating_add(1)),
                messages.to_vec(),
            ),
        }
    }

    /// Returns the oldest message; an empty chunk is removed.
    pub(super) async fn first(&mut self) -> Result<Option<Message>, StoreError> {
        loop {
            let Some(number) = self.chunks.keys().next().copied() else {
                return Ok(None);
            };
            let messages = match self.oldest.take() {
                Some(messages) => messages,
                None => self.read(number).await?,
            };
            if let Some(first) = messages.front().cloned() {
                self.oldest = Some(messages);
                return Ok(Some(first));
            }
            match self.store.commit(vec![self.removal(number)]).await {
                Ok(_) | Err(StoreError::Missing(_)) => {
                    self.chunks.remove(&number);
                }
                Err(error) => {
                    self.oldest = Some(messages);
                    return Err(error);
                }
            }
        }
    }

    /// Returns the message at this position in the oldest chunk, which was read; `None` if it has no more.
    pub(super) fn after_first(&self, number: usize) -> Option<Message> {
        self.oldest.as_ref()?.get(number).cloned()
    }

    /// Reports whether the oldest chunk is the one that was read.
    pub(super) fn is_read(&self) -> bool {
        self.oldest.is_some()
    }

    /// Removes the oldest message after it was sent.
    pub(super) fn remove_sent(&mut self) {
        self.oldest.as_mut().and_then(VecDeque::pop_front);
    }

    async fn read(&self, number: u64) -> Result<VecDeque<Message>, StoreError> {
        let value = match self.store.get(&self.key(number)).await {
            Ok(Some(object)) => object.value()?,
            Ok(None) => Value::Null,
            // its messages are lost, and must not block the others
            Err(StoreError::Damaged { key, .. }) => {
                warn!(chunk = %key, "queued messages for the cloud are damaged and lost");
                Value::Null
            }
            Err(error) => return Err(error),
        };
        let texts = value["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let messages = texts.filter_map(|text| {
            let read = wire::json::decode(text.as_bytes(), MAX_MESSAGE_BYTES);
            read.inspect_err(
                |error| warn!(%error, "cannot decode a queued message; message skipped"),
            )
            .ok()
        });
        Ok(messages.collect())
    }

    fn removal(&self, number: u64) -> Write {
        Write {
            key: self.key(number),
            expect: Expect::Anything,
            value: None,
        }
    }

    /// Returns the key of a chunk; names sort as their numbers.
    fn key(&self, number: u64) -> Key {
        Key::new(self.resource.clone(), "", format!("{number:020}"))
    }
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn bytes_on_disk_stay_within_the_limit_whatever_the_messages_hold() {
        const LIMIT: usize = 64 * 1024;
        let limits = Limits {
            messages: 10_000,
            bytes: LIMIT,
        };
        for content in ["x", "\"", "\\", "\u{1}", "\u{e9}"] {
            let store: Arc<dyn Store> = MemoryStore::new();
            let mut backlog = Backlog::load(Arc::clone(&store), "uploads", limits)
                .await
                .unwrap();
            let message = json!({"content": content.repeat(1000)}).to_string();
            let mut dropped = 0;
            for _ in 0..200 {
                dropped += backlog
                    .push(std::slice::from_ref(&message), ChunkPosition::Back)
                    .await
                    .unwrap();
            }
            let scope = Scope {
                resource: Resource::new(GROUP, "uploads"),
                namespace: None,
            };
            let stored = store.list(&scope, &Page::default()).await.unwrap().items;
            let bytes: usize = stored.iter().map(|object| object.json.len()).sum();
            // metadata, which the store adds, is not part of it
            let metadata = stored.len() * 200;
            assert!(
                bytes <= LIMIT + metadata && bytes > LIMIT / 2,
                "{content:?}: {bytes}"
            );
            assert_eq!(backlog.len() + dropped, 200, "{content:?}");
        }
    }
}
