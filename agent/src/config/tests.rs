//! From text to configuration, or to what is wrong with it.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use super::*;

const TOKEN: &str =
    "3f1c08a95e0b46d7a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718.aGVhZA.Y2xhaW1z.c2ln";

fn host() -> Host {
    Host {
        name: "edge-1".into(),
        address: Ipv4Addr::new(10, 0, 0, 7).into(),
    }
}

fn read_text(text: &str) -> Result<(Config, Vec<Warning>), Error> {
    parse(Path::new("edgecore.yaml"), text, None, &host())
}

fn config(text: &str) -> Config {
    let (config, warnings) = read_text(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(warnings, []);
    config
}

/// Returns an error and its causes in one text, as it is logged.
fn refusal(text: &str) -> String {
    let error = read_text(text).map(|_| ()).unwrap_err();
    let source = std::error::Error::source(&error)
        .map(|source| format!(": {source}"))
        .unwrap_or_default();
    format!("{error}{source}")
}

fn warnings(text: &str) -> Vec<String> {
    read_text(text)
        .unwrap_or_else(|error| panic!("{error}"))
        .1
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn printed_documents() {
    insta::assert_snapshot!("default_config", default_config(&host()));
    insta::assert_snapshot!("minimal_config", minimal_config(&host()));
}

#[test]
fn printed_configurations_equal_the_defaults() {
    let nothing = config("kind: EdgeCore");
    assert_eq!(config(&default_config(&host())), nothing);
    assert_eq!(config(&minimal_config(&host())), nothing);
    insta::assert_debug_snapshot!("default_truth", nothing);
}

#[test]
fn a_complete_file_of_a_real_node_is_understood() {
    let (config, warnings) = read_text(include_str!("tests/keadm.yaml")).unwrap();
    insta::assert_debug_snapshot!("keadm_truth", config);
    assert_eq!(warnings, []);
}

#[test]
fn an_ipv6_host_is_written_in_brackets() {
    let host = Host {
        name: "edge-1".into(),
        address: std::net::Ipv6Addr::LOCALHOST.into(),
    };
    let (config, _) = parse(Path::new("x"), "kind: EdgeCore", None, &host).unwrap();
    let servers =
        |servers: &[HostPort]| servers.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(servers(&config.edge_hub.http_servers), ["[::1]:10002"]);
    assert_eq!(config.edge_hub.transport, Transport::WebSocket);
    assert_eq!(servers(&config.edge_hub.servers), ["[::1]:10000"]);
}

#[test]
fn this_machine_has_defaults() {
    let (config, _) = parse(
        Path::new("x"),
        &default_config(&Host::detect()),
        None,
        &Host::detect(),
    )
    .unwrap();
    assert_eq!(config.node.name, Host::detect().name);
}

#[test]
fn errors_are_reported_together() {
    let table = [
        ("empty", ""),
        ("only comments", "# nothing\n---\n\n"),
        ("a tab", "modules:\n\tedgeHub:\n\t\theartbeat: 15\n"),
        ("not YAML", "modules: [1, 2\nkind: x"),
        (
            "a duplicate key",
            "modules:\n  edgeHub:\n    heartbeat: 15\n    heartbeat: 30\n",
        ),
        ("two documents", "kind: EdgeCore\n---\nkind: EdgeCore\n"),
        ("a list", "- modules\n"),
        ("text", "modules\n"),
        ("another program's", "apiVersion: v1\nkind: Pod\n"),
        (
            "an old version",
            "apiVersion: edgecore.config.kubeedge.io/v1alpha1\nkind: EdgeCore\n",
        ),
        ("both hubs", "modules: {edgeHub: {quic: {enable: true}}}"),
        ("no hub", "modules: {edgeHub: {websocket: {enable: false}}}"),
        (
            "hub off",
            "modules: {edgeHub: {enable: false}, metaManager: {enable: false}}",
        ),
        (
            "bad addresses",
            "modules: {edgeHub: {httpServer: cloud:10002, websocket: {server: 'wss://cloud:10000'}}}",
        ),
        (
            "token of two parts",
            "modules: {edgeHub: {token: secret.token}}",
        ),
        (
            "token without hash",
            "modules: {edgeHub: {token: secret.a.b.c}}",
        ),
        ("token as a list", "modules: {edgeHub: {token: [secret]}}"),
        (
            "node name",
            "modules: {edged: {hostnameOverride: 'Edge 1_'}}",
        ),
        (
            "taint",
            "modules: {edged: {tailoredKubeletConfig: {registerWithTaints: [{effect: Always}, 3]}}}",
        ),
        (
            "mqtt",
            "modules: {eventBus: {mqttMode: 3, mqttQOS: 9, mqttServerExternal: '127.0.0.1:1883'}}",
        ),
        (
            "many types",
            "modules:\n  edgeHub:\n    enable: 'yes'\n    heartbeat: soon\n    messageQPS: 1.5\n    projectID: {}\n    websocket: cloud:10000\n  edged: [1]\n  metaManager:\n    metaServer:\n      serviceAccountIssuers: one\n  deviceTwin: {dmiSockPath: 1.5}\n",
        ),
        (
            "many values",
            "database: {dataSource: edgecore.db, keyFile: /k, keyring: k}\nmodules:\n  edgeHub: {heartbeat: 0, messageQPS: -1, messageBurst: 99999999999}\n  edged:\n    nodeIP: here\n    podSandboxImage: ''\n    tailoredKubeletConfig:\n      syncFrequency: 10\n      nodeStatusUpdateFrequency: 0s\n      nodeStatusReportFrequency: -1m\n      containerRuntimeEndpoint: tcp://1.2.3.4\n      cgroupDriver: none\n      cgroupRoot: /a/../b\n      podPidsLimit: -2\n      clusterDNS: [dns]\n",
        ),
        (
            "upkeep",
            "modules:\n  edged:\n    minimumGCAge: soon\n    tailoredKubeletConfig:\n      imageGCHighThresholdPercent: 101\n      containerLogMaxSize: big\n      containerLogMaxFiles: 1\n      evictionHard: {memory.available: lots, nodefs.avail: 1%, containerfs.available: 1%}\n      evictionSoft: {memory.available: 110%, nodefs.available: 20%}\n      evictionSoftGracePeriod: {memory.available: 1m}\n",
        ),
        (
            "names of services",
            "modules: {edgeMesh: {enable: true, dns: {listenAddress: '169.254.96.16', upstreamServers: [10.0.0.1, '10.0.0.1:5353', dns]}}}",
        ),
        (
            "no units, no list",
            "modules:\n  edged:\n    tailoredKubeletConfig:\n      clusterDNS: 169.254.96.16\n      syncFrequency: 60\n      imageMinimumGCAge: '5'\n      streamingConnectionIdleTimeout: 4\n",
        ),
    ];
    let answers: String = table
        .iter()
        .map(|(name, text)| format!("# {name}\n{}\n\n", refusal(text)))
        .collect();
    assert!(!answers.contains("secret"), "the token is not repeated");
    insta::assert_snapshot!("errors", answers);
}

#[test]
fn a_number_that_is_text_gets_the_cure_that_helps() {
    for (value, cure) in [
        ("15s", "a whole number, which counts seconds: 15"),
        ("1m30s", "seconds: 90"),
        ("'15'", "a number, without quotes"),
        ("soon", "must be a whole number"),
    ] {
        let said = refusal(&format!("modules: {{edgeHub: {{heartbeat: {value}}}}}"));
        assert!(said.contains(cure), "{value}: {said}");
        assert!(
            value == "'15'" || !said.contains("quotes"),
            "{value}: {said}"
        );
    }
}

#[test]
fn settings_with_a_syntax_or_a_range_are_checked() {
    let kubelet = |text: &str| format!("edged: {{tailoredKubeletConfig: {{{text}}}}}");
    for (text, place, cure) in [
        (
            "edged: {nodeLabels: {a b: c}}".to_owned(),
            "nodeLabels[\"a b\"]",
            "such as zone",
        ),
        (
            "edged: {nodeLabels: {zone: north west}}".to_owned(),
            "nodeLabels.zone",
            "at most 63",
        ),
        (
            "edged: {nodeLabels: {Example.com/a: b}}".to_owned(),
            "Example.com/a",
            "such as zone",
        ),
        (
            "edged: {podSandboxImage: my image}".to_owned(),
            "podSandboxImage",
            "such as kubeedge/pause",
        ),
        (
            "edged: {customInterfaceName: eth 0}".to_owned(),
            "customInterfaceName",
            "such as eth0",
        ),
        (kubelet("maxPods: 0"), "maxPods", "from 1 to"),
        (
            kubelet("shutdownGracePeriod: 500ms"),
            "shutdownGracePeriod",
            "1s or more",
        ),
        (
            kubelet("shutdownGracePeriod: 5s, shutdownGracePeriodCriticalPods: 6s"),
            "shutdownGracePeriodCriticalPods",
            "must not be longer",
        ),
        (
            kubelet(
                "shutdownGracePeriod: 5s, shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]",
            ),
            "shutdownGracePeriodByPodPriority",
            "remove one of them",
        ),
        (
            kubelet(
                "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -1}]",
            ),
            "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds",
            "from 0 to",
        ),
        (kubelet("podsPerCore: -1"), "podsPerCore", "from 0 to"),
        (
            kubelet("clusterDomain: Cluster_local"),
            "clusterDomain",
            "such as cluster.local",
        ),
        (
            kubelet("allowedUnsafeSysctls: ['net.*.x']"),
            "allowedUnsafeSysctls",
            "such as net.core",
        ),
        (
            kubelet("registerWithTaints: [{key: a b, effect: NoSchedule}]"),
            "registerWithTaints[0].key",
            "such as zone",
        ),
        (
            kubelet("registerWithTaints: [{key: a, value: b c, effect: NoSchedule}]"),
            "registerWithTaints[0].value",
            "at most 63",
        ),
        (
            "metaManager: {metaServer: {enable: true, apiAudiences: ['']}}".to_owned(),
            "metaServer.apiAudiences",
            "remove it",
        ),
    ] {
        let said = refusal(&format!("modules: {{{text}}}"));
        assert!(
            said.contains(place) && said.contains(cure),
            "{text}: {said}"
        );
        assert!(said.contains("line 1: "), "{text}: {said}");
    }
    for good in [
        "edged: {nodeLabels: {zone: north, example.com/rack: '', node-role.kubernetes.io/edge: ''}}".to_owned(),
        kubelet("clusterDomain: ''"),
        kubelet("shutdownGracePeriod: 30s, shutdownGracePeriodCriticalPods: 10s"),
        kubelet("shutdownGracePeriodByPodPriority: [{priority: 7}, {shutdownGracePeriodSeconds: 9}]"),
        kubelet("maxPods: 1, allowedUnsafeSysctls: [kernel.msg*, net.core.somaxconn]"),
    ] {
        config(&format!("modules: {{{good}}}"));
    }
}

#[test]
fn errors_have_their_line_and_do_not_hide_mistyped_keys() {
    let text = "\
modules:
  edgeHub:
    websockt: {enable: true}
    heartbeat: 0

  edged:
    tailoredKubeletConfig:
      evictionHard:
        memory.available: lots
      registerWithTaints:
      - key: edge
        effect: NoSchedule
      - key: other
        effect: Always
";
    let said = refusal(text);
    for part in [
        "line 4: modules.edgeHub.heartbeat: is 0",
        "line 9: modules.edged.tailoredKubeletConfig.evictionHard.memory.available: is",
        "line 14: modules.edged.tailoredKubeletConfig.registerWithTaints[1].effect: is",
        "\n  line 3: modules.edgeHub.websockt: unknown key, ignored; did you mean websocket?",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn warnings_name_the_place() {
    let text = "\
modules:
  edgeHub:
    websockt: {enable: true}
    heartBeat: 20
    zzz: 1
  edged:
    nodeLabels: {any/key: a}
    windowsService: true
    tailoredKubeletConfig:
      maxPod: 5
      evictionHard: {memory.available: 50Mi}
      evictionSoft: {memory.available: 200Mi}
      evictionSoftGracePeriod: {memory.available: 30s}
      oomScoreAdj: -999
      imageGCHighThresholdPercent: 90
      crashLoopBackOff: {maxContainerRestartPeriod: 10s, typo: 1}
  dbTest: {enable: true}
  brand new: {a: 1}
";
    insta::assert_snapshot!("warnings", warnings(text).join("\n"));
    let (config, _) = read_text(text).unwrap();
    assert_eq!(
        config.edge_hub.heartbeat,
        Duration::from_secs(20),
        "read in spite of its case"
    );
    assert_eq!(
        config.node.eviction_hard.len(),
        5,
        "a mapping is merged, as Go does it"
    );
}

#[test]
fn unsupported_settings_are_warned_of() {
    for (text, expected) in [
        (
            "modules: {serviceBus: {enable: true, port: 9061, callTimeout: 5, allowedPorts: [8080]}}",
            "",
        ),
        ("modules: {serviceBus: {enable: false, port: 9060}}", ""),
        (
            "modules: {taskManager: {allowConnectionUpdates: true}}",
            "modules.taskManager.allowConnectionUpdates: has no effect",
        ),
        (
            "modules: {edgeHub: {websocket: {readDeadline: 30}}}",
            "modules.edgeHub.websocket.readDeadline: not used",
        ),
        (
            "modules: {metaManager: {contextSendGroup: x}}",
            "modules.metaManager.contextSendGroup: not used",
        ),
        (
            "database: {driverName: mysql}",
            "database.driverName: not used",
        ),
        (
            "featureGates: {moduleRestart: true}",
            "featureGates.moduleRestart: not used",
        ),
        ("featureGates: {moduleRestart: false}", ""),
        (
            "featureGates: {requireAuthorisation: true}",
            "did you mean requireAuthorization?",
        ),
        ("featureGates: {zzz: true}", "featureGates.zzz: unknown key"),
        (
            "modules: {eventBus: {mqttRetain: true}}",
            "modules.eventBus.mqttRetain: has no effect, since mqttMode 2",
        ),
        (
            "modules: {eventBus: {mqttMode: 0, mqttUsername: u}}",
            "mqttUsername: has no effect, since mqttMode 0",
        ),
        (
            "modules: {metaManager: {metaServer: {enable: true, apiAudiences: [a]}}}",
            "metaServer.apiAudiences: has no effect, since featureGates.requireAuthorization",
        ),
    ] {
        let told = warnings(text);
        assert_eq!(
            told.len(),
            usize::from(!expected.is_empty()),
            "{text}: {told:?}"
        );
        assert!(
            told.iter().all(|told| told.contains(expected)),
            "{text}: {told:?}"
        );
    }
}

#[test]
fn values_are_taken_as_go_takes_them() {
    let config = config(
        "modules:\n  edgeHub: {heartbeat: 017, token: null}\n  eventBus: {mqttMode: 1, mqttUsername: 1234, mqttRetain: yes}\n  edged:\n    nodeLabels: {a: 1, b: true}\n    hostnameOverride: EDGE-7\n    tailoredKubeletConfig: {serializeImagePulls: false, containerRuntimeEndpoint: /run/crio/crio.sock}\n",
    );
    assert_eq!(config.edge_hub.heartbeat, Duration::from_secs(15));
    let bus = config.event_bus.unwrap();
    assert_eq!((bus.username.as_deref(), bus.retain), (Some("1234"), true));
    assert_eq!(
        config.node.labels.into_iter().collect::<Vec<_>>(),
        [("a".into(), "1".into()), ("b".into(), "true".into())]
    );
    assert_eq!(config.node.name, "edge-7");
    assert_eq!(config.edged.parallel_image_pulls, None);
    assert_eq!(config.edged.runtime_endpoint, "unix:///run/crio/crio.sock");
    assert_eq!(
        config.edged.image_endpoint, config.edged.runtime_endpoint,
        "images follow the runtime"
    );
}

#[test]
fn the_other_transport() {
    let config = config(
        "modules: {edgeHub: {websocket: {enable: false}, quic: {enable: true, server: 'cloud:1'}}}",
    );
    assert_eq!(config.edge_hub.transport, Transport::Quic);
    assert_eq!(
        config.edge_hub.servers,
        [HostPort {
            host: "cloud".into(),
            port: 1
        }]
    );
}

#[test]
fn several_clouds() {
    let config = config(
        "modules: {edgeHub: {httpServer: 'https://a:10002, https://b:10002/', websocket: {server: 'a:10000,[::1]:10000, c:9'}}}",
    );
    let servers =
        |servers: &[HostPort]| servers.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        servers(&config.edge_hub.servers),
        ["a:10000", "[::1]:10000", "c:9"]
    );
    assert_eq!(
        servers(&config.edge_hub.http_servers),
        ["a:10002", "b:10002"]
    );
}

#[test]
fn disabled_modules_are_not_checked() {
    let config = config(
        "modules: {eventBus: {enable: false, mqttMode: 7}, deviceTwin: {enable: false, dmiSockPath: ''}}",
    );
    assert_eq!((config.event_bus, config.device_twin), (None, None));
}

#[test]
fn the_path_of_dmi_is_a_directory() {
    for written in ["/run/kubeedge", "/run/kubeedge/dmi.sock"] {
        let config = config(&format!(
            "modules: {{deviceTwin: {{dmiSockPath: {written}}}}}"
        ));
        let directory = config.device_twin.map(|twin| twin.dmi_socket_dir);
        assert_eq!(directory.as_deref(), Some(Path::new("/run/kubeedge")));
    }
}

#[test]
fn the_token_is_not_shown() {
    let config = config(&format!("modules: {{edgeHub: {{token: {TOKEN}}}}}"));
    assert_eq!(
        config.edge_hub.token.as_ref().map(Secret::expose),
        Some(TOKEN)
    );
    assert!(!format!("{config:?}").contains("Y2xhaW1z"));
}

#[test]
fn files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edgecore.yaml");
    let missing = load(&path).unwrap_err();
    assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    assert!(
        !missing.to_string().contains("mkdir"),
        "the folder exists: {missing}"
    );
    fs::write(&path, "# comment\n".repeat(1024 * 1024)).unwrap();
    assert!(matches!(load(&path).unwrap_err(), Error::TooLarge(_)));
    fs::write(&path, [0xff; 20]).unwrap();
    assert!(matches!(load(&path).unwrap_err(), Error::Read { .. }));
    fs::write(&path, "kind: EdgeCore\n").unwrap();
    assert!(matches!(load(&path).unwrap_err(), Error::NoModules { .. }));
    assert!(
        load_paths(&path).is_ok(),
        "commands for the database need no modules"
    );
    fs::write(&path, "kind: EdgeCore\nmodules: {}\n").unwrap();
    assert_eq!(load(&path).unwrap().0.edge_hub.token, None);
    fs::write(
        folder.path().join("bootstrap-edgecore.conf"),
        format!("{TOKEN}\n"),
    )
    .unwrap();
    assert_eq!(
        load(&path).unwrap().0.edge_hub.token,
        Some(Secret::new(TOKEN))
    );
}

#[test]
fn deep_and_wide_documents_are_refused_without_harm() {
    let deep = format!("modules: {}", "[".repeat(100_000));
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x]\n{}",
        (b'b'..=b'z')
            .map(|c| {
                let (this, last) = (char::from(c), char::from(c - 1));
                format!(
                    "{this}: &{this} [{}]\n",
                    vec![format!("*{last}"); 8].join(",")
                )
            })
            .collect::<String>()
    );
    for text in [deep, bomb] {
        assert!(matches!(read_text(&text), Err(Error::Yaml { .. })));
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_answered(text in "(?s).{0,200}") {
        let _ = read_text(&text);
    }

    #[test]
    fn any_value_anywhere_is_answered(
        key in "apiVersion|kind|database|modules|featureGates",
        inner in "edgeHub|edged|websocket|tailoredKubeletConfig|nodeLabels|registerWithTaints",
        value in "null|true|-1|1.5|9999999999999999999|text|\\[\\]|\\[1\\]|\\{\\}|\\{a: 1\\}|'10s'",
    ) {
        let _ = read_text(&format!("{key}: {value}"));
        let _ = read_text(&format!("modules: {{{inner}: {value}, edged: {{{inner}: {value}}}, edgeHub: {{{inner}: {value}}}}}"));
    }
}

#[test]
fn settings_of_servicebus() {
    let bus = |text: &str| config(&format!("modules: {{serviceBus: {{{text}}}}}")).service_bus;
    assert_eq!(bus("port: 1"), None, "it is off by default, as in EdgeCore");
    let expected = ServiceBus {
        server: ([127, 0, 0, 1], 9060).into(),
        tls: None,
        timeout: Duration::from_secs(60),
        call_timeout: Duration::from_secs(10),
        allowed_ports: BTreeSet::new(),
    };
    assert_eq!(bus("enable: true"), Some(expected.clone()));
    let files = CertificateFiles {
        cert: "/c.crt".into(),
        key: "/c.key".into(),
    };
    let text = "enable: true, server: 10.0.0.1, allowNonLoopback: true, port: 9061, timeout: 5, callTimeout: 3, allowedPorts: [8080, 80], \
                tlsCertFile: /c.crt, tlsPrivateKeyFile: /c.key";
    let expected = ServiceBus {
        server: ([10, 0, 0, 1], 9061).into(),
        tls: Some(files),
        timeout: Duration::from_secs(5),
        call_timeout: Duration::from_secs(3),
        allowed_ports: BTreeSet::from([80, 8080]),
    };
    assert_eq!(bus(text), Some(expected));
    for (text, place) in [
        ("server: 0.0.0.0", "serviceBus.server"),
        ("server: here", "serviceBus.server"),
        ("port: 0", "serviceBus.port"),
        ("timeout: 0", "serviceBus.timeout"),
        ("callTimeout: -1", "serviceBus.callTimeout"),
        ("allowedPorts: [70000]", "serviceBus.allowedPorts"),
        ("tlsCertFile: /c.crt", "serviceBus.tlsPrivateKeyFile"),
        ("tlsPrivateKeyFile: /c.key", "serviceBus.tlsCertFile"),
    ] {
        let told = refusal(&format!(
            "modules: {{serviceBus: {{enable: true, {text}}}}}"
        ));
        assert!(told.contains(place), "{place} in {told}");
    }
}

#[test]
fn settings_of_edgemesh() {
    let mesh = |text: &str| config(&format!("modules: {{edgeMesh: {{{text}}}}}")).edge_mesh;
    assert_eq!(mesh("lbStrategy: nothing"), None, "it is off by default");
    assert_eq!(mesh("enable: true"), Some(EdgeMesh::default()));
    let text = "enable: true, lbStrategy: RoundRobin, serviceFilterMode: FilterIfLabelDoesNotExists, nodePortAddresses: [10.0.0.0/8], externalAddresses: [192.0.2.0/24]";
    let expected = EdgeMesh {
        strategy: Strategy::RoundRobin,
        filter: ServiceFilter::Only,
        node_port_addresses: vec![Network::parse("10.0.0.0/8").unwrap()],
        external_addresses: vec![Network::parse("192.0.2.0/24").unwrap()],
        ..EdgeMesh::default()
    };
    assert_eq!(mesh(text), Some(expected));
    for (text, place) in [
        ("lbStrategy: Best", "edgeMesh.lbStrategy"),
        ("serviceFilterMode: None", "edgeMesh.serviceFilterMode"),
        ("nodePortAddresses: [eth0]", "edgeMesh.nodePortAddresses"),
        (
            "externalAddresses: [192.0.2.1]",
            "edgeMesh.externalAddresses",
        ),
        (
            "dns: {listenAddress: '0.0.0.0:53'}",
            "edgeMesh.dns.listenAddress",
        ),
        (
            "dns: {listenAddress: '[ff02::1]:53'}",
            "edgeMesh.dns.listenAddress",
        ),
    ] {
        let told = refusal(&format!("modules: {{edgeMesh: {{enable: true, {text}}}}}"));
        assert!(told.contains(place), "{place} in {told}");
    }
    let unused = warnings(
        "modules: {edgeMesh: {enable: true, listenInterface: docker0, subNet: 9.251.0.0/16}}",
    )
    .join("\n");
    for key in ["listenInterface", "subNet"] {
        assert!(
            unused.contains(&format!("modules.edgeMesh.{key}: not used")),
            "EdgeCore's first EdgeMesh had it: {unused}"
        );
    }
}

#[test]
fn access_rules_of_the_internal_broker() {
    let access = |text: &str| {
        config(&format!("modules: {{eventBus: {{mqttMode: 0, {text}}}}}"))
            .event_bus
            .unwrap()
            .internal_access
    };
    assert_eq!(access("mqttQOS: 0"), None);
    let rule = |user: Option<&str>, action, filter: &str, allow| mqtt::Rule {
        user: user.map(str::to_owned),
        action,
        filter: filter.to_owned(),
        allow,
    };
    let expected = InternalAccess {
        password_file: Some("/etc/kubeedge/mqtt-users".into()),
        anonymous: false,
        rules: vec![
            rule(Some("ops"), mqtt::Action::All, "#", true),
            rule(None, mqtt::Action::Publish, "a/+", false),
        ],
    };
    let text = "internalAccess: {passwordFile: /etc/kubeedge/mqtt-users, rules: [{user: ops, action: all, filter: '#'}, {action: publish, filter: a/+, allow: false}]}";
    assert_eq!(access(text), Some(expected));
    let wrong = "modules: {eventBus: {internalAccess: {passwordFile: users, rules: [{action: read, filter: 'a/#/b'}]}}}";
    let told = refusal(wrong);
    for place in [
        "internalAccess.passwordFile",
        "internalAccess.rules[0].action",
        "internalAccess.rules[0].filter",
    ] {
        assert!(told.contains(place), "{place} in {told}");
    }
}
