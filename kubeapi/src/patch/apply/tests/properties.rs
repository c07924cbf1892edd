//! Properties that hold for any writes.

use proptest::prelude::*;

use super::*;

/// Generates specs with lists of each kind, with few names so that they collide.
fn spec() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[XY]", "[12]", 0..3).prop_map(|env| {
        env.into_iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect::<Vec<_>>()
    });
    let container = ("[12]", env, prop::collection::vec("[ab]", 0..2))
        .prop_map(|(image, env, args)| json!({ "image": image, "env": env, "args": args }));
    let containers = prop::collection::btree_map("[abc]", container, 0..3).prop_map(|containers| {
        let named = containers.into_iter().map(|(name, mut container)| {
            container["name"] = name.into();
            container
        });
        named.collect::<Vec<_>>()
    });
    let finalizers = prop::collection::btree_set("[pqr]", 0..3);
    let labels = prop::collection::btree_map("[lmn]", "[12]", 0..3);
    (containers, finalizers, labels).prop_map(|(containers, finalizers, labels)| {
        json!({"metadata": {"finalizers": finalizers, "labels": labels}, "spec": {"containers": containers}})
    })
}

proptest! {
    /// After any earlier writes, an enforced apply takes effect, a second one changes nothing, and an empty apply removes everything
    /// of it that nobody else owns.
    #[test]
    fn an_apply_holds_and_can_be_taken_back(writes in prop::collection::vec((any::<bool>(), 0..3_u8, spec()), 0..5), config in spec()) {
        let mut world = World::new(POD);
        for (apply, manager, spec) in writes {
            match apply {
                true => world.force(&format!("m{manager}"), spec),
                false => world.update(&format!("m{manager}"), spec),
            };
        }
        world.force("me", config.clone());
        let object = world.object.clone().unwrap();
        let again = walk::fields(&config, MergeSchema::of(&POD));
        let mine = Managers::read(&object);
        let me = Manager { name: "me".into(), operation: Operation::Apply, api_version: "v1".into(), subresource: String::new() };
        let mut unnamed = again.clone();
        unnamed.remove_below(&unowned_fields(&World::options("me", "")));
        prop_assert_eq!(mine.fields(&me).cloned().unwrap_or_default(), unnamed);
        let mut merged = object.clone();
        walk::merge(&mut merged, &config, MergeSchema::of(&POD));
        prop_assert_eq!(&merged, &object, "what was applied does not stand");
        world.force("me", config);
        prop_assert_eq!(world.object.as_ref(), Some(&object), "a second apply changed something");
        world.force("me", json!({}));
        let left = walk::fields(world.object.as_ref().unwrap(), MergeSchema::of(&POD));
        let mut owned = Managers::read(world.object.as_ref().unwrap()).owned_fields(None);
        owned.join(unowned_fields(&World::options("me", "")));
        let mut orphans = again.common(&left);
        orphans.subtract(&owned);
        prop_assert_eq!(orphans.paths(), Vec::<String>::new());
    }

    #[test]
    fn fields_are_read_as_they_were_written(object in spec()) {
        let set = walk::fields(&object, MergeSchema::of(&POD));
        let written = set.write();
        prop_assert_eq!(Set::read(written.as_object().unwrap()), set);
    }

    #[test]
    fn changes_are_what_differs(old in spec(), new in spec()) {
        let changes = walk::changes(&old, &new, MergeSchema::of(&POD), walk::Source::Merge);
        let (before, after) = (walk::fields(&old, MergeSchema::of(&POD)), walk::fields(&new, MergeSchema::of(&POD)));
        let mut carried = before;
        carried.remove_below(&changes.gone);
        carried.join(changes.set.clone());
        // A map or a list that was added is a field of its own; in a configuration it is one while it is empty.
        let is_whole = |path: &String| [".labels", ".finalizers", ".env"].iter().any(|name| path.ends_with(name));
        let mut missing = after.clone();
        missing.subtract(&carried);
        prop_assert!(missing.paths().iter().all(is_whole), "{:?} is new, or another", missing);
        carried.subtract(&after);
        prop_assert!(carried.paths().iter().all(is_whole), "{:?} is gone", carried);
        prop_assert!(old != new || changes == walk::Changes::default());
    }
}
