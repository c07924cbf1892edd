//! Tests of [`super`], against a service of events that stands in for containerd's.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream::BoxStream};
use parking_lot::Mutex;
use testkit::{until, within};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, service::Routes};
use wire::containerd::{
    NAMESPACE,
    events::{
        Any, Message, TaskExit,
        events_server::{Events, EventsServer},
    },
};

use super::*;
use crate::runtime::tests::runtime;

/// The next stream, and the filters with which it was asked for.
#[derive(Clone, Default)]
struct Fake {
    next: Arc<Mutex<Option<mpsc::Receiver<Envelope>>>>,
    filters: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Gives the next who asks a stream of what is sent here.
    fn stream(&self) -> mpsc::Sender<Envelope> {
        let (sender, receiver) = mpsc::channel(8);
        *self.next.lock() = Some(receiver);
        sender
    }

    fn runtime(&self, name: &str) -> Runtime {
        runtime(name, Routes::new(EventsServer::new(self.clone())))
    }
}

#[tonic::async_trait]
impl Events for Fake {
    type SubscribeStream = BoxStream<'static, std::result::Result<Envelope, Status>>;

    async fn subscribe(
        &self,
        request: Request<SubscribeRequest>,
    ) -> std::result::Result<Response<Self::SubscribeStream>, Status> {
        assert_eq!(
            request
                .metadata()
                .get(NAMESPACE)
                .and_then(|value| value.to_str().ok()),
            Some("k8s.io")
        );
        *self.filters.lock() = request.into_inner().filters;
        let next = self
            .next
            .lock()
            .take()
            .ok_or_else(|| Status::unavailable("not now"))?;
        Ok(Response::new(ReceiverStream::new(next).map(Ok).boxed()))
    }
}

fn exit(process: &str) -> Envelope {
    let exit = TaskExit {
        container_id: "c".into(),
        id: process.into(),
    };
    let event = Some(Any {
        type_url: "containerd.events.TaskExit".into(),
        value: exit.encode_to_vec().into(),
    });
    Envelope {
        namespace: "k8s.io".into(),
        topic: "/tasks/exit".into(),
        event,
    }
}

#[tokio::test]
async fn task_exit_notifies_and_ended_stream_is_resubscribed() {
    let (fake, moved) = (Fake::default(), Arc::new(Notify::new()));
    let sender = fake.stream();
    let (runtime, told) = (fake.runtime("containerd"), moved.clone());
    let following = tokio::spawn(async move { runtime.follow_tasks(&told).await });
    let woken = async |what: &str| within(what, moved.notified()).await;
    sender.send(exit("c")).await.unwrap();
    woken("an end").await;
    assert!(
        fake.filters
            .lock()
            .contains(&"namespace==k8s.io,topic==\"/tasks/exit\"".to_owned())
    );
    // once they are taken, what was executed in a container has ended and woken nobody
    for _ in 0..10 {
        sender.send(exit("exec")).await.unwrap();
    }
    until("all are taken", || {
        sender.capacity() == sender.max_capacity()
    })
    .await;
    assert!(moved.notified().now_or_never().is_none());
    // containerd starts again
    let again = fake.stream();
    drop(sender);
    woken("what may have happened meanwhile").await;
    again.send(exit("c")).await.unwrap();
    woken("an end after it").await;
    following.abort();
}

#[tokio::test]
async fn runtimes_other_than_containerd_are_not_subscribed() {
    let (fake, moved) = (Fake::default(), Notify::new());
    let _sender = fake.stream();
    assert!(
        fake.runtime("cri-o")
            .follow_tasks(&moved)
            .now_or_never()
            .is_none()
    );
    assert!(fake.next.lock().is_some() && fake.filters.lock().is_empty());
}
