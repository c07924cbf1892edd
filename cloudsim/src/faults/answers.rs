//! Faults of the enrolment server's answers: bodies that no client may read to their end.

use std::{str::FromStr, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use hyper::body::Frame;
use kubeapi::BoxError;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::sleep};

/// The size of one chunk of an endless answer, bytes.
const CHUNK_BYTES: usize = 16 * 1024;
/// The pause between two bytes of a slow answer: too short for a timeout between bytes, too long for any use.
const SLOW_BYTE_INTERVAL: Duration = Duration::from_millis(500);

/// How the enrolment server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answers {
    /// Correctly.
    #[default]
    Genuine,
    /// With a body that never ends, sent as fast as it is read (CVE-2022-31080, which concerns every client).
    Endless,
    /// With a body that is sent byte by byte and never ends.
    Slow,
}

/// There is no fault of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown response fault {0:?}; choose one of genuine, endless, slow")]
pub struct UnknownAnswers(String);

impl Answers {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Genuine, Self::Endless, Self::Slow];

    /// Returns the name of the value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Genuine => "genuine",
            Self::Endless => "endless",
            Self::Slow => "slow",
        }
    }
}

impl FromStr for Answers {
    type Err = UnknownAnswers;

    fn from_str(text: &str) -> Result<Self, UnknownAnswers> {
        let found = Self::ALL
            .into_iter()
            .find(|answers| answers.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownAnswers(text.chars().take(40).collect()))
    }
}

/// Returns the body of a false answer, for as long as `now` keeps its value; `None` if answers are genuine.
pub(crate) fn body(
    now: watch::Receiver<Answers>,
) -> Option<impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send + 'static> {
    let answers = *now.borrow();
    let (part, pause) = match answers {
        Answers::Genuine => return None,
        Answers::Endless => (CHUNK_BYTES, Duration::ZERO),
        Answers::Slow => (1, SLOW_BYTE_INTERVAL),
    };
    let part = Bytes::from(vec![b'0'; part]);
    Some(stream::unfold(now, move |now| {
        let part = part.clone();
        async move {
            if pause > Duration::ZERO {
                sleep(pause).await;
            }
            let holds = *now.borrow() == answers;
            // ended with an error, or what has arrived would be taken for the whole answer
            let next: Result<_, BoxError> = if holds {
                Ok(Frame::data(part))
            } else {
                Err("the answer was false".into())
            };
            Some((next, now))
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name() {
        let said = UnknownAnswers(String::new()).to_string();
        for answers in Answers::ALL {
            assert_eq!(answers.name().parse(), Ok(answers));
            assert_eq!(serde_json::to_value(answers).unwrap(), answers.name());
            assert!(said.contains(answers.name()), "{said}");
        }
    }
}
