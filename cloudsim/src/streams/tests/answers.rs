//! Answers of a node, in arbitrary pieces.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_answer_is_read_whatever_its_form_and_its_pieces() {
    let world = World::new();
    let mut node = world.dial();
    let bodies = [
        "Content-Length: 10\r\n\r\n0123456789",
        "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n",
        "\r\n0123456789",
    ];
    // EdgeCore sends 256 bytes at a time, others any number
    for size in [1, 7, 256, 4096] {
        for (number, body) in bodies.iter().enumerate() {
            let asked = world.get("/metrics?x=1");
            let connect = node.connect().await;
            assert_eq!(
                (connect.url.path.as_str(), connect.url.raw_query.as_str()),
                ("/metrics", "x=1")
            );
            assert_eq!(connect.method.as_deref(), Some("GET"));
            let answered = format!(
                "HTTP/1.1 404 Not Found\r\nX-Long: {}\r\n{body}",
                "x".repeat(300)
            );
            for part in answered.as_bytes().chunks(size) {
                node.data(connect.id, part).await;
            }
            node.frame(connect.id, Kind::RemoveConnect, b"").await;
            let response = answer(asked).await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{size} {number}");
            assert!(!response.headers().contains_key("transfer-encoding"));
            assert_eq!(
                whole(response.into_body()).await.unwrap(),
                "0123456789",
                "{size} {number}"
            );
        }
    }
    node.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_comes_piece_by_piece_and_its_end_is_told() {
    let world = World::new();
    let mut node = world.dial();
    let (id, mut body) = world.body(&mut node, CHUNKED).await;
    for line in ["one\n", "two\n"] {
        node.data(id, format!("{:x}\r\n{line}\r\n", line.len()))
            .await;
        assert_eq!(piece(&mut body).await, line);
    }
    drop(body);
    node.remove_stream(id).await;
    // data that was on its way
    node.data(id, "4\r\nthr\n\r\n").await;
    node.frame(id, Kind::RemoveConnect, b"").await;
    node.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_goes_both_ways_and_nothing_behind_the_head_is_lost() {
    let world = World::new();
    let mut node = world.dial();
    let (id, mut io) = world
        .upgrade(&mut node, &format!("{SWITCHING}first "))
        .await;
    node.data(id, "second").await;
    let mut read = [0; 12];
    within("the bytes of the stream", io.read_exact(&mut read))
        .await
        .unwrap();
    assert_eq!(&read, b"first second");
    let large = vec![7; 50_000];
    let writing = tokio::spawn(async move {
        io.write_all(&large).await.unwrap();
        io.flush().await.unwrap();
        io
    });
    let mut received = 0;
    while received < 50_000 {
        let frame = node.next_frame().await;
        assert_eq!((frame.id, frame.kind), (id, Kind::Data));
        received += frame.data.len();
    }
    drop(within("the end of the writer", writing).await.unwrap());
    node.remove_stream(id).await;
    node.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn numbers_of_streams_are_never_used_again_also_not_by_another_tunnel() {
    let world = World::new();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut node = world.dial();
        for _ in 0..3 {
            let asked = world.get("/pods");
            let connect = node.connect().await;
            node.data(connect.id, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .await;
            ids.push(connect.id);
            drop(answer(asked).await);
            node.remove_stream(connect.id).await;
        }
    }
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
}
