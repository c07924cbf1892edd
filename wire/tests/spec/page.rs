//! The tables of the page on the protocol.

use wire::{
    kind::{Content, DOWN, MessageKind, Resent, UP, schema::Schemas},
    topic::{DEVICE, DeviceTopic, NODE, NodeTopic},
    tunnel::Kind,
};

use super::{hub, mqtt};

/// Returns the page with each table at the end of its section.
pub(super) fn with_tables(page: &str) -> String {
    let tables = [
        ("Messages of the cloud", messages(DOWN, true)),
        ("Messages of the edge", messages(UP, false)),
        ("Stream tunnel", tunnel()),
        ("MQTT topics", topics()),
    ];
    tables
        .into_iter()
        .fold(page.to_owned(), |page, (name, table)| {
            let start = format!("\n## {name}\n");
            let (before, rest) = page
                .split_once(&start)
                .unwrap_or_else(|| panic!("no section {name:?}"));
            let end = rest.find("\n## ").unwrap_or(rest.len());
            let text: Vec<&str> = rest[..end]
                .lines()
                .filter(|line| !line.starts_with('|'))
                .collect();
            let text = text.join("\n");
            let blank = if text.trim().is_empty() { "" } else { "\n\n" };
            let text = text.trim();
            format!("{before}{start}\n{text}{blank}{table}{}", &rest[end..])
        })
}

fn code<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    all.join(" ")
}

fn messages<F>(table: &[MessageKind<F>], is_down: bool) -> String {
    let mut text =
        String::from("| message | route | content | answer | KubeEdge |\n|---|---|---|---|---|\n");
    for kind in table {
        let Some(versions) = hub::versions(kind.users) else {
            continue;
        };
        let any = |text: String, other: &str| {
            if text.is_empty() || text == "``" {
                other.to_owned()
            } else {
                text
            }
        };
        let source = any(
            code(kind.sources.iter().map(|word| word.as_str())),
            "any source",
        );
        let group = any(
            code(kind.group.iter().map(|word| word.as_str())),
            "any group",
        );
        let operations = any(
            code(kind.operations.iter().map(|word| word.as_str())),
            "any operation",
        );
        let resource = any(format!("`{}`", kind.resource.pattern()), "no resource");
        let contents: Vec<String> = kind.content.iter().map(Content::summary).collect();
        let replies = if is_down && hub::is_acknowledged(kind) {
            "`acknowledgement`".to_owned()
        } else {
            any(code(kind.replies.iter().copied()), "none")
        };
        let again = if kind.resent == Resent::Never {
            String::new()
        } else {
            format!("; sent again {}", hub::resent(kind, is_down))
                .replace("again never; ", "once; ")
        };
        text.push_str(&format!(
            "| **{}**: {} | {source} → {group}, {operations}, {resource} | {} | {replies}{again} | {versions} |\n",
            kind.name,
            kind.summary,
            contents.join(", or "),
        ));
    }
    text
}

fn tunnel() -> String {
    let mut text = String::from("| number | type | sent by | purpose |\n|---|---|---|---|\n");
    for kind in Kind::ALL {
        text.push_str(&format!(
            "| {} | {kind:?} | {} | {} |\n",
            kind.number(),
            kind.sender(),
            kind.summary()
        ));
    }
    text
}

fn topics() -> String {
    let mut schemas = Schemas::default();
    let mut text = String::from("| topic | published by | purpose |\n|---|---|---|\n");
    let by = |is_agents: bool| {
        if is_agents {
            "agent"
        } else {
            "mappers, applications"
        }
    };
    for topic in DeviceTopic::ALL {
        let (is_agents, _) = mqtt::device(*topic, &mut schemas);
        text.push_str(&format!(
            "| `{DEVICE}{{device}}/{}` | {} | {} |\n",
            topic.as_str(),
            by(is_agents),
            topic.summary()
        ));
    }
    for topic in NodeTopic::ALL {
        let (is_agents, _) = mqtt::node(*topic, &mut schemas);
        text.push_str(&format!(
            "| `{NODE}{{node}}/{}` | {} | {} |\n",
            topic.as_str(),
            by(is_agents),
            topic.summary()
        ));
    }
    text
}
