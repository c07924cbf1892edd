//! The flows of jobs, their paths, and what their values look like.

use super::*;

#[test]
fn actions_follow_each_other_as_in_kubeedge() {
    use Action::*;
    let run = |kind: JobKind, fails: Option<Action>| {
        let (mut at, mut seen) = (Check, Vec::new());
        loop {
            seen.push(at);
            match kind.next(at, fails != Some(at)).unwrap() {
                Next::Action(next) => at = next,
                Next::End(succeeded) => return (seen, succeeded),
            }
        }
    };
    for (kind, fails, actions, succeeds) in [
        (
            JobKind::NodeUpgrade,
            None,
            vec![Check, WaitingConfirmation, BackUp, Upgrade],
            true,
        ),
        (JobKind::NodeUpgrade, Some(Check), vec![Check], false),
        (
            JobKind::NodeUpgrade,
            Some(Upgrade),
            vec![Check, WaitingConfirmation, BackUp, Upgrade, RollBack],
            false,
        ),
        (JobKind::ImagePrePull, None, vec![Check, Pull], true),
        (JobKind::ImagePrePull, Some(Pull), vec![Check, Pull], false),
        (
            JobKind::ConfigUpdate,
            None,
            vec![Check, BackUp, Update],
            true,
        ),
        (
            JobKind::ConfigUpdate,
            Some(Update),
            vec![Check, BackUp, Update, RollBack],
            false,
        ),
    ] {
        assert_eq!(run(kind, fails), (actions, succeeds), "{kind:?} {fails:?}");
    }
    assert_eq!(JobKind::ImagePrePull.next(Upgrade, true), None);
    for action in Action::ALL {
        assert_eq!(Action::parse(action.as_str()), Some(action));
    }
    assert_eq!(Action::parse("check"), None);
}

#[test]
fn paths_name_kind_job_and_node() {
    for kind in JobKind::ALL {
        for (job, node) in [
            ("up-1", "edge-1"),
            ("node", "node"),
            ("a.b", "x.example.com"),
        ] {
            let path = JobPath {
                kind,
                job: job.into(),
                node: node.into(),
            };
            assert_eq!(JobPath::parse(&path.to_string()), Some(path));
        }
    }
    for other in [
        "",
        "operations.kubeedge.io/v1alpha2",
        "operations.kubeedge.io/v1alpha2/nodeupgradejob/up/node",
        "operations.kubeedge.io/v1alpha2/nodeupgradejob/up/node/",
        "operations.kubeedge.io/v1alpha2/nodeupgradejob//node/e",
        "operations.kubeedge.io/v1alpha2/nodeupgradejob/up/node/e/x",
        "operations.kubeedge.io/v1alpha2/job/up/node/e",
        "operations.kubeedge.io/v1alpha1/nodeupgradejob/up/node/e",
        "operations.kubeedge.io/v1alpha2nodeupgradejob/up/node/e",
        "upgrade/up/node/e",
    ] {
        assert_eq!(JobPath::parse(other), None, "{other}");
    }
}

#[test]
fn values_have_a_form() {
    let digest = "a".repeat(64);
    for version in ["v1.23.0", "v1.23.1-beta.1", "v1.23.0-a_b-2"] {
        assert_eq!(check_version(version), Ok(()), "{version}");
    }
    let long = format!("v1.2.{}", "3".repeat(130));
    for version in [
        "",
        "1.23.0",
        "v1.23",
        "v1.23.0+x",
        "v1.23.0;id",
        "v1.23.0-",
        "v1..0",
        "v1.2.3.4",
        "v1.2.x",
        "v1.2.3\n",
        &long,
    ] {
        assert!(check_version(version).is_err(), "{version}");
    }
    for image in [
        "kubeedge/installation-package",
        "docker.io/kubeedge/installation-package:v1.23.0",
        "localhost:5000/a/b:x_1",
        "a/b@sha256:",
    ] {
        let image = if image.ends_with("sha256:") {
            format!("{image}{digest}")
        } else {
            image.to_owned()
        };
        assert_eq!(check_image(&image), Ok(()), "{image}");
    }
    for image in [
        "",
        "edgecore",
        "a b/c",
        "x/y;z",
        "/a",
        "a/",
        "a//b",
        "a/b:",
        "a/b:-x",
        "a/b@sha256:12",
        "a:x/b",
        "$(id)/a",
        "a/b\n",
        "-a/b",
    ] {
        assert!(check_image(image).is_err(), "{image}");
    }
    assert_eq!(check_items(["cpu", "mem", "disk"]), Ok(()));
    assert_eq!(check_items([]), Ok(()));
    assert!(check_items(["disk", "gpu"]).unwrap_err().contains("gpu"));
    assert!(check_name("node").is_err());
    assert_eq!(check_name("node-1"), Ok(()));
}
