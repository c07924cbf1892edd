//! Reports of pods: their status, and that they have ended.

use kubeapi::store::Key;
use serde_json::{Value, json};
use tracing::debug;
use wire::{Answer, Upstream};

use super::{Failed, Reporter, Told};
use crate::metamanager::{
    desired::{Next, Placement},
    record::{Record, fingerprint},
};

impl Reporter {
    /// Tells the cloud what became of the pod at `key`.
    pub(super) async fn pod(&self, key: &Key) -> Result<Told, Failed> {
        let entry = self.desired.entry(key).await?;
        let Some(record) = entry.record else { return Ok(Told::Done) };
        if record.finished {
            if let Some(status) = &record.last_status {
                self.status(key, &record, status).await?;
            }
            self.delete(key, &record.uid).await?;
            return Ok(Told::Done);
        }
        let status = entry.object.as_ref().and_then(|pod| pod.get("status"));
        // nothing was observed yet: what stands there is the cloud's own
        let Some(status) = status.filter(|status| status.get("startTime").is_some()) else {
            return Ok(Told::Done);
        };
        if record.reported.as_deref() == Some(fingerprint(status).as_str()) {
            return Ok(Told::Done);
        }
        self.status(key, &record, status).await?;
        Ok(Told::Done)
    }

    async fn status(&self, key: &Key, record: &Record, status: &Value) -> Result<(), Failed> {
        let report = Upstream::pod_patch(&key.namespace, &key.name, patch(&record.uid, status).to_string());
        let told = match self.ask(report).await?.0 {
            Answer::Response(response) => response.into_result(),
            Answer::Failed(status) => Err(status),
            Answer::Done | Answer::Found(_) => Ok(Value::Null),
        };
        match told {
            // gone, or another pod by now: its deletion is on its way
            Err(status) if matches!(status["code"].as_u64(), Some(404 | 409)) => {
                debug!(pod = %key.name, "the cloud has no such pod any more");
            }
            Err(status) => return Err(Failed::Refused(status)),
            Ok(_) => {}
        }
        let (uid, confirmed) = (record.uid.clone(), fingerprint(status));
        let noted = self.desired.change(key, |entry| match &entry.record {
            Some(record) if record.uid == uid && record.finished => {
                let record =
                    Record { reported: Some(confirmed.clone()), last_status: None, ..record.clone() };
                Placement { object: Next::Keep, record: Next::Set(record) }
            }
            Some(record) if record.uid == uid && record.reported.as_deref() != Some(&confirmed) => {
                let record = Record { reported: Some(confirmed.clone()), ..record.clone() };
                Placement { object: Next::Keep, record: Next::Set(record) }
            }
            _ => Placement::default(),
        });
        Ok(noted.await?)
    }
}

/// A strategic merge patch of the whole status. Lists whose items may go are replaced, not merged.
fn patch(uid: &str, status: &Value) -> Value {
    let mut status = status.clone();
    for list in ["podIPs", "hostIPs"] {
        if let Some(Value::Array(items)) = status.get_mut(list) {
            items.insert(0, json!({"$patch": "replace"}));
        }
    }
    json!({"metadata": {"uid": uid}, "status": status})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_the_pod_and_replaces_addresses() {
        let patch = patch("u1", &json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}));
        let expected = json!({
            "metadata": {"uid": "u1"},
            "status": {"phase": "Running", "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.1"}]},
        });
        assert_eq!(patch, expected);
    }
}
