//! Answers of the node's resolvers, cached for their TTL. They are stored as packets and limited by their bytes, since the owner of a
//! domain decides how large its answers are.

use std::time::Duration;

use clock::Instant;

use bytes::Bytes;
use hickory_resolver::proto::{
    op::{Message, OpCode},
    rr::{Name, RecordType},
};

use super::message::LookupResult;

/// The most bytes of all answers together.
const CAPACITY: usize = 4 * 1024 * 1024;
/// The longest answer that is cached, bytes …
const MAX_LENGTH: usize = 4096;
/// … and the most records that it may have, which take many times their bytes once they are decoded.
const MAX_RECORDS: usize = 64;
/// Roughly what an answer takes besides its packet and its name, bytes.
const OVERHEAD: usize = 512;
/// The longest time for which an answer is cached, whatever its TTL …
const MAX_TTL: Duration = Duration::from_secs(3600);
/// … and for a negative answer.
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(300);

/// The name and type of a query.
type Key = (Name, RecordType);

/// The cache; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Cache(moka::sync::Cache<Key, Entry>);

/// A cached answer.
#[derive(Clone, Debug)]
struct Entry {
    packet: Bytes,
    since: Instant,
    ttl: Duration,
}

impl Default for Cache {
    fn default() -> Self {
        let weight = |(name, _): &Key, entry: &Entry| {
            u32::try_from(name.len() + entry.packet.len() + OVERHEAD).unwrap_or(u32::MAX)
        };
        let builder = moka::sync::Cache::builder()
            .weigher(weight)
            .max_capacity(CAPACITY as u64);
        Self(builder.time_to_live(MAX_TTL).build())
    }
}

impl Cache {
    /// Returns the cached answer, with its remaining TTL.
    pub(super) fn get(&self, name: &Name, kind: RecordType, now: Instant) -> Option<LookupResult> {
        let key = (name.clone(), kind);
        let entry = self.0.get(&key)?;
        let age = now.saturating_duration_since(entry.since);
        if age >= entry.ttl {
            self.0.invalidate(&key);
            return None;
        }
        let message = Message::from_vec(&entry.packet).ok()?;
        let mut result = LookupResult {
            answers: message.answers,
            authorities: message.authorities,
            code: message.metadata.response_code,
        };
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        for record in result.answers.iter_mut().chain(&mut result.authorities) {
            record.decrement_ttl(age);
        }
        Some(result)
    }

    /// Caches an answer for the shortest TTL of its records, a negative one for `negative` seconds, unless it is too large.
    pub(super) fn insert(
        &self,
        (name, kind): (Name, RecordType),
        result: &LookupResult,
        negative: Option<u32>,
        now: Instant,
    ) {
        let seconds = result.answers.iter().map(|record| record.ttl).min();
        let ttl = match seconds {
            Some(seconds) => Duration::from_secs(seconds.into()).min(MAX_TTL),
            None => Duration::from_secs(negative.unwrap_or_default().into()).min(MAX_NEGATIVE_TTL),
        };
        if ttl.is_zero() || result.answers.len() + result.authorities.len() > MAX_RECORDS {
            return;
        }
        let mut message = Message::response(0, OpCode::Query);
        message.metadata.response_code = result.code;
        message.answers.clone_from(&result.answers);
        message.authorities.clone_from(&result.authorities);
        if let Ok(packet) = message.to_vec()
            && packet.len() <= MAX_LENGTH
        {
            self.0.insert(
                (name, kind),
                Entry {
                    packet: packet.into(),
                    since: now,
                    ttl,
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hickory_resolver::proto::{
        op::ResponseCode,
        rr::{
            RData, Record,
            rdata::{A, TXT},
        },
    };

    use super::*;

    fn name(number: u32) -> Name {
        Name::from_ascii(format!("b{number}.evil.example.")).unwrap()
    }

    fn positive(answers: Vec<Record>) -> LookupResult {
        LookupResult {
            answers,
            authorities: Vec::new(),
            code: ResponseCode::NoError,
        }
    }

    fn addresses(number: u32) -> LookupResult {
        let address = |last| RData::A(A(Ipv4Addr::from(last)));
        positive(
            (0..number)
                .map(|last| Record::from_rdata(name(0), 60, address(last)))
                .collect(),
        )
    }

    fn text(length: usize) -> LookupResult {
        let text = TXT::new(vec!["x".repeat(200); length / 200]);
        positive(vec![Record::from_rdata(name(0), 3600, RData::TXT(text))])
    }

    fn keep(cache: &Cache, number: u32, result: &LookupResult) -> Option<LookupResult> {
        let now = Instant::now();
        cache.insert((name(number), RecordType::A), result, None, now);
        cache.get(&name(number), RecordType::A, now)
    }

    #[test]
    fn large_answers_are_not_kept() {
        let cache = Cache::default();
        assert_eq!(
            keep(&cache, 1, &addresses(64)).unwrap().answers,
            addresses(64).answers
        );
        assert!(keep(&cache, 2, &addresses(65)).is_none());
        assert!(keep(&cache, 3, &text(4000)).is_some());
        assert!(keep(&cache, 4, &text(4200)).is_none());
    }

    /// 1,200 names, each with the longest answer that is kept.
    #[test]
    fn all_answers_together_have_a_bound_of_bytes() {
        let cache = Cache::default();
        let answer = text(4000);
        for number in 0..1200 {
            keep(&cache, number, &answer);
        }
        cache.0.run_pending_tasks();
        let bytes: usize = cache.0.iter().map(|(_, entry)| entry.packet.len()).sum();
        assert!((CAPACITY / 2..=CAPACITY).contains(&bytes), "{bytes}");
    }

    #[test]
    fn answers_count_as_long_as_they_say() {
        let (cache, begin) = (Cache::default(), Instant::now());
        let seconds = Duration::from_secs;
        let key = |number| (name(number), RecordType::A);
        cache.insert(key(1), &addresses(2), None, begin);
        let later = cache
            .get(&name(1), RecordType::A, begin + seconds(20))
            .unwrap();
        assert!(
            later.answers.iter().all(|record| record.ttl == 40),
            "{later:?}"
        );
        assert!(cache.get(&name(1), RecordType::AAAA, begin).is_none());
        assert!(
            cache
                .get(&name(1), RecordType::A, begin + seconds(60))
                .is_none()
        );
        // a negative one says it for itself, and has a bound of its own
        let none = LookupResult {
            answers: Vec::new(),
            authorities: Vec::new(),
            code: ResponseCode::NXDomain,
        };
        cache.insert(key(2), &none, Some(86_400), begin);
        let code = |age| {
            cache
                .get(&name(2), RecordType::A, begin + age)
                .map(|result| result.code)
        };
        assert_eq!(code(seconds(299)), Some(ResponseCode::NXDomain));
        assert_eq!(code(seconds(300)), None);
        cache.insert(key(3), &none, None, begin);
        assert!(cache.get(&name(3), RecordType::A, begin).is_none());
    }
}
