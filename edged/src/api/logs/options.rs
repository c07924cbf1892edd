//! The options of a log request, `PodLogOptions`. Pure.

use jiff::{SignedDuration, Timestamp};

use crate::api::route::{boolean, values};

/// Which lines of a log are returned, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whether the response waits for new lines.
    pub(crate) follow: bool,
    /// Whether the log of the previous instance of the container is returned.
    pub(crate) previous: bool,
    /// Whether each line begins with its time.
    pub(crate) timestamps: bool,
    /// Only lines written at or after this time are returned.
    pub(crate) since: Option<Timestamp>,
    /// How many records from the end of the file are returned.
    pub(crate) tail: Option<u64>,
    /// Maximum number of bytes to return.
    pub(crate) limit: Option<u64>,
}

/// Why a query is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadQuery {
    /// A value does not have its type: answered with 400.
    Undecodable,
    /// A value is out of range or contradicts another: answered with 422.
    Invalid,
}

impl Options {
    /// Parses an encoded query.
    pub(super) fn of(query: &str, now: Timestamp) -> Result<Self, BadQuery> {
        let number = |key: &str| -> Result<Option<i64>, BadQuery> {
            let value = values(query, key)
                .into_iter()
                .next()
                .filter(|value| !value.is_empty());
            value
                .map(|value| value.parse().map_err(|_| BadQuery::Undecodable))
                .transpose()
        };
        let at_least = |least: u64, value: Option<i64>| -> Result<Option<u64>, BadQuery> {
            let fits = |value: i64| u64::try_from(value).ok().filter(|value| *value >= least);
            value
                .map(|value| fits(value).ok_or(BadQuery::Invalid))
                .transpose()
        };
        // `tail` is the older name of `tailLines`; its value `all` means no limit
        let tail = match values(query, "tail").first().map(String::as_str) {
            Some("all") => None,
            Some(_) => number("tail")?,
            None => number("tailLines")?,
        };
        let seconds = at_least(1, number("sinceSeconds")?)?;
        let time = values(query, "sinceTime")
            .into_iter()
            .next()
            .filter(|time| !time.is_empty());
        let time = time
            .map(|time| time.parse::<Timestamp>().map_err(|_| BadQuery::Undecodable))
            .transpose()?;
        if seconds.is_some() && time.is_some() {
            return Err(BadQuery::Invalid);
        }
        let ago = |seconds: u64| {
            let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            now.checked_sub(ago).unwrap_or(Timestamp::MIN)
        };
        Ok(Self {
            follow: boolean(query, "follow"),
            previous: boolean(query, "previous"),
            timestamps: boolean(query, "timestamps"),
            since: time.or(seconds.map(ago)),
            tail: at_least(0, tail)?,
            limit: at_least(1, number("limitBytes")?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_and_impossible_ones_refused() {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let query =
            "follow=true&previous=1&timestamps=true&sinceSeconds=60&tailLines=3&limitBytes=100";
        let expected = Options {
            follow: true,
            previous: true,
            timestamps: true,
            since: Some("2026-11-26T11:59:00Z".parse().unwrap()),
            tail: Some(3),
            limit: Some(100),
        };
        assert_eq!(Options::of(query, now), Ok(expected));
        assert_eq!(Options::of("", now), Ok(Options::default()));
        assert_eq!(
            Options::of("tail=all&tailLines=3", now),
            Ok(Options::default())
        );
        let of = |query: &str| Options::of(query, now).unwrap();
        assert_eq!(
            of("sinceTime=2026-11-26T10%3A00%3A00Z").since,
            Some("2026-11-26T10:00:00Z".parse().unwrap())
        );
        assert_eq!(
            of("sinceSeconds=9223372036854775807").since,
            Some(Timestamp::MIN)
        );
        assert_eq!(of("tailLines=0").tail, Some(0));
        for query in ["tailLines=x", "sinceTime=yesterday", "limitBytes=1.5"] {
            assert_eq!(
                Options::of(query, now),
                Err(BadQuery::Undecodable),
                "{query}"
            );
        }
        for query in [
            "tailLines=-1",
            "limitBytes=0",
            "sinceSeconds=0",
            "sinceSeconds=1&sinceTime=2026-11-26T10:00:00Z",
        ] {
            assert_eq!(Options::of(query, now), Err(BadQuery::Invalid), "{query}");
        }
    }
}
