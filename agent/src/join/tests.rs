//! Generated configurations, and failed checks.

use std::{collections::BTreeSet, net::TcpListener, path::PathBuf};

use clap::Parser;
use edged::{CgroupDriver, RuntimeInfo, RuntimeInfoError, SIMULATED_RUNTIME, ThresholdValue};

use super::{
    checks,
    machine::{Broker, Machine},
    report::CheckResult,
    *,
};
use crate::{
    cli::{Cli, Command},
    config::{HostPort, MqttMode},
    edgehub::NodeStatus,
};

/// A token of a valid form.
const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.a.b.c";

fn join(more: &str) -> Box<Join> {
    let line = format!("edge-agent join --cloud 192.0.2.10 --token {TOKEN} {more}");
    let cli = Cli::try_parse_from(line.split_whitespace())
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let Some(Command::Join(join)) = cli.command else {
        panic!("{line}")
    };
    join
}

fn runtime_info(name: &str, driver: Option<CgroupDriver>) -> RuntimeInfo {
    RuntimeInfo {
        name: name.into(),
        version: "1.0".into(),
        driver,
        network: None,
        pods: BTreeSet::new(),
        images: None,
    }
}

fn machine(driver: Option<CgroupDriver>, broker: Broker) -> Machine {
    let endpoint = "unix:///run/x.sock".to_owned();
    Machine {
        runtimes: vec![(endpoint.clone(), Ok(runtime_info("x", driver)))],
        endpoint,
        broker,
        broker_port: if broker.is_broker() { 1883 } else { 1884 },
        tunnel_port: None,
    }
}

fn host() -> Host {
    Host {
        name: "edge-7".into(),
        address: [192, 0, 2, 7].into(),
    }
}

fn config(join: &Join, machine: &Machine) -> Config {
    let text = settings::edgecore_yaml(join, &host(), machine).unwrap();
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

#[test]
fn options_and_machine_determine_the_configuration() {
    let plain = config(&join(""), &machine(None, Broker::None));
    assert_eq!(plain.node.name, "edge-7");
    assert_eq!(plain.edge_hub.servers[0].to_string(), "192.0.2.10:10000");
    assert_eq!(
        plain.edge_hub.http_servers[0].to_string(),
        "192.0.2.10:10002"
    );
    assert_eq!(plain.edged.runtime_endpoint, "unix:///run/x.sock");
    assert_eq!(plain.edged.groups.driver, CgroupDriver::Cgroupfs);
    let bus = plain.event_bus.unwrap();
    assert_eq!(
        (bus.mode, bus.internal_server.port()),
        (MqttMode::Internal, 1884)
    );
    assert!(plain.edge_stream.is_none());
    let streams = Machine {
        tunnel_port: Some(7),
        ..machine(None, Broker::None)
    };
    let streams = config(&join("--root /srv/e"), &streams)
        .edge_stream
        .unwrap();
    assert_eq!(streams.endpoint.server.to_string(), "192.0.2.10:7");
    assert_eq!(
        streams.tls.cert,
        PathBuf::from("/srv/e/etc/kubeedge/certs/server.crt")
    );

    let given = "--name edge-8 --cert-port 7 --labels zone=harbour,empty --node-ip 10.0.0.8 --read-only-port 0 --root /srv/e";
    let given = config(
        &join(given),
        &machine(Some(CgroupDriver::Systemd), Broker::RequiresPassword(5)),
    );
    assert_eq!(
        (given.node.name.as_str(), given.node.ip),
        ("edge-8", Some([10, 0, 0, 8].into()))
    );
    assert_eq!(given.edge_hub.http_servers[0].port, 7);
    assert_eq!(
        given.node.labels.get("zone").map(String::as_str),
        Some("harbour")
    );
    assert_eq!(given.edged.groups.driver, CgroupDriver::Systemd);
    let bus = given.event_bus.unwrap();
    assert_eq!(
        (bus.mode, bus.external_server.port),
        (MqttMode::External, 1883)
    );
    for path in [
        given.database,
        given.edge_hub.tls.key,
        given.edged.root_dir,
        given.edged.pod_logs_dir,
        given.device_twin.unwrap().dmi_socket_dir,
    ] {
        assert!(path.starts_with("/srv/e/"), "{}", path.display());
    }
}

#[test]
fn root_moves_every_path_of_the_configuration() {
    let config = config(&join("--root /srv/e"), &machine(None, Broker::None));
    let volumes = app::volumes_directory(&config);
    let text = format!("{config:?} {volumes:?}");
    let paths: BTreeSet<&str> = text
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with('/'))
        .collect();
    // the resolver of the machine is read, not written
    let elsewhere: Vec<_> = paths
        .iter()
        .filter(|path| !path.starts_with("/srv/e/"))
        .collect();
    assert_eq!(elsewhere, [&"/etc/resolv.conf"]);
    for expected in [
        "etc/kubeedge/manifests",
        "var/lib/kubelet",
        "var/log/pods",
        "var/lib/kubeedge/volumes",
    ] {
        assert!(
            paths.contains(format!("/srv/e/{expected}").as_str()),
            "{expected}: {paths:?}"
        );
    }
}

#[test]
fn machine_with_a_simulated_runtime_evicts_nothing_unless_configured() {
    let of = |name: &str| Machine {
        runtimes: vec![("unix:///run/x.sock".into(), Ok(runtime_info(name, None)))],
        ..machine(None, Broker::None)
    };
    let real = config(&join(""), &of("containerd")).edged;
    assert_eq!(
        (
            real.eviction.thresholds.len(),
            real.housekeeping.image_high_percent
        ),
        (5, 85)
    );
    let simulated = config(&join(""), &of(SIMULATED_RUNTIME)).edged;
    assert_eq!(
        (
            simulated.eviction.thresholds.len(),
            simulated.housekeeping.image_high_percent
        ),
        (0, 100)
    );
}

#[test]
fn a_machine_under_pressure_is_reported_with_the_cure() {
    let (join, host, machine) = (join(""), host(), machine(None, Broker::None));
    let mut config = config(&join, &machine);
    let check = |config: &Config| {
        let path = join.paths.config();
        checks::pressure(&CheckInputs {
            join: &join,
            path: &path,
            config,
            machine: &machine,
            host: &host,
        })
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
        &machine(None, Broker::Anonymous),
    );
    let CheckResult::Failed { what, cure } = checks::ports(&config) else {
        panic!("it is taken")
    };
    assert!(
        what.contains(&port.to_string()) && cure.contains("--read-only-port"),
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
    assert!(cure(of(vec![("unix:///a", Err(silent))])).contains("start it"));
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
        let conflict = checks::name_conflict("edge-7", known, rejoin);
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
        let passed = checks::name_is_free("edge-7", known);
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
        ..machine(None, Broker::Anonymous)
    };
    let (config, path) = (config(&join, &machine), join.paths.config());
    checks::runtime(&CheckInputs {
        join: &join,
        path: &path,
        config: &config,
        machine: &machine,
        host: &host,
    })
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
    let (machine, host, path) = (
        machine(None, Broker::Anonymous),
        host(),
        join.paths.config(),
    );
    let config = config(&join, &machine);
    let clean = || {
        checks::clean(&CheckInputs {
            join: &join,
            path: &path,
            config: &config,
            machine: &machine,
            host: &host,
        })
    };
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

#[test]
fn an_invalid_option_is_named_instead_of_the_setting_that_it_becomes() {
    let error = |path: &str| config::FieldError {
        path: path.into(),
        message: "is wrong".into(),
    };
    let errors = [
        "modules.edgeHub.token",
        "modules.edged.hostnameOverride",
        "modules.edged.nodeIP",
    ]
    .map(error);
    let error = config::Error::Invalid {
        path: "edgecore.yaml".into(),
        errors: errors.into(),
    };
    assert_eq!(
        super::config_error(error).to_string(),
        "invalid options:\n  --token: is wrong\n  --name: is wrong\n  modules.edged.nodeIP: is wrong"
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
    for (port, is_open) in [(open, true), (closed, false)] {
        let mut join = join("");
        join.cloud = HostPort {
            host: "127.0.0.1".to_owned(),
            port,
        };
        let (config, path) = (config(&join, &machine), join.paths.config());
        let inputs = CheckInputs {
            join: &join,
            path: &path,
            config: &config,
            machine: &machine,
            host: &host,
        };
        // without the CA of a cloud, as if its HTTPS server were not reached
        let found = checks::hub(&inputs, None).await;
        if is_open {
            assert!(matches!(&found, CheckResult::Remark(_)), "{found:?}");
            continue;
        }
        let CheckResult::Failed { what, cure } = found else {
            panic!("nothing listens")
        };
        assert!(what.contains(&format!("127.0.0.1:{port}")), "{what}");
        assert!(cure.contains(&format!("TCP port {port}")), "{cure}");
    }
}
