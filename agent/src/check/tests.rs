//! Fixtures of the checks, and checks that have no table of their own.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use clap::Parser;
use edged::{CgroupDriver, RuntimeInfo, RuntimeInfoError, ThresholdValue};
use tempfile::TempDir;

use super::{report::CheckResult, *};
use crate::{
    cli::{Cli, Command, Join},
    config::{self, HostPort},
    edgehub::NodeStatus,
    join::edgecore_yaml,
};

/// A token of a valid form.
pub(crate) const TOKEN: &str =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.a.b.c";

/// A fixture.
pub(crate) fn join(more: &str) -> Box<Join> {
    let line = format!("edge-agent join --cloud 192.0.2.10 --token {TOKEN} {more}");
    let cli = Cli::try_parse_from(line.split_whitespace())
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let Some(Command::Join(join)) = cli.command else {
        panic!("{line}")
    };
    join
}

/// A fixture.
pub(crate) fn runtime_info(name: &str, driver: Option<CgroupDriver>) -> RuntimeInfo {
    RuntimeInfo {
        name: name.into(),
        version: "1.0".into(),
        driver,
        network: None,
        pods: BTreeSet::new(),
        images: None,
        cni: None,
    }
}

/// A fixture.
pub(crate) fn machine(driver: Option<CgroupDriver>, broker: Broker) -> Machine {
    let endpoint = "unix:///run/x.sock".to_owned();
    Machine {
        runtimes: vec![(endpoint.clone(), Ok(runtime_info("x", driver)))],
        endpoint,
        broker,
        broker_port: if broker.is_broker() { 1883 } else { 1884 },
        tunnel_port: None,
    }
}

/// A fixture.
pub(crate) fn host() -> Host {
    Host {
        name: "edge-7".into(),
        address: [192, 0, 2, 7].into(),
    }
}

/// A fixture.
pub(crate) fn config(join: &Join, machine: &Machine) -> Config {
    let text = edgecore_yaml(join, &host(), machine).unwrap();
    assert!(!text.contains(TOKEN), "the token is on the disk");
    let read = config::parse(
        &join.paths.config(),
        &text,
        Some(join.token.clone()),
        &host(),
    );
    let (config, warnings) = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(warnings, []);
    config
}

/// Returns the configuration of a node whose files are in this directory, and whose cloud has this address.
pub(crate) fn node_config(directory: &TempDir, cloud: &str) -> Config {
    let host = Host {
        name: "edge-1".into(),
        address: cloud.parse().unwrap_or([192, 0, 2, 7].into()),
    };
    let text = config::minimal_config(&host);
    let text = config::relocate(&text, |usual| directory.path().join(&usual[1..])).unwrap();
    let path = Path::new("/x.yaml");
    config::parse(path, &text, None, &host).unwrap().0
}

fn inputs_of<'a>(
    join: &'a Join,
    path: &'a Path,
    config: &'a Config,
    machine: &'a Machine,
    host: &'a Host,
) -> Inputs<'a> {
    Inputs::new(Stage::Join, &join.paths, path, config, machine, host).with_join(join)
}

#[test]
fn a_machine_under_pressure_is_reported_with_the_cure() {
    let (join, host, machine) = (join(""), host(), machine(None, Broker::None));
    let mut config = config(&join, &machine);
    let check = |config: &Config| {
        let path = join.paths.config();
        pressure::check(&inputs_of(&join, &path, config, &machine, &host))
    };
    for threshold in &mut config.edged.eviction.thresholds {
        threshold.value = ThresholdValue::Quantity(i64::MAX);
    }
    let CheckResult::Warning { what, cure } = check(&config) else {
        panic!("nothing has so much")
    };
    for condition in ["MemoryPressure: ", "DiskPressure: "] {
        assert!(what.contains(condition), "{what}");
    }
    assert!(
        cure.contains("evictionHard") && cure.contains("/etc/kubeedge/config/edgecore.yaml"),
        "{cure}"
    );
    config.edged.eviction.thresholds.clear();
    assert_eq!(
        check(&config),
        CheckResult::Passed("eviction is disabled".into())
    );
}

#[test]
fn a_taken_port_is_reported_with_the_option_that_changes_it() {
    let taken = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = config(
        &join(&format!("--read-only-port {port}")),
        &machine(None, Broker::Accepts),
    );
    let CheckResult::Failed { what, cure } = ports::are_free(&config, false) else {
        panic!("it is taken")
    };
    assert!(
        what.contains(&port.to_string()) && cure.contains("--read-only-port"),
        "{what}: {cure}"
    );
    // all ports are reported at once
    let other = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mqtt = other.local_addr().unwrap().port();
    let both = format!("--read-only-port {port} --mqtt-port {mqtt}");
    let machine = Machine {
        broker_port: mqtt,
        ..machine(None, Broker::None)
    };
    let config = self::config(&join(&both), &machine);
    let CheckResult::Failed { what, cure } = ports::are_free(&config, false) else {
        panic!("both are taken")
    };
    assert!(
        what.contains(&port.to_string())
            && what.contains(&mqtt.to_string())
            && cure.contains("--read-only-port and --mqtt-port"),
        "{what}: {cure}"
    );
}

#[test]
fn a_runtime_must_answer_and_be_the_only_one() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display();
    let of = |runtimes| runtime_check(&format!("--root {root} --runtime-endpoint /a"), runtimes);
    assert!(matches!(
        of(vec![("unix:///a", Ok(runtime_info("x", None)))]),
        CheckResult::Passed(_)
    ));
    let broken = RuntimeInfo {
        network: Some("cni config uninitialized".into()),
        ..runtime_info("x", None)
    };
    assert!(
        matches!(of(vec![("unix:///a", Ok(broken))]), CheckResult::Remark(what) if what.contains("CNI"))
    );
    assert!(cure(of(vec![])).contains("install"));
    let no_cri = RuntimeInfoError::Unimplemented("unknown service".into());
    assert!(cure(of(vec![("unix:///a", Err(no_cri))])).contains("disabled_plugins"));
    let silent = RuntimeInfoError::NoAnswer("refused".into());
    assert!(cure(of(vec![("unix:///a", Err(silent))])).starts_with("start it"));
    let hung = RuntimeInfoError::NoAnswer("no answer within 10 s".into());
    assert!(cure(of(vec![("unix:///a", Err(hung))])).starts_with("restart it"));
    let two = vec![
        ("unix:///a", Ok(runtime_info("x", None))),
        ("unix:///b", Ok(runtime_info("y", None))),
    ];
    assert!(cure(of(two)).contains("--runtime-endpoint"));
}

/// A name that is in use is not taken over by mistake, and `ok` is said only where the cloud gives it.
#[test]
fn a_name_is_taken_over_only_on_request_and_if_the_cloud_gives_it() {
    use NodeStatus::{Connected, Exists, Free, Taken, Unknown};
    for (known, rejoin, refused) in [
        (Unknown, false, None),
        (Unknown, true, None),
        (Exists, false, Some("--rejoin")),
        (Exists, true, None),
        (Free, false, Some("--rejoin")),
        (Free, true, None),
        (Taken, false, Some("`cloudsim node reset edge-7`")),
        (Taken, true, Some("`cloudsim node reset edge-7`")),
        (Connected, false, Some("`cloudsim node reset edge-7`")),
        (Connected, true, Some("`cloudsim node reset edge-7`")),
    ] {
        let conflict = token::name_conflict("edge-7", known, rejoin);
        match (conflict, refused) {
            (None, None) => {}
            (Some(conflict), Some(part)) => {
                let cure = cure(conflict);
                assert!(cure.contains(part), "{known:?} {rejoin}: {cure}");
            }
            (conflict, _) => panic!("{known:?} {rejoin}: {conflict:?}"),
        }
    }
    for (known, part) in [
        (Unknown, "the name is free"),
        (Exists, "takes over"),
        (Free, "takes over"),
    ] {
        let passed = token::name_is_free("edge-7", known);
        assert!(
            matches!(&passed, CheckResult::Passed(what) if what.contains(part)),
            "{known:?}: {passed:?}"
        );
    }
}

fn runtime_check(
    options: &str,
    runtimes: Vec<(&str, Result<RuntimeInfo, RuntimeInfoError>)>,
) -> CheckResult {
    let runtimes = runtimes
        .into_iter()
        .map(|(endpoint, found)| (endpoint.to_owned(), found))
        .collect();
    let (join, host) = (join(options), host());
    let machine = Machine {
        runtimes,
        ..machine(None, Broker::Accepts)
    };
    let (config, path) = (config(&join, &machine), join.paths.config());
    runtime::judge(&inputs_of(&join, &path, &config, &machine, &host))
}

fn cure(verdict: CheckResult) -> String {
    match verdict {
        CheckResult::Failed { cure, .. } => cure,
        other => panic!("{other:?}"),
    }
}

/// An agent ends pods that it does not know: a second one needs a runtime of its own.
#[tokio::test]
async fn a_runtime_with_pods_of_another_agent_is_refused_and_a_second_agent_names_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display();
    let own = format!("--root {root} --runtime-endpoint /a");
    let others = || RuntimeInfo {
        pods: ["shop/web".to_owned()].into(),
        ..runtime_info("x", None)
    };
    let taken = runtime_check(&own, vec![("unix:///a", Ok(others()))]);
    assert!(
        matches!(&taken, CheckResult::Failed { what, .. } if what.contains("shop/web")),
        "{taken:?}"
    );
    assert!(cure(taken).contains("--runtime-endpoint"));
    // pods of a node that was here, whose check fails otherwise
    let database = directory.path().join("var/lib/kubeedge/outrigger.db");
    fs::create_dir_all(database.parent().unwrap()).unwrap();
    fs::write(&database, "").unwrap();
    assert!(matches!(
        runtime_check(&own, vec![("unix:///a", Ok(others()))]),
        CheckResult::Passed(_)
    ));
    // the machine's default runtime is not inspected
    let second = join(&format!("--root {root}"));
    assert!(Machine::inspect(&second).await.runtimes.is_empty());
    assert!(cure(runtime_check(&format!("--root {root}"), vec![])).contains("--runtime-endpoint"));
    assert!(cure(runtime_check("--config /a.yaml", vec![])).contains("--runtime-endpoint"));
}

#[test]
fn a_former_node_is_distinguished_from_a_clean_machine() {
    let directory = tempfile::tempdir().unwrap();
    let join = join(&format!("--root {}", directory.path().display()));
    let (machine, host, path) = (machine(None, Broker::Accepts), host(), join.paths.config());
    let config = config(&join, &machine);
    let clean = || clean::check(&inputs_of(&join, &path, &config, &machine, &host));
    let write = |path: &PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    assert!(matches!(clean(), CheckResult::Passed(_)));
    write(&config.database);
    assert!(matches!(clean(), CheckResult::Failed { what, .. } if what.contains("edgecore.db")));
    fs::remove_file(&config.database).unwrap();
    write(&config.edge_hub.tls.cert);
    assert!(
        matches!(clean(), CheckResult::Failed { cure, .. } if cure.contains("edge-agent reset"))
    );
}

#[tokio::test]
async fn cloud_hub_that_does_not_listen_is_reported_with_its_port() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let open = listener.local_addr().unwrap().port();
    let gone = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let closed = gone.local_addr().unwrap().port();
    drop(gone);
    let (host, machine) = (host(), machine(None, Broker::None));
    for (host_name, port, cause) in [
        ("127.0.0.1", open, None),
        (
            "127.0.0.1",
            closed,
            Some(("127.0.0.1", "nothing listens at TCP port")),
        ),
        (
            "no-such-host.invalid",
            open,
            Some((
                "cannot resolve no-such-host.invalid",
                "correct the name in --cloud",
            )),
        ),
    ] {
        let mut join = join("");
        join.cloud = HostPort {
            host: host_name.to_owned(),
            port,
        };
        let (config, path) = (config(&join, &machine), join.paths.config());
        let inputs = inputs_of(&join, &path, &config, &machine, &host);
        // without the CA of a cloud, as if its HTTPS server were not reached
        let found = hub::server(&inputs, &join.cloud, None).await;
        let Some((in_what, in_cure)) = cause else {
            assert!(matches!(&found, CheckResult::Remark(_)), "{found:?}");
            continue;
        };
        let CheckResult::Failed { what, cure } = found else {
            panic!("nothing is reached")
        };
        assert!(
            what.contains(&port.to_string()) && what.contains(in_what),
            "{what}"
        );
        assert!(cure.contains(in_cure), "{cure}");
        assert!(!cure.contains("firewall"), "{cure}");
    }
}
