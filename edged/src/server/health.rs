//! `/healthz`: checks that the agent is alive, that the pod controller works, and that no part of the agent hangs. `/readyz` also says
//! whether the cloud is connected.

use std::{sync::Arc, time::Duration};

use componentbase::PartHealth;
use tokio::sync::{Notify, mpsc};

use crate::{storage::Storage, trigger::Trigger};

/// How long the pod controller may take to accept a trigger, which it does at once whatever it is doing. The kubelet allows two
/// minutes for its sync loop, which works in the loop itself.
pub(super) const TRIGGER_TIMEOUT: Duration = Duration::from_secs(5);
/// The checks in addition to those of the agent's parts, in the order of the page.
const CHECKS: [&str; 3] = ["ping", "log", "syncloop"];

/// The check of the connection to the cloud.
pub(super) const CLOUD: &str = "cloud";
/// The check of the agent's store.
const STORAGE: &str = "storage";
/// Maximum number of damaged objects that are named.
const MAX_NAMED: usize = 10;

/// The result of the health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HealthReport {
    /// Whether all checks passed.
    pub(super) is_healthy: bool,
    /// The page, in the kubelet's form.
    pub(super) text: String,
}

impl HealthReport {
    /// Returns the page of `/readyz`. A node that is not connected is ready all the same, since its pods run: the page says so.
    pub(super) fn into_readiness(self, is_connected: Option<bool>) -> Self {
        let text = self.text.replace("healthz check", "readyz check");
        let text = match (is_connected, text.strip_suffix("readyz check passed\n")) {
            (None, _) => text,
            (Some(true), Some(lines)) => format!("{lines}[+]{CLOUD} ok\nreadyz check passed\n"),
            (Some(true), None) => text,
            (Some(false), lines) if self.is_healthy => {
                format!(
                    "{}[-]{CLOUD} not connected (informational)\nreadyz check passed\n",
                    lines.unwrap_or_default()
                )
            }
            (Some(false), _) => text,
        };
        Self { text, ..self }
    }
}

/// Returns the page of the check `cloud`, which fails without a connection.
pub(super) fn of_cloud(is_connected: Option<bool>) -> HealthReport {
    match is_connected {
        Some(true) => HealthReport {
            is_healthy: true,
            text: "ok".to_owned(),
        },
        Some(false) => {
            let text = format!(
                "[-]{CLOUD} failed: not connected; the log says why\nreadyz check failed\n"
            );
            HealthReport {
                is_healthy: false,
                text,
            }
        }
        None => {
            let text = format!("[-]{CLOUD} failed: EdgeHub is disabled\nreadyz check failed\n");
            HealthReport {
                is_healthy: false,
                text,
            }
        }
    }
}

/// Runs all checks, or one by name; `verbose` lists all results. A loop may take `deadline` to answer. Returns `None` if there is
/// no such check.
pub(super) async fn check(
    one: Option<&str>,
    verbose: bool,
    triggers: &mpsc::Sender<Trigger>,
    parts: &[PartHealth],
    storage: &Storage,
    deadline: Duration,
) -> Option<HealthReport> {
    let is_selected = |name: &str| one.is_none_or(|one| one == name);
    let mut results = Vec::new();
    for name in CHECKS.into_iter().filter(|name| is_selected(name)) {
        let answers = name != "syncloop" || loop_answers(triggers, deadline).await;
        let fault = (!answers)
            .then(|| "the controller of pods does not answer; the log may say why".to_owned());
        results.push(Check {
            name,
            fault,
            note: String::new(),
        });
    }
    results.extend(
        parts
            .iter()
            .filter(|vital| is_selected(vital.part))
            .map(Check::of_part),
    );
    // the kubelet has no such check, so it is listed only if it fails or was asked for
    if is_selected(STORAGE) {
        let check = Check::of_storage(storage, deadline).await;
        if one.is_some() || check.fault.is_some() {
            results.push(check);
        }
    }
    (!results.is_empty()).then(|| page(&results, verbose && one.is_none()))
}

/// The result of one check.
struct Check {
    name: &'static str,
    /// What is wrong, if anything.
    fault: Option<String>,
    /// A further note, which begins with a space if it is not empty.
    note: String,
}

impl Check {
    /// Checks that a part of the agent does not hang.
    fn of_part(vital: &PartHealth) -> Self {
        let fault = |(at, spent): (&str, Duration)| {
            format!(
                "its loop `{at}` has not advanced for {} s; the part is restarted if it hangs",
                spent.as_secs()
            )
        };
        let note = match vital.restarts {
            0 => String::new(),
            times => format!(" (restarts after a hang: {times})"),
        };
        Self {
            name: vital.part,
            fault: vital.stuck.map(fault),
            note,
        }
    }

    /// Checks that all stored objects can be read, and that the disk accepts writes.
    async fn of_storage(storage: &Storage, deadline: Duration) -> Self {
        let (damaged, names) = storage.damaged_keys(MAX_NAMED);
        let more = match damaged.saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let unread = (damaged > 0).then(|| {
            format!(
                "stored objects are damaged; those of the cloud are requested again when it is connected: {}{more}",
                names.join(", ")
            )
        });
        let unwritten = storage.write_error(deadline).await.map(|why| {
            format!(
                "cannot store objects; messages from the cloud are not accepted until the disk works again: {why}"
            )
        });
        let faults: Vec<String> = unread.into_iter().chain(unwritten).collect();
        Self {
            name: STORAGE,
            fault: (!faults.is_empty()).then(|| faults.join("; ")),
            note: String::new(),
        }
    }
}

/// Reports whether the pod controller accepts triggers, by an echo through the channel of all triggers.
async fn loop_answers(triggers: &mpsc::Sender<Trigger>, deadline: Duration) -> bool {
    let echo = Arc::new(Notify::new());
    let answered = async {
        triggers.send(Trigger::Echo(echo.clone())).await.is_ok() && {
            echo.notified().await;
            true
        }
    };
    tokio::time::timeout(deadline, answered)
        .await
        .unwrap_or(false)
}

/// Renders the results in the form of Kubernetes' health pages.
fn page(results: &[Check], verbose: bool) -> HealthReport {
    let is_healthy = results.iter().all(|check| check.fault.is_none());
    if is_healthy && !verbose {
        return HealthReport {
            is_healthy,
            text: "ok".to_owned(),
        };
    }
    let line = |Check { name, fault, note }: &Check| match fault {
        None => format!("[+]{name} ok{note}\n"),
        Some(fault) => format!("[-]{name} failed: {fault}{note}\n"),
    };
    let lines: String = results.iter().map(line).collect();
    let end = if is_healthy { "passed" } else { "failed" };
    HealthReport {
        is_healthy,
        text: format!("{lines}healthz check {end}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for a task of the same thread.
    const SHORT: Duration = Duration::from_millis(500);

    fn answering() -> mpsc::Sender<Trigger> {
        let (triggers, mut received) = mpsc::channel(1);
        componentbase::spawn(async move {
            while let Some(trigger) = received.recv().await {
                if let Trigger::Echo(echo) = trigger {
                    echo.notify_one();
                }
            }
        });
        triggers
    }

    #[tokio::test]
    async fn responsive_loop_is_healthy() {
        let triggers = answering();
        for one in [None, Some("ping"), Some("log"), Some("syncloop")] {
            let health = check(one, false, &triggers, &[], &Storage::default(), SHORT)
                .await
                .unwrap();
            assert_eq!(
                health,
                HealthReport {
                    is_healthy: true,
                    text: "ok".into()
                },
                "{one:?}"
            );
        }
        assert_eq!(
            check(
                Some("other"),
                false,
                &triggers,
                &[],
                &Storage::default(),
                SHORT
            )
            .await,
            None
        );
        let verbose = check(None, true, &triggers, &[], &Storage::default(), SHORT)
            .await
            .unwrap();
        assert_eq!(
            verbose.text,
            "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"
        );
    }

    #[test]
    fn a_node_without_the_cloud_is_ready_and_says_so() {
        let report = |text: &str, is_healthy| HealthReport {
            is_healthy,
            text: text.to_owned(),
        };
        let (ok, all) = (
            report("ok", true),
            report("[+]ping ok\nhealthz check passed\n", true),
        );
        let bad = report("[-]log failed: x\nhealthz check failed\n", false);
        for (report, is_connected, expected) in [
            (&ok, Some(true), "ok"),
            (
                &ok,
                Some(false),
                "[-]cloud not connected (informational)\nreadyz check passed\n",
            ),
            (&ok, None, "ok"),
            (
                &all,
                Some(true),
                "[+]ping ok\n[+]cloud ok\nreadyz check passed\n",
            ),
            (
                &all,
                Some(false),
                "[+]ping ok\n[-]cloud not connected (informational)\nreadyz check passed\n",
            ),
            (&bad, Some(false), "[-]log failed: x\nreadyz check failed\n"),
        ] {
            let ready = report.clone().into_readiness(is_connected);
            assert_eq!(
                (ready.is_healthy, &*ready.text),
                (report.is_healthy, expected),
                "{is_connected:?}"
            );
        }
        assert!(
            of_cloud(Some(true)).is_healthy
                && !of_cloud(Some(false)).is_healthy
                && !of_cloud(None).is_healthy
        );
    }

    #[tokio::test]
    async fn a_loop_that_hangs_fails_and_nothing_else_does() {
        let (triggers, _received) = mpsc::channel(1);
        for fills_the_queue in 0..2 {
            let health = check(
                Some("syncloop"),
                false,
                &triggers,
                &[],
                &Storage::default(),
                Duration::from_millis(1),
            )
            .await
            .unwrap();
            assert!(
                !health.is_healthy && health.text.contains("[-]syncloop failed"),
                "{fills_the_queue}: {health:?}"
            );
        }
        assert!(
            check(
                Some("ping"),
                false,
                &triggers,
                &[],
                &Storage::default(),
                SHORT
            )
            .await
            .unwrap()
            .is_healthy
        );
        let all = check(
            None,
            false,
            &triggers,
            &[],
            &Storage::default(),
            Duration::from_millis(1),
        )
        .await
        .unwrap();
        assert!(
            !all.is_healthy && all.text.ends_with("healthz check failed\n"),
            "{all:?}"
        );
        assert!(
            all.text.starts_with("[+]ping ok\n[+]log ok\n[-]syncloop"),
            "{all:?}"
        );
    }

    #[tokio::test]
    async fn a_loop_that_has_ended_fails_at_once() {
        let (triggers, received) = mpsc::channel(1);
        drop(received);
        assert!(
            !check(None, false, &triggers, &[], &Storage::default(), SHORT)
                .await
                .unwrap()
                .is_healthy
        );
    }

    #[tokio::test]
    async fn damaged_objects_are_named() {
        use objectstore::{Key, Resource, SqliteStore, Store};
        use sqlx::ConnectOptions;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let key = Key::new(Resource::new("", "pods"), "ns", "web");
        let store = SqliteStore::open(&path).await.unwrap();
        let value = Some(serde_json::json!({"metadata": {}}));
        let write = objectstore::Write {
            key: key.clone(),
            expect: objectstore::Expect::Absent,
            value,
        };
        store.commit(vec![write]).await.unwrap();
        drop(store);
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
        let mut hand = options.connect().await.unwrap();
        sqlx::raw_sql("UPDATE objects SET value = x'7b'")
            .execute(&mut hand)
            .await
            .unwrap();
        let (triggers, store) = (answering(), SqliteStore::open(&path).await.unwrap());
        let storage = Storage::new(store.clone());
        let told = check(None, false, &triggers, &[], &storage, SHORT)
            .await
            .unwrap();
        assert!(
            !told.is_healthy && told.text.contains("[-]storage failed: "),
            "{told:?}"
        );
        assert!(told.text.contains("pods ns/web"), "{told:?}");
        assert!(
            !check(Some("storage"), false, &triggers, &[], &storage, SHORT)
                .await
                .unwrap()
                .is_healthy
        );
        let delete = objectstore::Write {
            key,
            expect: objectstore::Expect::Anything,
            value: None,
        };
        store.commit(vec![delete]).await.unwrap();
        assert!(
            check(None, false, &triggers, &[], &storage, SHORT)
                .await
                .unwrap()
                .is_healthy
        );
    }

    #[tokio::test]
    async fn unwritable_disk_fails_the_check() {
        use std::sync::atomic::Ordering;

        use crate::storage::tests::FullDisk;

        let (triggers, disk) = (answering(), FullDisk::new());
        let storage = Storage::new(disk.clone());
        let told = check(None, false, &triggers, &[], &storage, SHORT)
            .await
            .unwrap();
        assert!(
            !told.is_healthy
                && told
                    .text
                    .contains("[-]storage failed: cannot store objects"),
            "{told:?}"
        );
        assert!(
            told.text.contains("free some space on its disk"),
            "{told:?}"
        );
        disk.is_full.store(false, Ordering::Relaxed);
        let told = check(None, false, &triggers, &[], &storage, SHORT)
            .await
            .unwrap();
        assert_eq!(
            told,
            HealthReport {
                is_healthy: true,
                text: "ok".into()
            }
        );
    }

    #[tokio::test]
    async fn hanging_part_is_named() {
        let triggers = answering();
        let stuck = Some(("main", Duration::from_secs(75)));
        let parts = [
            PartHealth {
                part: "edgehub",
                restarts: 2,
                stuck: None,
            },
            PartHealth {
                part: "devicetwin",
                restarts: 0,
                stuck,
            },
        ];
        let all = check(None, true, &triggers, &parts, &Storage::default(), SHORT)
            .await
            .unwrap();
        assert!(!all.is_healthy);
        insta::assert_snapshot!(all.text, @r"
        [+]ping ok
        [+]log ok
        [+]syncloop ok
        [+]edgehub ok (restarts after a hang: 2)
        [-]devicetwin failed: its loop `main` has not advanced for 75 s; the part is restarted if it hangs
        healthz check failed
        ");
        assert!(
            check(
                Some("edgehub"),
                false,
                &triggers,
                &parts,
                &Storage::default(),
                SHORT
            )
            .await
            .unwrap()
            .is_healthy
        );
        assert!(
            !check(
                Some("devicetwin"),
                false,
                &triggers,
                &parts,
                &Storage::default(),
                SHORT
            )
            .await
            .unwrap()
            .is_healthy
        );
    }
}
