//! The rules in force, indexed by what identifies their messages, and why other rules are not in force. Pure.

use std::{collections::BTreeSet, sync::Arc};

use clock::{HashMap, HashSet};
use crds::rules::{Rule, RuleEndpoint};
use kube::ResourceExt;
use mqtt::filter_matches;

use super::{
    check::{self, Source, Target},
    node_namespaces::NodeNamespaces,
};

/// The most URLs for applications of one node, which is the agent's limit …
const MAX_URLS: usize = 4096;
/// … of which the rules of one namespace have at most a quarter.
const MAX_URLS_OF_NAMESPACE: usize = MAX_URLS / 4;

/// A rule in force.
#[derive(Clone, Debug)]
pub(crate) struct ActiveRule {
    /// The uid of the rule.
    pub(super) uid: String,
    /// The namespace of the rule.
    pub(super) namespace: String,
    /// The name of the rule.
    pub(crate) name: String,
    /// The source of messages.
    pub(super) source: Source,
    /// The target of messages.
    pub(super) target: Target,
}

/// A subscription of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subscription {
    /// An MQTT topic, with its namespace.
    Topic(String),
    /// Calls of local applications for this URL.
    Url(String),
}

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By namespace and path.
    rest: HashMap<(String, String), Arc<ActiveRule>>,
    /// The longest of these paths, bytes.
    longest_path: usize,
    /// By node.
    topics: HashMap<String, Vec<Arc<ActiveRule>>>,
    /// By node and URL.
    urls: HashMap<(String, String), Arc<ActiveRule>>,
    /// The number of URLs of each namespace, by node.
    shares: HashMap<String, HashMap<String, usize>>,
    /// The namespaces whose rules may use a node, where the node's annotation names them.
    namespaces: NodeNamespaces,
    /// Why rules are not in force, by uid.
    problems: HashMap<String, String>,
    /// All rules, the oldest first.
    rules: Vec<Arc<Rule>>,
}

impl Table {
    /// Builds the table. Of two rules with the same source the older is in force.
    pub(super) fn new(
        mut rules: Vec<Arc<Rule>>,
        endpoints: &[Arc<RuleEndpoint>],
        namespaces: NodeNamespaces,
    ) -> Self {
        rules.sort_by_cached_key(|rule| {
            let created = rule.creation_timestamp().map(|time| time.0);
            (created, rule.namespace(), rule.name_any())
        });
        let endpoints: HashMap<_, _> = endpoints
            .iter()
            .map(|end| ((end.namespace().unwrap_or_default(), end.name_any()), end))
            .collect();
        let mut table = Self {
            namespaces,
            ..Self::default()
        };
        for rule in &rules {
            let namespace = rule.namespace().unwrap_or_default();
            let found = |name: &str| {
                let key = (namespace.clone(), name.to_owned());
                endpoints.get(&key).ok_or_else(|| {
                    format!("RuleEndpoint {name} not found in namespace {namespace}")
                })
            };
            let outcome = found(&rule.spec.source).and_then(|from| {
                let to = found(&rule.spec.target)?;
                if let Some(fault) = check::rule(&rule.spec, Some(&from.spec), Some(&to.spec))
                    .into_iter()
                    .next()
                {
                    return Err(format!("{}: {}", fault.field, fault.why));
                }
                let read = |fault: check::FieldError| format!("{}: {}", fault.field, fault.why);
                Ok((
                    check::source(&rule.spec, &from.spec).map_err(read)?,
                    check::target(&rule.spec, &to.spec).map_err(read)?,
                ))
            });
            let uid = rule.uid().unwrap_or_default();
            let added = outcome.and_then(|(source, target)| {
                table.add(ActiveRule {
                    uid: uid.clone(),
                    namespace,
                    name: rule.name_any(),
                    source,
                    target,
                })
            });
            if let Err(problem) = added {
                table.problems.insert(uid, problem);
            }
        }
        table.keep_topics_apart();
        table.rules = rules;
        table
    }

    fn add(&mut self, rule: ActiveRule) -> Result<(), String> {
        if let Source::EventBus { node, .. } | Source::ServiceBus { node, .. } = &rule.source {
            self.may_use(node, &rule.namespace)?;
        }
        let taken = |other: &ActiveRule| {
            Err(format!(
                "rule {}/{} is older and has the same source",
                other.namespace, other.name
            ))
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
                let same = |other: &&Arc<ActiveRule>| {
                    other.namespace == namespace && other.source == rule.source
                };
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
                let shares = self.shares.entry(node.clone()).or_default();
                if shares.values().sum::<usize>() >= MAX_URLS {
                    return Err(format!(
                        "programs of node {node} may call {MAX_URLS} URLs already"
                    ));
                }
                let own = shares.entry(namespace.clone()).or_default();
                if *own >= MAX_URLS_OF_NAMESPACE {
                    return Err(format!(
                        "programs of node {node} may call {MAX_URLS_OF_NAMESPACE} URLs of namespace {namespace} already"
                    ));
                }
                *own += 1;
                self.urls.insert(key, rule);
            }
        }
        Ok(())
    }

    /// Checks that rules of `namespace` may use `node`.
    ///
    /// # Errors
    /// Returns a text that names the annotation of the Node which decides that.
    pub(super) fn may_use(&self, node: &str, namespace: &str) -> Result<(), String> {
        self.namespaces.check(node, namespace)
    }

    /// Disables rules that publish on topics which rules of another namespace subscribe to: they could impersonate that namespace's
    /// programs and devices.
    fn keep_topics_apart(&mut self) {
        let Self {
            rest,
            topics,
            problems,
            ..
        } = self;
        let listening: HashSet<&str> = topics
            .values()
            .flatten()
            .map(|rule| rule.namespace.as_str())
            .collect();
        rest.retain(|_, rule| {
            let Target::EventBus { topic } = &rule.target else {
                return true;
            };
            let other = topic.split('/').next().unwrap_or_default();
            let is_own = other == rule.namespace || !listening.contains(other);
            if !is_own {
                let why =
                    format!("rules of namespace {other} take messages from topics below {other}/");
                problems.insert(rule.uid.clone(), why);
            }
            is_own
        });
    }

    /// Returns the rule for a request, and the rest of its path; the rule with the longest path wins.
    pub(super) fn rest<'a>(
        &self,
        namespace: &str,
        path: &'a str,
    ) -> Option<(Arc<ActiveRule>, &'a str)> {
        let mut end = path.len();
        loop {
            // the caller determines the length of the path
            if end <= self.longest_path {
                let key = (namespace.to_owned(), path[..end].to_owned());
                if let Some(rule) = self.rest.get(&key) {
                    return Some((Arc::clone(rule), path[end..].trim_start_matches('/')));
                }
            }
            end = path[..end].rfind('/')?;
        }
    }

    /// Returns the rules for a message of `node` on `topic`. Only rules with this node match.
    pub(super) fn topic(&self, node: &str, topic: &str) -> Vec<Arc<ActiveRule>> {
        let Some((namespace, rest)) = topic.split_once('/') else {
            return Vec::new();
        };
        let matches = |rule: &&Arc<ActiveRule>| {
            rule.namespace == namespace
                && matches!(&rule.source, Source::EventBus { topic, .. } if filter_matches(topic, rest))
        };
        self.topics
            .get(node)
            .into_iter()
            .flatten()
            .filter(matches)
            .map(Arc::clone)
            .collect()
    }

    /// Returns the rule for a call of `url` by an application on `node`.
    pub(super) fn url(&self, node: &str, url: &str) -> Option<Arc<ActiveRule>> {
        self.urls
            .get(&(node.to_owned(), url.to_owned()))
            .map(Arc::clone)
    }

    /// Returns the subscriptions of `node`.
    pub(super) fn subscriptions(&self, node: &str) -> BTreeSet<Subscription> {
        let topics = self
            .topics
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|rule| match &rule.source {
                Source::EventBus { topic, .. } => {
                    Some(Subscription::Topic(format!("{}/{topic}", rule.namespace)))
                }
                Source::Rest { .. } | Source::ServiceBus { .. } => None,
            });
        let urls = self
            .urls
            .keys()
            .filter(|(own, _)| own == node)
            .map(|(_, url)| Subscription::Url(url.clone()));
        topics.chain(urls).collect()
    }

    /// Returns every rule, with the reason if it is not in force.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<Rule>, Option<&String>)> {
        self.rules.iter().map(|rule| {
            (
                rule,
                self.problems
                    .get(rule.metadata.uid.as_deref().unwrap_or_default()),
            )
        })
    }
}

#[cfg(test)]
mod tests;
