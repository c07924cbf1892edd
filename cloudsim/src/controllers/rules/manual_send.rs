//! Sends a message through a rule by hand, for `cloudsim rules send`.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::{Call, CallAnswer, CallError, Rules};

impl Rules {
    /// Sends `body` to `place` as if it had come to the router (`NAMESPACE/PATH` of a rule from rest), from the node's broker
    /// (`NAMESPACE/TOPIC` of a rule from eventbus) or from an application on it (the URL of a rule from servicebus). The message is
    /// counted.
    ///
    /// # Errors
    /// Returns an error if no rule has this source, or the rule's target has failed.
    pub(crate) async fn send_by_hand(
        &self,
        node: &str,
        place: &str,
        body: Bytes,
    ) -> Result<CallAnswer, CallError> {
        let place = place.trim_start_matches('/');
        let (path, query) = place
            .split_once('?')
            .map_or((place, None), |(path, query)| (path, Some(query)));
        if let Some((namespace, path)) = path.split_once('/')
            && self.rule_for(namespace, path).is_some()
        {
            let method = if body.is_empty() {
                Method::GET
            } else {
                Method::POST
            };
            let (node, namespace, path) = (node.to_owned(), namespace.to_owned(), path.to_owned());
            let query = query.map(str::to_owned);
            return self
                .call(Call {
                    node,
                    namespace,
                    path,
                    query,
                    method,
                    headers: HeaderMap::new(),
                    body,
                })
                .await;
        }
        self.try_upload(node, place, body).await.unwrap_or_else(|| {
            let why = format!(
                "no rule of node {node} has {} as its source: NAMESPACE/PATH of a rule from rest, NAMESPACE/TOPIC of one from \
                 eventbus, or the URL of one from servicebus; `cloudsim rules` lists them",
                wire::text::short(place)
            );
            Err(CallError::new(StatusCode::NOT_FOUND, "RuleNotFound", why))
        })
    }
}
