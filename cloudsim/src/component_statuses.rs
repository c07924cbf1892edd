//! `componentstatuses`, which are deprecated: what `kubectl get componentstatuses` and older dashboards ask for.
//!
//! The scheduler and the controllers are parts of the process that answers; only the store can fail by itself.

use std::sync::Arc;

use async_trait::async_trait;
use kubeapi::{BoxError, ComputedKind, ComputedObjects, Kind, StoreCheckCache};
use objectstore::Store;
use serde_json::{Value, json};

/// Computes the component statuses of a cloud without a cluster.
pub(crate) struct ComponentStatuses {
    store: Arc<dyn Store>,
    checked: StoreCheckCache,
}

impl ComponentStatuses {
    /// Creates it for the cloud over `store`.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            checked: StoreCheckCache::default(),
        }
    }

    /// Returns why the store takes no writes.
    async fn healthy(&self) -> Result<(), String> {
        self.checked.check(&*self.store).await
    }
}

#[async_trait]
impl ComputedObjects for ComponentStatuses {
    fn kinds(&self) -> Vec<ComputedKind> {
        let text = json!({"type": "string"});
        let condition = json!({"type": "object", "properties": {"type": text, "status": text, "message": text, "error": text}});
        vec![ComputedKind {
            group: "",
            version: "v1",
            kind: "ComponentStatus",
            plural: "componentstatuses",
            singular: "componentstatus",
            short_names: &["cs"],
            namespaced: false,
            schema: json!({
                "type": "object", "description": "The health of a part of the cluster. Deprecated.",
                "properties": {"conditions": {"type": "array", "items": condition}},
            }),
            columns: &[],
        }]
    }

    fn warning(&self) -> Option<&'static str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }

    async fn list(&self, _: &Kind, _: &str, name: &str) -> Result<Vec<Value>, BoxError> {
        let error = self.healthy().await.err();
        let all = [
            ("controller-manager", None),
            ("etcd-0", error),
            ("scheduler", None),
        ];
        Ok(all
            .into_iter()
            .filter(|(own, _)| name.is_empty() || *own == name)
            .map(|(name, error)| status(name, error))
            .collect())
    }
}

fn status(name: &str, error: Option<String>) -> Value {
    let condition = match error {
        None => json!({"type": "Healthy", "status": "True", "message": "ok"}),
        Some(error) => json!({"type": "Healthy", "status": "False", "error": error}),
    };
    json!({
        "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [condition],
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::{BodyExt, Full};
    use kubeapi::Identity;
    use objectstore::{MemoryStore, SqliteStore};
    use tower::ServiceExt;

    use super::*;

    /// Returns the code, the warning and the body of an answer.
    async fn get(path: &str) -> (u16, String, Value) {
        let store: Arc<dyn Store> = MemoryStore::new();
        let api = apiserver::builder(Arc::clone(&store))
            .computed(Arc::new(ComponentStatuses::new(store)))
            .build();
        let request = Request::get(path).extension(Identity::master());
        let request = request.header(
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        );
        let answer = api
            .service()
            .oneshot(request.body(Full::<Bytes>::default()).unwrap())
            .await
            .unwrap();
        let warning = answer
            .headers()
            .get("warning")
            .map_or("", |warning| warning.to_str().unwrap())
            .to_owned();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, warning, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn components_are_listed_with_a_warning() {
        let (code, warning, table) = get("/api/v1/componentstatuses").await;
        assert_eq!(
            (code, &*warning),
            (200, "299 - \"v1 ComponentStatus is deprecated in v1.19+\"")
        );
        let rows: Vec<_> = table["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["cells"].clone())
            .collect();
        let row = |name: &str| json!([name, "Healthy", "ok", ""]);
        assert_eq!(
            rows,
            [row("controller-manager"), row("etcd-0"), row("scheduler")]
        );
        let (code, _, table) = get("/api/v1/componentstatuses/etcd-0").await;
        assert_eq!((code, &table["rows"][0]["cells"]), (200, &row("etcd-0")));
        assert_eq!(get("/api/v1/componentstatuses/other").await.0, 404);
    }

    #[tokio::test]
    async fn options_of_a_list_are_checked_and_followed_as_for_every_other_kind() {
        for (query, code) in [
            ("resourceVersion=abc", 400),
            ("resourceVersion=999999999", 504),
            ("resourceVersion=0&resourceVersionMatch=Exact", 422),
            ("resourceVersionMatch=Exact", 422),
            ("continue=xxx", 400),
            ("limit=many", 400),
            ("limit=99999999999999999999", 400),
            ("labelSelector=%3D%3D%3D", 400),
            ("fieldSelector=foo%3Dx", 400),
            ("limit=-1", 200),
            ("resourceVersion=0", 200),
        ] {
            for path in ["/api/v1/componentstatuses", "/api/v1/nodes"] {
                let (found, _, body) = get(&format!("{path}?{query}")).await;
                assert_eq!(found, code, "{path}?{query}: {body}");
            }
        }
        let names = |table: &Value| -> Vec<String> {
            table["rows"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| row["cells"][0].as_str().unwrap().to_owned())
                .collect()
        };
        let (_, _, page) = get("/api/v1/componentstatuses?limit=2").await;
        assert_eq!(names(&page), ["controller-manager", "etcd-0"]);
        assert_eq!(page["metadata"]["remainingItemCount"], 1);
        let token = page["metadata"]["continue"].as_str().unwrap();
        let (_, _, page) = get(&format!(
            "/api/v1/componentstatuses?limit=2&continue={token}"
        ))
        .await;
        assert_eq!(
            (names(&page), &page["metadata"]["continue"]),
            (vec!["scheduler".to_owned()], &Value::Null)
        );
        let (_, _, page) =
            get("/api/v1/componentstatuses?fieldSelector=metadata.name%3Detcd-0").await;
        assert_eq!(names(&page), ["etcd-0"]);
    }

    #[tokio::test]
    async fn reading_twice_checks_the_store_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("store.db"))
            .await
            .unwrap();
        let components = ComponentStatuses::new(store.clone());
        let before = store.revision();
        assert_eq!(components.healthy().await, Ok(()));
        assert_eq!(components.healthy().await, Ok(()));
        assert_eq!(store.revision(), before + 1, "a check writes");
    }

    #[test]
    fn a_store_that_fails_is_unhealthy() {
        let condition = &status("etcd-0", Some("the disk is full".to_owned()))["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["error"]),
            (&json!("False"), &json!("the disk is full"))
        );
    }
}
