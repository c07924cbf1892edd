//! Prints a comparison as text.

use record::Side;
use serde_json::Value;
use wire::text::{count, printable_short};

use crate::{
    compare::{Change, Comparison, Difference, Sort},
    player::Outcome,
};

/// A longer value is cut in text, characters.
const MAX_TEXT: usize = 200;

impl Comparison {
    /// Reports whether there is no difference.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty()
    }

    /// Returns the number of differences.
    pub fn count(&self) -> u64 {
        self.more
            .saturating_add(u64::try_from(self.differences.len()).unwrap_or(u64::MAX))
    }

    /// Returns a text with the first difference, then all. `names` are those of the two recordings.
    pub fn to_text(&self, names: [&str; 2]) -> String {
        let mut text = String::new();
        if self.masked > 0 {
            text.push_str(&format!(
                "not compared, since they are *** in one of the recordings: {}\n",
                wire::text::count(self.masked, "value")
            ));
        }
        let Some(first) = self.differences.first() else {
            text.push_str(&format!("no differences in {} messages\n", self.compared));
            return text;
        };
        text.push_str("first difference:\n");
        text.push_str(&first.to_text(names));
        if let others @ 1.. = self.count() - 1 {
            let others = count(others, "further difference");
            text.push_str(&format!("\n{others}:\n"));
            for difference in &self.differences[1..] {
                text.push_str(&difference.to_text(names));
            }
        }
        if self.more > 0 {
            text.push_str(&format!("and {} more\n", self.more));
        }
        text
    }
}

impl Outcome {
    /// Reports whether the other side responded as in the recording, and everything was sent.
    pub fn is_same(&self) -> bool {
        self.comparison.is_same() && self.unsent.is_empty() && self.ended.is_none()
    }

    /// Returns a text with the differences, and what was not replayed. `names` are those of the recording and the replay.
    pub fn to_text(&self, names: [&str; 2]) -> String {
        let mut text = format!("{} sent\n", count(self.sent, "message"));
        if let Some(why) = &self.ended {
            text.push_str(&format!("the connection ended before the replay: {why}\n"));
        }
        if let Some(first) = self.unsent.first() {
            let messages = count(self.unsent.len() as u64, "message");
            text.push_str(&format!(
                "{messages} not sent, from {} frame {first}: a message that they depend on did not arrive\n",
                names[0]
            ));
        }
        text + &self.comparison.to_text(names)
    }
}

impl Difference {
    /// Returns a line for the message, and one for each value that differs.
    pub fn to_text(&self, names: [&str; 2]) -> String {
        let frame = |frame: Option<u64>, name: &str| match frame {
            Some(number) => format!("{name} frame {number}"),
            None => format!("not in {name}"),
        };
        let sort = match self.sort {
            Sort::Missing => "missing",
            Sort::Additional => "additional",
            Sort::Order => "order",
            Sort::Content => "content",
        };
        let from = match self.from {
            Side::Edge => "edge",
            Side::Cloud => "cloud",
        };
        let subject = [&self.node, self.kind, &self.operation, &self.resource]
            .map(printable_short)
            .join(" ");
        let name = names[usize::from(self.first.is_none())];
        let answers = self.answers.map_or(String::new(), |number| {
            format!("; answers {name} frame {number}")
        });
        let mut text = format!(
            "{sort:<10} {from:<5} {}  ({}, {}{answers})\n",
            subject.trim_end(),
            frame(self.first, names[0]),
            frame(self.second, names[1])
        );
        for change in &self.changes {
            text.push_str(&change.to_text());
        }
        text
    }
}

impl Change {
    fn to_text(&self) -> String {
        let text = |value: &Option<Value>| {
            let text = value
                .as_ref()
                .map_or("(absent)".to_owned(), Value::to_string);
            match text.char_indices().nth(MAX_TEXT) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        format!(
            "  {}\n    - {}\n    + {}\n",
            self.path,
            text(&self.first),
            text(&self.second)
        )
    }
}
