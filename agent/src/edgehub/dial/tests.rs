//! Attempts and hints of the network in paused time.

use std::cell::Cell;

use tokio::time::{sleep, timeout};
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};

use super::*;
use crate::edgehub::{frame_filter::CutMessages, network::Watcher};

/// A cloud that was set up anew has another CA of the same name.
#[test]
fn another_cloud_has_its_own_error_with_the_cure() {
    use rustls::{CertificateError, Error};
    let of = |why: CertificateError| {
        let error = std::io::Error::new(ErrorKind::InvalidData, Error::InvalidCertificate(why));
        DialError::of_handshake("cloud:10000".into(), error)
    };
    for why in [
        CertificateError::BadSignature,
        CertificateError::UnknownIssuer,
    ] {
        let error = of(why);
        assert!(
            matches!(error, DialError::OtherCloud(..)) && error.cause() == Cause::Cloud,
            "{error}"
        );
        assert!(error.to_string().contains("edge-agent reset"), "{error}");
    }
    let expired = of(CertificateError::Expired);
    assert!(
        matches!(expired, DialError::Certificate(..)) && expired.cause() == Cause::Cloud,
        "{expired}"
    );
    assert!(expired.to_string().contains("has expired"), "{expired}");
    let ended = DialError::of_handshake("cloud:10000".into(), ErrorKind::UnexpectedEof.into());
    assert!(
        matches!(ended, DialError::Closed(_)) && ended.cause() == Cause::Cloud,
        "{ended}"
    );
    assert!(ended.to_string().contains("CloudHub's address"), "{ended}");
}

/// The time of a handshake over a slow link.
const SLOW: Duration = Duration::from_secs(3);

/// Returns an established connection.
async fn dial() -> CloudConnection {
    let meter = Meter::new(Traffic::default(), clock::Instant::now());
    let stream: Box<dyn Stream> = Box::new(tokio::io::duplex(1).0);
    let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let server = Target {
        host: "192.0.2.1".into(),
        port: 10000,
    };
    CloudConnection {
        transport: Transport::websocket(socket, CutMessages::default(), meter, false),
        server,
    }
}

/// Returns an attempt that takes this long.
fn slow<'a>(number: usize, time: Duration) -> Attempt<'a> {
    let begun = clock::Instant::now();
    let attempt = async move {
        sleep(time).await;
        (number, begun, Ok(dial().await))
    };
    attempt.boxed()
}

#[tokio::test(start_paused = true)]
async fn a_network_that_changes_all_the_time_does_not_keep_a_slow_link_from_connecting() {
    let (watcher, mut network) = Watcher::new();
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(50)).await;
            watcher.hint();
        }
    });
    let mut redial = Redial::new(clock::Instant::now());
    let found = dial_until_connected(
        1,
        0,
        INITIAL_ATTEMPT_DELAY,
        |number, _| slow(number, SLOW),
        &mut redial,
        &mut network,
    );
    assert!(
        timeout(SLOW * 2, found).await.is_ok(),
        "no attempt was left alone for long enough"
    );
}

#[tokio::test(start_paused = true)]
async fn a_way_that_the_network_has_again_is_tried_at_once() {
    let (watcher, mut network) = Watcher::new();
    let (begun, began) = (clock::Instant::now(), Cell::new(0));
    let later = Duration::from_millis(10);
    // what was started before the network came is lost
    let begin = |number, _| {
        began.set(began.get() + 1);
        slow(
            number,
            if began.get() == 1 {
                Duration::MAX
            } else {
                Duration::ZERO
            },
        )
    };
    let mut redial = Redial::new(begun);
    let found = dial_until_connected(1, 0, MAX_ATTEMPT_DELAY, begin, &mut redial, &mut network);
    let hint = async {
        sleep(later).await;
        watcher.hint();
    };
    let ((number, ..), ()) = tokio::join!(found, hint);
    assert_eq!((number, began.get()), (1, 2));
    assert!(
        clock::Instant::now().duration_since(begun) < later * 2,
        "{:?}",
        clock::Instant::now().duration_since(begun)
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_on_a_lost_route_releases_the_upgrade_lock() {
    let (watcher, network) = Watcher::new();
    let upgrade_lock = Mutex::new(());
    let holds = with_upgrade_lock(
        &upgrade_lock,
        network.subscribe(),
        std::future::pending::<()>(),
    );
    let others = async {
        sleep(SLOW * 10).await;
        watcher.hint();
        let begun = clock::Instant::now();
        let done = with_upgrade_lock(&upgrade_lock, network.subscribe(), async { 1 }).await;
        (done, clock::Instant::now().duration_since(begun))
    };
    let (held, (done, waited)) = tokio::join!(holds, others);
    assert_eq!((held, done), (None, Some(1)));
    assert!(waited <= ACCEPTED_ATTEMPT_DELAY * 2, "{waited:?}");
}
