//! Tests of [`super`].

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;

fn object(name: &str, uid: &str, version: u64, owner: Option<&str>) -> ConfigMap {
    let owners: Vec<_> = owner
        .iter()
        .map(|uid| json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}))
        .collect();
    serde_json::from_value(
        json!({"metadata": {"namespace": "n", "name": name, "uid": uid,
        "resourceVersion": version.to_string(), "ownerReferences": owners}}),
    )
    .unwrap()
}

fn names(objects: &[Arc<ConfigMap>]) -> Vec<String> {
    let mut names: Vec<_> = objects.iter().map(|object| object.name_any()).collect();
    names.sort();
    names
}

#[test]
fn own_writes_are_seen_at_once_and_older_news_changes_nothing() {
    let mut cache = Cache::default();
    cache.wrote(object("a", "1", 5, Some("o")));
    assert_eq!(names(&cache.controlled_by("o")), ["a"]);
    let told = cache.observe(Event::Apply(object("a", "1", 4, None)));
    assert_eq!(told.len(), 1, "others want to hear of it");
    assert_eq!(names(&cache.controlled_by("o")), ["a"]);
    cache.observe(Event::Apply(object("a", "1", 6, None)));
    assert_eq!(names(&cache.controlled_by("")), ["a"]);
    assert!(cache.controlled_by("o").is_empty());
}

#[test]
fn what_was_deleted_here_stays_so_until_the_watch_says_so() {
    let mut cache = Cache::default();
    let a = object("a", "1", 5, None);
    cache.wrote(a.clone());
    cache.apply_removal(&a);
    assert!(cache.observe(Event::Apply(a.clone())).is_empty());
    assert!(cache.all().is_empty());
    assert!(
        cache
            .observe(Event::Delete(a))
            .iter()
            .all(|change| change.gone)
    );
    cache.observe(Event::Apply(object("a", "2", 9, None)));
    assert_eq!(cache.all().len(), 1, "another one of the same name");
}

#[test]
fn the_deletion_of_an_earlier_one_leaves_the_later_one() {
    let mut cache = Cache::default();
    cache.observe(Event::Apply(object("a", "2", 9, None)));
    cache.observe(Event::Delete(object("a", "1", 8, None)));
    assert_eq!(cache.get("n", "a").unwrap().uid().unwrap(), "2");
}

#[test]
fn a_list_replaces_all_but_what_was_written_meanwhile() {
    let mut cache = Cache::default();
    for name in ["a", "b"] {
        cache.observe(Event::Apply(object(name, name, 1, None)));
    }
    cache.observe(Event::Init);
    cache.observe(Event::InitApply(object("b", "b", 1, None)));
    cache.wrote(object("c", "c", 7, None));
    let gone: Vec<_> = cache
        .observe(Event::InitDone)
        .iter()
        .map(|change| change.object.name_any())
        .collect();
    assert_eq!(gone, ["a"]);
    assert_eq!(names(&cache.in_namespace("n")), ["b", "c"]);
}

#[test]
fn an_answer_that_comes_after_the_end_brings_nothing_back() {
    let mut cache = Cache::default();
    cache.observe(Event::Apply(object("a", "1", 5, Some("o"))));
    cache.observe(Event::Delete(object("a", "1", 6, Some("o"))));
    cache.wrote(object("a", "1", 5, Some("o")));
    assert!(cache.controlled_by("o").is_empty());
    cache.wrote(object("a", "2", 7, Some("o")));
    assert_eq!(
        names(&cache.controlled_by("o")),
        ["a"],
        "another one of this name"
    );
}
