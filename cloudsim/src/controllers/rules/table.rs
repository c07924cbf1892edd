//! The rules that are in force, found by what a message says of itself; and why others are not. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crds::rules::{Rule, RuleEndpoint};
use kube::ResourceExt;
use mqtt::filter_matches;

use super::check::{self, Source, Target};

/// A rule that is in force.
#[derive(Clone, Debug)]
pub(crate) struct ActiveRule {
    /// The object's uid.
    pub(super) uid: String,
    /// Its namespace.
    pub(super) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Where messages come from.
    pub(super) source: Source,
    /// Where they go.
    pub(super) target: Target,
}

/// What a node is told to listen to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subscription {
    /// The MQTT topic, with its namespace.
    Topic(String),
    /// Calls of local applications for this URL.
    Url(String),
}

/// Every rule, as it was last built.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By namespace and path.
    rest: HashMap<(String, String), Arc<ActiveRule>>,
    /// The longest path of these, bytes.
    longest_path: usize,
    /// By node.
    topics: HashMap<String, Vec<Arc<ActiveRule>>>,
    /// By node and URL.
    urls: HashMap<(String, String), Arc<ActiveRule>>,
    /// Why a rule is not in force, by its uid.
    problems: HashMap<String, String>,
    /// All of them, the older first.
    rules: Vec<Arc<Rule>>,
}

impl Table {
    /// From what there is. Of two rules with the same source the older is in force.
    pub(super) fn new(mut rules: Vec<Arc<Rule>>, endpoints: &[Arc<RuleEndpoint>]) -> Self {
        rules.sort_by_cached_key(|rule| {
            let created = rule.creation_timestamp().map(|time| time.0);
            (created, rule.namespace(), rule.name_any())
        });
        let endpoints: HashMap<_, _> = endpoints
            .iter()
            .map(|end| ((end.namespace().unwrap_or_default(), end.name_any()), end))
            .collect();
        let mut table = Self::default();
        for rule in &rules {
            let namespace = rule.namespace().unwrap_or_default();
            let found = |name: &str| {
                let key = (namespace.clone(), name.to_owned());
                endpoints
                    .get(&key)
                    .ok_or_else(|| format!("there is no RuleEndpoint {name} in namespace {namespace}"))
            };
            let outcome = found(&rule.spec.source).and_then(|from| {
                let to = found(&rule.spec.target)?;
                if let Some(fault) =
                    check::rule(&rule.spec, Some(&from.spec), Some(&to.spec)).into_iter().next()
                {
                    return Err(format!("{}: {}", fault.field, fault.why));
                }
                let read = |fault: check::Fault| format!("{}: {}", fault.field, fault.why);
                Ok((
                    check::source(&rule.spec, &from.spec).map_err(read)?,
                    check::target(&rule.spec, &to.spec).map_err(read)?,
                ))
            });
            let uid = rule.uid().unwrap_or_default();
            let added = outcome.and_then(|(source, target)| {
                table.add(ActiveRule { uid: uid.clone(), namespace, name: rule.name_any(), source, target })
            });
            if let Err(problem) = added {
                table.problems.insert(uid, problem);
            }
        }
        table.rules = rules;
        table
    }

    fn add(&mut self, rule: ActiveRule) -> Result<(), String> {
        let taken = |other: &ActiveRule| {
            Err(format!("rule {}/{} is older and has the same source", other.namespace, other.name))
        };
        let rule = Arc::new(rule);
        let namespace = rule.namespace.clone();
        match &rule.source {
            Source::Rest { path } => {
                let key = (namespace, path.clone());
                if let Some(other) = self.rest.get(&key) {
                    return taken(other);
                }
                self.longest_path = self.longest_path.max(path.len());
                self.rest.insert(key, rule);
            }
            Source::EventBus { node, .. } => {
                let same =
                    |other: &&Arc<ActiveRule>| other.namespace == namespace && other.source == rule.source;
                let all = self.topics.entry(node.clone()).or_default();
                if let Some(other) = all.iter().find(same) {
                    return taken(other);
                }
                all.push(rule);
            }
            Source::ServiceBus { node, url } => {
                let key = (node.clone(), url.clone());
                if let Some(other) = self.urls.get(&key) {
                    return taken(other);
                }
                self.urls.insert(key, rule);
            }
        }
        Ok(())
    }

    /// The rule for a request, and what of its path is beyond the rule's; the longest path counts.
    pub(super) fn rest<'a>(&self, namespace: &str, path: &'a str) -> Option<(Arc<ActiveRule>, &'a str)> {
        let mut end = path.len();
        loop {
            // whoever calls makes the path as long as he likes
            if end <= self.longest_path {
                let key = (namespace.to_owned(), path[..end].to_owned());
                if let Some(rule) = self.rest.get(&key) {
                    return Some((Arc::clone(rule), path[end..].trim_start_matches('/')));
                }
            }
            end = path[..end].rfind('/')?;
        }
    }

    /// The rules for a message of `node` on `topic`. A node's messages meet no rules but those that name it.
    pub(super) fn topic(&self, node: &str, topic: &str) -> Vec<Arc<ActiveRule>> {
        let Some((namespace, rest)) = topic.split_once('/') else { return Vec::new() };
        let matches = |rule: &&Arc<ActiveRule>| {
            rule.namespace == namespace
                && matches!(&rule.source, Source::EventBus { topic, .. } if filter_matches(topic, rest))
        };
        self.topics.get(node).into_iter().flatten().filter(matches).map(Arc::clone).collect()
    }

    /// The rule for a call of an application of `node` for `url`.
    pub(super) fn url(&self, node: &str, url: &str) -> Option<Arc<ActiveRule>> {
        self.urls.get(&(node.to_owned(), url.to_owned())).map(Arc::clone)
    }

    /// What `node` is to listen to.
    pub(super) fn subscriptions(&self, node: &str) -> BTreeSet<Subscription> {
        let topics = self.topics.get(node).into_iter().flatten().filter_map(|rule| match &rule.source {
            Source::EventBus { topic, .. } => {
                Some(Subscription::Topic(format!("{}/{topic}", rule.namespace)))
            }
            Source::Rest { .. } | Source::ServiceBus { .. } => None,
        });
        let urls =
            self.urls.keys().filter(|(own, _)| own == node).map(|(_, url)| Subscription::Url(url.clone()));
        topics.chain(urls).collect()
    }

    /// Every rule, with why it is not in force.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<Rule>, Option<&String>)> {
        self.rules
            .iter()
            .map(|rule| (rule, self.problems.get(rule.metadata.uid.as_deref().unwrap_or_default())))
    }
}
