//! Tests of [`super`].

use crds::rules::{RuleEndpointSpec, RuleEndpointType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    super::{
        node_namespaces::{ANNOTATION, NodeMetadata},
        tests::world::rule_spec,
    },
    *,
};

fn rule(
    namespace: &str,
    name: &str,
    from: (&str, &[(&str, &str)]),
    to: (&str, &[(&str, &str)]),
) -> Arc<Rule> {
    let mut rule = Rule::new(name, rule_spec(from, to));
    rule.metadata.namespace = Some(namespace.to_owned());
    rule.metadata.uid = Some(format!("{namespace}/{name}"));
    Arc::new(rule)
}

fn table(rules: Vec<Arc<Rule>>) -> Table {
    table_with(rules, &[])
}

/// The table with Nodes that have the annotation.
fn table_with(rules: Vec<Arc<Rule>>, nodes: &[(&str, &str)]) -> Table {
    use RuleEndpointType as T;
    let ends = ["default", "tenant"].iter().flat_map(|namespace| {
        [
            ("rest", T::Rest),
            ("mqtt", T::EventBus),
            ("http", T::ServiceBus),
        ]
        .map(|(name, kind)| {
            let properties = [("service_port".to_owned(), "80".to_owned())].into();
            let spec = RuleEndpointSpec {
                rule_endpoint_type: kind,
                properties,
            };
            let mut end = RuleEndpoint::new(name, spec);
            end.metadata.namespace = Some((*namespace).to_owned());
            Arc::new(end)
        })
    });
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(name, value)| {
            let mut node = NodeMetadata::default();
            node.metadata.name = Some((*name).to_owned());
            node.metadata.annotations = Some([(ANNOTATION.to_owned(), (*value).to_owned())].into());
            Arc::new(node)
        })
        .collect();
    Table::new(
        rules,
        &ends.collect::<Vec<_>>(),
        NodeNamespaces::new(&nodes),
    )
}

fn problem<'a>(table: &'a Table, uid: &str) -> Option<&'a str> {
    let (_, problem) = table
        .all()
        .find(|(rule, _)| rule.metadata.uid.as_deref() == Some(uid))
        .unwrap();
    problem.map(String::as_str)
}

#[test]
fn a_rule_does_not_speak_for_programs_of_another_namespace() {
    let publish = |namespace, name, topic| {
        rule(
            namespace,
            name,
            ("rest", &[("path", name)]),
            ("mqtt", &[("topic", topic)]),
        )
    };
    let readings = rule(
        "default",
        "readings",
        ("mqtt", &[("topic", "readings"), ("node_name", "n")]),
        ("rest", &[("resource", "http://a/")]),
    );
    let rules = vec![
        readings,
        publish("tenant", "forged", "default/readings"),
        publish("tenant", "suffix", "default"),
        publish("tenant", "own", "tenant/readings"),
        publish("tenant", "plain", "devices/led"),
        publish("default", "loop", "default/readings"),
    ];
    let table = table(rules);
    let why = Some("rules of namespace default take messages from topics below default/");
    assert_eq!(problem(&table, "tenant/forged"), why);
    assert_eq!(problem(&table, "tenant/suffix"), why);
    assert!(
        table.rest("tenant", "forged").is_none()
            && table.rest("tenant", "suffix/readings").is_none()
    );
    for uid in [
        "tenant/own",
        "tenant/plain",
        "default/loop",
        "default/readings",
    ] {
        assert_eq!(problem(&table, uid), None, "{uid}");
    }
}

#[test]
fn one_namespace_does_not_take_all_urls_of_a_node() {
    let call = |namespace: &str, node: &str, number: usize| {
        let (name, url) = (
            format!("{node}-{number:04}"),
            format!("http://{namespace}/{number}"),
        );
        let from = [("target_url", url.as_str()), ("node_name", node)];
        rule(
            namespace,
            &name,
            ("http", &from),
            ("rest", &[("resource", "http://a/")]),
        )
    };
    let mut rules: Vec<_> = (0..1025)
        .map(|number| call("tenant", "n", number))
        .collect();
    rules.extend([call("tenant", "m", 0), call("default", "n", 0)]);
    let table = table(rules);
    assert_eq!(table.subscriptions("n").len(), 1025);
    let why = "programs of node n may call 1024 URLs of namespace tenant already";
    assert_eq!(problem(&table, "tenant/n-1024"), Some(why));
    for uid in ["tenant/n-1023", "tenant/m-0000", "default/n-0000"] {
        assert_eq!(problem(&table, uid), None, "{uid}");
    }
}

/// The program of a node would speak to whoever was quicker to write a rule.
#[test]
fn an_older_rule_of_a_namespace_that_may_not_use_a_node_takes_no_url_there() {
    let call = |namespace: &str, node: &str| {
        let from = [("target_url", "http://orders/x"), ("node_name", node)];
        rule(
            namespace,
            &format!("call-{node}"),
            ("http", &from),
            ("rest", &[("resource", "http://a/")]),
        )
    };
    let listen = |namespace: &str| {
        let from = [("topic", "readings"), ("node_name", "n")];
        rule(
            namespace,
            "listen",
            ("mqtt", &from),
            ("rest", &[("resource", "http://a/")]),
        )
    };
    let mut theirs = Arc::unwrap_or_clone(call("tenant", "n"));
    theirs.metadata.creation_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let mut own = Arc::unwrap_or_clone(call("default", "n"));
    own.metadata.creation_timestamp = Some(Time(jiff::Timestamp::MAX));
    let (theirs, own) = (Arc::new(theirs), Arc::new(own));
    let rules = || {
        vec![
            theirs.clone(),
            own.clone(),
            listen("tenant"),
            listen("default"),
            call("tenant", "m"),
        ]
    };
    let owner = |table: &Table| {
        table
            .url("n", "http://orders/x")
            .map(|rule| rule.namespace.clone())
    };
    assert_eq!(
        owner(&table(rules())).as_deref(),
        Some("tenant"),
        "without the annotation the older one"
    );

    let table = table_with(rules(), &[("n", " kube-system, default"), ("o", "")]);
    assert_eq!(owner(&table).as_deref(), Some("default"));
    for uid in ["tenant/call-n", "tenant/listen"] {
        let why = "rules of namespace tenant may not use node n: the annotation node-restriction.kubernetes.io/rule-namespaces of the \
                   Node does not name it";
        assert_eq!(problem(&table, uid), Some(why), "{uid}");
    }
    for uid in ["default/call-n", "default/listen", "tenant/call-m"] {
        assert_eq!(problem(&table, uid), None, "{uid}");
    }
    let told = [
        Subscription::Topic("default/readings".into()),
        Subscription::Url("http://orders/x".into()),
    ];
    assert_eq!(table.subscriptions("n"), told.into());
    assert!(table.topic("n", "tenant/readings").is_empty());
    assert!(
        table.may_use("o", "default").is_err(),
        "an empty annotation names no namespace"
    );
    assert_eq!(table.may_use("m", "tenant"), Ok(()));
}
