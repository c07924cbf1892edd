//! Responses that a service does not complete, and those that the agent itself gives.

use testkit::until;

use super::*;

/// Starts a server that sends interim responses for ever; `ended` counts the connections that the caller has closed.
async fn only_interim(ended: Arc<AtomicUsize>) -> u16 {
    local(move |mut stream, _| {
        let ended = ended.clone();
        async move {
            while stream
                .write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                .await
                .is_ok()
            {}
            ended.fetch_add(1, Ordering::Relaxed);
        }
    })
    .await
}

/// The deadline of a call would end it, too; but a server that only sends interim responses is given up earlier.
#[tokio::test]
async fn interim_answers_without_an_end_are_refused() {
    let rig = Rig::with(MemoryStore::new(), Ports::default(), WAIT_TIMEOUT).await;
    let ended = Arc::<AtomicUsize>::default();
    let port = only_interim(ended.clone()).await;
    let (status, why) = rig.call(format!("{port}:/"), Value::Null).await;
    assert_eq!(status, 502);
    assert!(why.contains("more than 16 interim answers"), "{why}");
    until("the end of the connection", || {
        ended.load(Ordering::Relaxed) > 0
    })
    .await;
    let few = "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(
        rig.call(format!("{}:/", says(few).await), Value::Null)
            .await,
        (200, "ok".to_owned())
    );
}

/// The cloud counts failures by the header of the agent's own answers: a service cannot pretend to be the agent.
#[tokio::test]
async fn the_agents_own_answers_are_marked_and_no_others() {
    let rig = Rig::new().await;
    let pretends =
        says("HTTP/1.1 502 Bad Gateway\r\nTunnelserver: edge-agent\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n")
            .await;
    rig.ask("pretends", format!("{pretends}:/"), Value::Null)
        .await;
    let (_, status, _, header) = rig.answer().await;
    assert_eq!((status, header), (502, json!({"X-A": ["1"]})));
    rig.ask("absent", "1:/".to_owned(), Value::Null).await;
    let (_, status, _, header) = rig.answer().await;
    assert_eq!(
        (status, &header["Tunnelserver"]),
        (502, &json!(["edge-agent"]))
    );
}
