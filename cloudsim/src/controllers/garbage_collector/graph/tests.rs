//! Tests of [`super`].

use super::*;

fn node(uid: &str, owners: &[&str]) -> Node {
    let owner = |uid: &&str| Owner {
        api_version: "v1".into(),
        kind: "X".into(),
        name: (*uid).into(),
        uid: (*uid).into(),
        blocks: true,
    };
    Node {
        kind: 0,
        namespace: "n".into(),
        name: uid.into(),
        uid: uid.into(),
        owners: owners.iter().map(owner).collect(),
        deleting: false,
        finalizers: Vec::new(),
    }
}

fn deleting(uid: &str, owners: &[&str], finalizer: &str) -> Node {
    Node {
        deleting: true,
        finalizers: vec![finalizer.into()],
        ..node(uid, owners)
    }
}

fn graph(nodes: Vec<Node>) -> Graph {
    let mut graph = Graph::default();
    for node in nodes {
        graph.apply(node);
    }
    graph
}

fn decide(graph: &Graph, uid: &str) -> Decision {
    graph.decide(uid, &HashSet::from_iter(["none".to_owned()]))
}

#[test]
fn an_object_goes_with_its_last_owner() {
    let graph = graph(vec![
        node("a", &[]),
        node("b", &["a"]),
        node("c", &["none"]),
        node("d", &["a", "none"]),
        node("e", &["new"]),
    ]);
    assert_eq!(decide(&graph, "a"), Decision::Nothing);
    assert_eq!(decide(&graph, "b"), Decision::Nothing);
    assert_eq!(
        decide(&graph, "c"),
        Decision::Delete(Propagation::Background)
    );
    assert_eq!(decide(&graph, "d"), Decision::Disown(vec!["none".into()]));
    assert!(matches!(decide(&graph, "e"), Decision::Verify(owners) if owners.len() == 1));
}

#[test]
fn the_end_of_an_owner_concerns_its_dependents() {
    let mut graph = graph(vec![node("a", &[]), node("b", &["a"])]);
    assert_eq!(graph.remove("a"), ["b"]);
    assert!(graph.remove("b").is_empty());
}

#[test]
fn an_owner_in_the_foreground_waits_for_those_that_block_it() {
    let mut graph = graph(vec![node("b", &["a"]), node("c", &["b"])]);
    assert_eq!(graph.apply(deleting("a", &[], FOREGROUND)), ["b", "a"]);
    assert_eq!(decide(&graph, "a"), Decision::Nothing);
    assert_eq!(
        decide(&graph, "b"),
        Decision::Delete(Propagation::Foreground),
        "it has dependents itself"
    );
    graph.remove("c");
    assert_eq!(
        decide(&graph, "b"),
        Decision::Delete(Propagation::Background)
    );
    assert_eq!(graph.remove("b"), ["a"]);
    assert_eq!(decide(&graph, "a"), Decision::Release(FOREGROUND));
}

#[test]
fn who_does_not_block_is_not_waited_for() {
    let mut free = node("b", &["a"]);
    free.owners[0].blocks = false;
    let graph = graph(vec![deleting("a", &[], FOREGROUND), free]);
    assert_eq!(decide(&graph, "a"), Decision::Release(FOREGROUND));
}

#[test]
fn another_owner_keeps_what_a_waiting_one_would_take_along() {
    let graph = graph(vec![
        deleting("a", &[], FOREGROUND),
        node("o", &[]),
        node("b", &["a", "o"]),
    ]);
    assert_eq!(decide(&graph, "b"), Decision::Disown(vec!["a".into()]));
}

#[test]
fn orphans_are_let_go_of() {
    let graph = graph(vec![deleting("a", &[], ORPHAN), node("b", &["a"])]);
    assert_eq!(
        decide(&graph, "a"),
        Decision::Orphan(vec![node("b", &["a"])])
    );
}

#[test]
fn nobody_is_owned_across_namespaces() {
    let other = Node {
        namespace: "m".into(),
        ..node("a", &[])
    };
    let graph = graph(vec![other, node("b", &["a"])]);
    assert_eq!(
        decide(&graph, "b"),
        Decision::Delete(Propagation::Background)
    );
}

#[test]
fn who_has_an_owner_that_nobody_knows_is_found() {
    let graph = graph(vec![node("a", &[]), node("b", &["a"]), node("c", &["new"])]);
    assert_eq!(graph.with_unknown_owner(), ["c"]);
}
