//! Nodes' self reviews (SelfSubjectReview, SelfSubjectAccessReview, SelfSubjectRulesReview). Calls of nodes are made with this cloud's
//! own rights, which the API's answer would describe; so they are answered here by the authorization of nodes' calls.

use serde_json::{Value, json};
use wire::application::{SelfReview, Target, Verb};

use super::{
    CallError, Dynamic, EdgeNodeObjects, is_about_the_api,
    permission::{CallAttributes, NodeObjects, Permission, permission},
    request::Call,
};
use crate::mailbox::{ObjectKind, ObjectPath};

/// Returns the self review of a call, if it is one.
pub(super) fn question(call: &Call) -> Option<SelfReview> {
    let is_question = call.verb == Verb::Create && call.part.is_empty();
    is_question.then(|| SelfReview::of(&call.target)).flatten()
}

impl Dynamic {
    /// Answers the self review of `node` in `status`.
    pub(super) async fn review(
        &self,
        node: &str,
        review: SelfReview,
        call: &Call,
    ) -> Result<Vec<u8>, CallError> {
        let spec = &call.body["spec"];
        let status = match review {
            SelfReview::Subject => json!({"userInfo": {
                "username": format!("system:node:{node}"), "groups": ["system:nodes", "system:authenticated"],
            }}),
            SelfReview::Access => self.access(node, spec).await?,
            // as Kubernetes' node authorizer, which knows objects and no rules
            SelfReview::Rules => json!({
                "resourceRules": [], "nonResourceRules": [], "incomplete": true,
                "evaluationError": "what a node may do depends on its pods and is no list of rules",
            }),
        };
        Ok(review
            .into_answer(&call.target.version, spec, &status)
            .to_string()
            .into_bytes())
    }

    async fn access(&self, node: &str, spec: &Value) -> Result<Value, CallError> {
        let text = |pointer: &str| {
            spec.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        if spec["resourceAttributes"].is_object() == spec["nonResourceAttributes"].is_object() {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(CallError::Malformed(why.to_owned()));
        }
        if spec["nonResourceAttributes"].is_object() {
            let (verb, path) = (
                text("/nonResourceAttributes/verb"),
                text("/nonResourceAttributes/path"),
            );
            return Ok(json!({"allowed": verb == "get" && is_about_the_api(&path)}));
        }
        let of = |field: &str| text(&format!("/resourceAttributes/{field}"));
        let target = Target {
            group: of("group"),
            version: of("version"),
            plural: of("resource"),
            namespace: of("namespace"),
            name: of("name"),
        };
        // nodes make no calls with other verbs
        let Ok(verb) = serde_json::from_value::<Verb>(json!(of("verb"))) else {
            return Ok(json!({"allowed": false, "reason": "a node makes no such calls"}));
        };
        let part = of("subresource");
        let business = EdgeNodeObjects {
            edge: &self.edge,
            node,
        };
        let permitted = permission(
            node,
            CallAttributes {
                target: &target,
                verb,
                part: &part,
            },
            &business,
        );
        let account = ObjectPath::new(ObjectKind::Access, &target.namespace, &target.name);
        let call = Call::question(target, verb, part);
        Ok(match permitted {
            Permission::Yes => json!({"allowed": true}),
            Permission::Token => json!({"allowed": business.holds(&account)}),
            Permission::Never => json!({"allowed": false}),
            Permission::AsAccount => json!({"allowed": self.granted_to_accounts(node, &call)}),
            Permission::AsGranted => {
                json!({"allowed": self.granted_to_accounts(node, &call) || self.is_granted(node, &call).await?})
            }
            Permission::Within(selector) => {
                let all =
                    self.granted_to_accounts(node, &call) || self.is_granted(node, &call).await?;
                let reason = if all {
                    String::new()
                } else {
                    format!("of those with {selector}")
                };
                json!({"allowed": true, "reason": reason})
            }
        })
    }
}
