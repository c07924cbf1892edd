//! Logs, commands and ports of pods, through the API from a node that is made here; the client is `kubectl`.

mod node;
mod proxy;
mod websocket;

use std::{process::Stdio, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::json;
use testkit::{PROCESS_TIMEOUT, within, within_timeout};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use self::node::FakeNode;
use super::world::{Said, World};

/// The protocols of `kubectl`: whether it uses WebSockets.
const PROTOCOLS: [&str; 2] = ["true", "false"];

/// An API with a pod that runs on the node `edge-1`.
async fn world() -> (World, Arc<FakeNode>) {
    let node = Arc::new(FakeNode::default());
    let streams = node.clone();
    let world = World::of(|builder| builder.node_streams(streams)).await;
    pod(&world, "p", "edge-1", &["c"]).await;
    (world, node)
}

async fn pod(world: &World, name: &str, node: &str, containers: &[&str]) {
    let containers: Vec<_> = containers
        .iter()
        .map(|name| json!({"name": name, "image": "i"}))
        .collect();
    let spec = json!({"nodeName": node, "containers": containers});
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    world
        .pods()
        .create(&PostParams::default(), &pod)
        .await
        .unwrap();
    world.report(name, json!({"phase": "Running"})).await;
}

/// Runs `kubectl` over WebSockets or SPDY; its exit code too.
async fn run(world: &World, websockets: &str, line: &str, input: &[u8]) -> (Option<i32>, Said) {
    let mut command = world.command(line);
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
    command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeding = tokio::spawn(async move {
        // a command that reads nothing may be gone already
        let _ = stdin.write_all(&input).await;
    });
    let output = within_timeout(
        PROCESS_TIMEOUT,
        &format!("kubectl {line}"),
        child.wait_with_output(),
    )
    .await
    .unwrap();
    feeding.await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let said = Said {
        ok: output.status.success(),
        out: text(output.stdout),
        err: text(output.stderr),
    };
    (output.status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_read_and_refused_as_from_a_kubelet() {
    let (world, node) = world().await;
    pod(&world, "two", "edge-1", &["a", "b"]).await;
    pod(&world, "away", "edge-2", &["c"]).await;
    pod(&world, "unbound", "", &["c"]).await;
    assert_eq!(world.kubectl("logs p").await, "line 1\nline 2\n");
    assert_eq!(world.kubectl("logs unbound").await, "");
    world
        .kubectl("logs p --tail=5 --since=1m --timestamps --previous --limit-bytes=9")
        .await;
    let asked = node.requests();
    assert_eq!(asked[0], "edge-1 GET /containerLogs/default/p/c");
    assert_eq!(
        asked[1],
        "edge-1 GET /containerLogs/default/p/c?previous=true&timestamps=true&sinceSeconds=60&tailLines=5&limitBytes=9"
    );
    let rows = [
        ("logs two -c x", "container x is not valid for pod two"),
        (
            "logs away",
            "Error from server (ServiceUnavailable): node \"edge-2\" has no stream tunnel",
        ),
        (
            "logs two -c a",
            "Error from server (BadRequest): container \"a\" in pod \"two\" is waiting to start",
        ),
        (
            "logs two -c b",
            "Error from server (NotFound): the server could not find the requested resource ( pods/log two)",
        ),
        (
            "get --raw /api/v1/namespaces/default/pods/two/log",
            "choose one of: [a b]",
        ),
        (
            "get --raw /api/v1/namespaces/default/pods/p/log?sinceSeconds=0",
            "must be greater than 0",
        ),
    ];
    for (line, expected) in rows {
        let refused = world.fail(line, "").await;
        assert!(refused.contains(expected), "kubectl {line}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_followed_comes_line_by_line_and_ends_with_the_client() {
    let (world, node) = world().await;
    let mut following = world.follow("logs -f p");
    following.until("line 1").await;
    node.say("more\n");
    following.until("more").await;
    drop(following);
    within("what is left of the node", node.wait_dropped()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_run_over_both_protocols() {
    let (world, node) = world().await;
    for protocol in PROTOCOLS {
        let (code, said) = run(&world, protocol, "exec p -- say out err", b"").await;
        assert_eq!(
            (code, said.out.as_str(), said.err.as_str()),
            (Some(0), "out", "err"),
            "{protocol}"
        );
        let (code, said) = run(&world, protocol, "exec p -- exit 7", b"").await;
        assert_eq!(code, Some(7), "{protocol}: {said:?}");
        assert!(
            said.err.contains("command terminated with exit code 7"),
            "{said:?}"
        );
        let input: Vec<u8> = (0..300_000_u32)
            .map(|number| b'a' + (number % 23) as u8)
            .collect();
        let (code, said) = run(&world, protocol, "exec -i p -- cat", &input).await;
        assert!(
            code == Some(0) && said.out.as_bytes() == input,
            "{protocol}: {code:?} {}",
            said.err
        );
        // a command that does not read what it is sent
        let (code, said) = run(&world, protocol, "exec -i p -- exit 3", &input).await;
        assert_eq!(code, Some(3), "{protocol}: {said:?}");
        let (code, said) = run(&world, protocol, "attach p", b"").await;
        assert_eq!(
            (code, said.out.as_str()),
            (Some(0), "attached"),
            "{protocol}: {said:?}"
        );
    }
    let expected =
        "edge-1 POST /exec/default/p/c?command=say&command=out&command=err&error=1&output=1";
    assert!(
        node.requests().iter().any(|asked| asked == expected),
        "{:?}",
        node.requests()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_cannot_be_run_say_why() {
    let (world, _node) = world().await;
    pod(&world, "two", "edge-1", &["a", "b"]).await;
    pod(&world, "away", "edge-2", &["c"]).await;
    pod(&world, "unbound", "", &["c"]).await;
    for protocol in PROTOCOLS {
        for (line, expected) in [
            ("exec p -- absent", "container not found (\"c\")"),
            (
                "exec two -c x -- say",
                "container x is not valid for pod two",
            ),
            (
                "exec away -- say",
                "node \"edge-2\" has no stream tunnel to this cloud",
            ),
            (
                "exec unbound -- say",
                "pod unbound does not have a host assigned",
            ),
        ] {
            let (code, said) = run(&world, protocol, line, b"").await;
            assert!(
                code == Some(1) && said.err.contains(expected),
                "{protocol} {line}: {said:?}"
            );
        }
    }
    // what is cut off is no success where that can be told
    let (code, said) = run(&world, "true", "exec p -- cut", b"").await;
    let is_told = ["without a status", "was interrupted"]
        .iter()
        .any(|text| said.err.contains(text));
    assert!(code == Some(1) && is_told, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_forwarded_over_both_protocols() {
    let (world, _node) = world().await;
    for protocol in PROTOCOLS {
        let mut command = world.command("port-forward pod/p :8080");
        command
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", protocol)
            .stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within("a line", lines.next_line()).await.unwrap().unwrap();
        let port = line
            .split(':')
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .unwrap();
        for _ in 0..3 {
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}"))
                .await
                .unwrap();
            stream.write_all(b"hello").await.unwrap();
            let mut echo = [0; 5];
            within("the echo", stream.read_exact(&mut echo))
                .await
                .unwrap();
            assert_eq!(&echo, b"hello");
        }
        child.kill().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_the_server() {
    let (world, node) = world().await;
    for protocol in PROTOCOLS {
        let mut command = world.command("exec p -- wait");
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", protocol);
        let mut child = command.spawn().unwrap();
        let mut begun = [0; 5];
        within(
            "the beginning of the output",
            child.stdout.as_mut().unwrap().read_exact(&mut begun),
        )
        .await
        .unwrap();
        if protocol == "false" {
            world.shutdown.cancel();
        } else {
            child.kill().await.unwrap();
        }
        within("the end of kubectl", child.wait()).await.unwrap();
        // the node is told, too
        within("what is left of the node", node.wait_dropped()).await;
    }
    within("the end of the server", world.server).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_say_who_may_run_commands() {
    let node = Arc::new(FakeNode::default());
    let world = World::of(|builder| builder.node_streams(node).rbac(true)).await;
    pod(&world, "p", "edge-1", &["c"]).await;
    // `kubectl` reads the pod first
    for (user, verbs) in [
        ("reader", "get"),
        ("writer", "create"),
        ("both", "get,create"),
    ] {
        world
            .kubectl(&format!(
                "create role {user} --verb={verbs} --resource=pods/exec,pods/log"
            ))
            .await;
        world
            .kubectl(&format!(
                "create role {user}-pods --verb=get --resource=pods"
            ))
            .await;
        for role in [user.to_owned(), format!("{user}-pods")] {
            world
                .kubectl(&format!(
                    "create rolebinding {role} --role={role} --user={user}"
                ))
                .await;
        }
    }
    assert_eq!(
        world.kubectl("logs p --as=reader").await,
        "line 1\nline 2\n"
    );
    for (user, websockets, over_spdy) in [
        ("reader", false, false),
        ("writer", true, true),
        ("both", true, true),
    ] {
        for (protocol, expected) in [("true", websockets), ("false", over_spdy)] {
            let (_, said) = run(
                &world,
                protocol,
                &format!("exec p --as={user} -- say hi"),
                b"",
            )
            .await;
            assert_eq!(said.ok, expected, "{user} {protocol}: {said:?}");
            let why = "cannot create resource \"pods/exec\"";
            assert!(
                said.ok || said.err.contains(why),
                "{user} {protocol}: {said:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_say_what_may_be_run() {
    let (world, _node) = world().await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]});
    let list = json!({"kind": "List", "apiVersion": "v1", "items": [
        {"kind": "ValidatingAdmissionPolicy", "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-cat"},
            "spec": {"matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "object.command[0] != 'cat'", "message": "no cats"}]}},
        {"kind": "ValidatingAdmissionPolicyBinding", "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": "no-cat"}, "spec": {"policyName": "no-cat", "validationActions": ["Deny"]}},
    ]});
    world.run("apply -f -", &list.to_string()).await;
    for protocol in PROTOCOLS {
        let (code, said) = run(&world, protocol, "exec p -- say hi", b"").await;
        assert_eq!((code, said.out.as_str()), (Some(0), "hi"), "{said:?}");
        let (code, said) = run(&world, protocol, "exec -i p -- cat", b"").await;
        assert!(code == Some(1) && said.err.contains("no cats"), "{said:?}");
    }
}
