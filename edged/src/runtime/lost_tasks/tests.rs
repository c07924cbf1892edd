//! Tests of [`super`], against a service of tasks that stands in for containerd's.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tonic::{Response, Status, service::Routes};
use wire::containerd::{
    DeleteResponse, GetResponse, KillResponse, Process, WaitResponse,
    tasks_server::{Tasks, TasksServer},
};

use super::*;
use crate::runtime::tests::runtime;

type Answer<T> = std::result::Result<Response<T>, Status>;

/// Tasks by container, and what was asked.
#[derive(Clone, Debug, Default)]
struct Fake {
    tasks: Arc<Mutex<BTreeMap<String, TaskStatus>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn with(id: &str, status: TaskStatus) -> Self {
        let fake = Self::default();
        fake.tasks.lock().insert(id.to_owned(), status);
        fake
    }

    fn status<T>(
        &self,
        call: &str,
        request: &Request<T>,
        id: &str,
    ) -> std::result::Result<TaskStatus, Status> {
        let namespace = request
            .metadata()
            .get(NAMESPACE)
            .and_then(|value| value.to_str().ok());
        assert_eq!(namespace, Some("k8s.io"));
        self.asked.lock().push(format!("{call} {id}"));
        self.tasks
            .lock()
            .get(id)
            .copied()
            .ok_or_else(|| Status::not_found("no such task"))
    }

    /// A client of it, of a runtime with this name.
    fn runtime(&self, name: &str) -> Runtime {
        runtime(name, Routes::new(TasksServer::new(self.clone())))
    }

    async fn end(&self, name: &str, id: &str) -> (Vec<String>, usize) {
        self.runtime(name).end_lost_task(id).await;
        (self.asked.lock().clone(), self.tasks.lock().len())
    }
}

#[tonic::async_trait]
impl Tasks for Fake {
    async fn get(&self, request: Request<GetRequest>) -> Answer<GetResponse> {
        let status = self.status("get", &request, &request.get_ref().container_id)?;
        let process = Process {
            status: status as i32,
            ..Process::default()
        };
        Ok(Response::new(GetResponse {
            process: Some(process),
        }))
    }

    async fn kill(&self, request: Request<KillRequest>) -> Answer<KillResponse> {
        let KillRequest {
            container_id,
            signal,
            all,
            ..
        } = request.get_ref();
        self.status("kill", &request, container_id)?;
        assert_eq!((*signal, *all), (9, true));
        self.tasks
            .lock()
            .insert(container_id.clone(), TaskStatus::Stopped);
        Ok(Response::new(KillResponse {}))
    }

    async fn wait(&self, request: Request<WaitRequest>) -> Answer<WaitResponse> {
        let status = self.status("wait", &request, &request.get_ref().container_id)?;
        assert_eq!(status, TaskStatus::Stopped);
        Ok(Response::new(WaitResponse { exit_status: 137 }))
    }

    async fn delete(&self, request: Request<DeleteTaskRequest>) -> Answer<DeleteResponse> {
        let id = &request.get_ref().container_id;
        let status = self.status("delete", &request, id)?;
        if status != TaskStatus::Stopped {
            return Err(Status::failed_precondition("the task runs"));
        }
        self.tasks.lock().remove(id);
        Ok(Response::new(DeleteResponse::default()))
    }
}

#[tokio::test]
async fn lost_task_is_killed_and_deleted() {
    let all = ["get a", "kill a", "wait a", "delete a"]
        .map(str::to_owned)
        .to_vec();
    for status in [
        TaskStatus::Running,
        TaskStatus::Created,
        TaskStatus::Unknown,
    ] {
        assert_eq!(
            Fake::with("a", status).end("containerd", "a").await,
            (all.clone(), 0),
            "{status:?}"
        );
    }
    let ended = ["get a", "delete a"].map(str::to_owned).to_vec();
    assert_eq!(
        Fake::with("a", TaskStatus::Stopped)
            .end("containerd", "a")
            .await,
        (ended, 0)
    );
}

#[tokio::test]
async fn missing_tasks_and_other_runtimes_are_ignored() {
    let one = vec!["get b".to_owned()];
    assert_eq!(
        Fake::with("a", TaskStatus::Running)
            .end("containerd", "b")
            .await,
        (one, 1)
    );
    assert_eq!(
        Fake::with("a", TaskStatus::Running).end("cri-o", "a").await,
        (vec![], 1)
    );
}
