//! What a node asks about itself: who am I, may I, what may I. The calls of nodes are carried out with this cloud's own rights, and the
//! API's answer would be about those; so these are answered here, by what decides on the node's calls.

use serde_json::{Value, json};
use wire::application::{SelfReview, Target, Verb};

use super::{
    Dynamic, Of, Refused, is_about_the_api,
    permit::{Business, Permit, Wanted, permit},
    request::Call,
};
use crate::mailbox::{ObjectKind, ObjectPath};

/// The question that a call asks about whoever makes it.
pub(super) fn question(call: &Call) -> Option<SelfReview> {
    let is_question = call.verb == Verb::Create && call.part.is_empty();
    is_question.then(|| SelfReview::of(&call.target)).flatten()
}

impl Dynamic {
    /// The question of `node` with its answer in `status`.
    pub(super) async fn review(
        &self,
        node: &str,
        review: SelfReview,
        call: &Call,
    ) -> Result<Vec<u8>, Refused> {
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
        Ok(review.answered(&call.target.version, spec, &status).to_string().into_bytes())
    }

    async fn access(&self, node: &str, spec: &Value) -> Result<Value, Refused> {
        let text =
            |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if spec["resourceAttributes"].is_object() == spec["nonResourceAttributes"].is_object() {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(Refused::Malformed(why.to_owned()));
        }
        if spec["nonResourceAttributes"].is_object() {
            let (verb, path) = (text("/nonResourceAttributes/verb"), text("/nonResourceAttributes/path"));
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
        // other verbs are no calls of nodes
        let Ok(verb) = serde_json::from_value::<Verb>(json!(of("verb"))) else {
            return Ok(json!({"allowed": false, "reason": "a node makes no such calls"}));
        };
        let part = of("subresource");
        let business = Of { edge: &self.edge, node };
        let permitted = permit(node, Wanted { target: &target, verb, part: &part }, &business);
        let account = ObjectPath::new(ObjectKind::Access, &target.namespace, &target.name);
        let call = Call::question(target, verb, part);
        Ok(match permitted {
            Permit::Yes => json!({"allowed": true}),
            Permit::Token => json!({"allowed": business.holds(&account)}),
            Permit::Never => json!({"allowed": false}),
            Permit::AsAccount => json!({"allowed": self.granted_to_accounts(node, &call)}),
            Permit::AsGranted => {
                json!({"allowed": self.granted_to_accounts(node, &call) || self.granted(node, &call).await?})
            }
            Permit::Within(selector) => {
                let all = self.granted_to_accounts(node, &call) || self.granted(node, &call).await?;
                let reason = if all { String::new() } else { format!("of those with {selector}") };
                json!({"allowed": true, "reason": reason})
            }
        })
    }
}
