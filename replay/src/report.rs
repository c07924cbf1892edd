//! Prints a comparison as text.

use record::Side;
use serde_json::Value;
use wire::text::printable_short;

use crate::compare::{Change, Comparison, Difference, Sort};

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
                "{} values were not compared: they are *** in one of the recordings\n",
                self.masked
            ));
        }
        let Some(first) = self.differences.first() else {
            text.push_str(&format!("no differences in {} messages\n", self.compared));
            return text;
        };
        text.push_str("first difference:\n");
        text.push_str(&first.to_text(names));
        if self.count() > 1 {
            text.push_str(&format!("\nall {} differences:\n", self.count()));
            for difference in &self.differences {
                text.push_str(&difference.to_text(names));
            }
        }
        if self.more > 0 {
            text.push_str(&format!("and {} more\n", self.more));
        }
        text
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
