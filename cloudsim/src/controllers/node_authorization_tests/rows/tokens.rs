//! Rows 42 to 75: tokens.

use serde_json::json;
use wire::Upstream;

use super::*;

pub(super) fn tokens() -> Vec<Row> {
    use Expect::{Allow, Code, Deny};
    let p1 = |audiences: &[&str]| reference("Pod", "p1", "$pods/p1", audiences);
    vec![
        row(42, "a pod's token", token1(&p1(&[]), &Allow)),
        row(43, "bound to nothing", token1(&json!({"spec": {}}), &Deny)),
        row(
            44,
            "bound to something else",
            [
                token1(&reference("Secret", "s1", "$secrets/s1", &[]), &Deny),
                token1(&reference("Node", "n1", "$nodes/n1", &[]), &Deny),
                token1(
                    &reference("ServiceAccount", "sa2", "$serviceaccounts/sa2", &[]),
                    &Deny,
                ),
            ]
            .concat(),
        ),
        row(
            45,
            "bound to a pod without uid",
            token1(&reference("Pod", "p1", "", &[]), &Deny),
        ),
        row(
            46,
            "bound to an older pod",
            token1(&reference("Pod", "p1", "$pods/p2", &[]), &Deny),
        ),
        row(
            47,
            "bound to another node's pod",
            token(
                "shared",
                "/core/v1/serviceaccounts/ns/shared",
                &reference("Pod", "shared2", "$pods/shared2", &[]),
                &Deny,
            ),
        ),
        row(
            48,
            "bound to no pod",
            vec![(
                hub(Upstream::token(
                    "ns",
                    "sa1",
                    reference("Pod", "absent", "u", &[]),
                )),
                Code(404),
            )],
        ),
        row(
            49,
            "another account's",
            [
                token("sa2", "/core/v1/serviceaccounts/ns/sa2", &p1(&[]), &Deny),
                token(
                    "sa2",
                    "/core/v1/serviceaccounts/ns/sa2",
                    &reference("Pod", "p2", "$pods/p2", &[]),
                    &Deny,
                ),
            ]
            .concat(),
        ),
    ]
}

pub(super) fn audiences() -> Vec<Row> {
    use Expect::{Allow, Deny, Stricter};
    let p1 = |audiences: &[&str]| reference("Pod", "p1", "$pods/p1", audiences);
    vec![
        row(
            50,
            "for an audience of the pod",
            token1(&p1(&["vault"]), &Allow),
        ),
        row(51, "for another audience", token1(&p1(&["bank"]), &Deny)),
        row(
            52,
            "for a granted audience",
            token1(&p1(&["granted"]), &Allow),
        ),
        row(
            53,
            "for two audiences",
            token1(&p1(&["vault", "granted"]), &Deny),
        ),
        row(
            54,
            "for an audience of a CSI driver",
            token1(&p1(&["csi"]), &Stricter(NO_CSI)),
        ),
        row(
            55,
            "an account",
            vec![(
                part(
                    Verb::Create,
                    "/core/v1/serviceaccounts/ns/null",
                    "",
                    json!({"metadata": {"name": "x"}}),
                ),
                Deny,
            )],
        ),
    ]
}

pub(super) fn token_requests() -> Vec<Row> {
    use Expect::Code;
    let bound = |kind: &str, name: &str, uid: &str| reference(kind, name, uid, &[]);
    vec![
        row(
            56,
            "ten minutes",
            vec![
                (tokens_of_admin(seconds(599)), Code(422)),
                (tokens_of_admin(seconds(600)), Code(201)),
            ],
        ),
        row(
            57,
            "2^32 seconds",
            vec![(tokens_of_admin(seconds((1 << 32) + 1)), Code(422))],
        ),
        row(
            58,
            "longer than is allowed: shortened, as apiserver/tests/api/bound_tokens.rs shows",
            vec![(tokens_of_admin(seconds(1 << 32)), Code(201))],
        ),
        row(
            59,
            "bound to a ConfigMap",
            vec![(tokens_of_admin(bound("ConfigMap", "c1", "")), Code(400))],
        ),
        row(
            60,
            "bound to another account's pod",
            vec![(tokens_of_admin(bound("Pod", "p2", "")), Code(400))],
        ),
        row(
            61,
            "bound to an older object",
            vec![(tokens_of_admin(bound("Pod", "p1", "old")), Code(409))],
        ),
        row(
            62,
            "another account's uid",
            vec![(
                tokens_of_admin(json!({"metadata": {"uid": "u"}, "spec": {}})),
                Code(409),
            )],
        ),
        row(
            63,
            "another account's name",
            vec![(
                tokens_of_admin(json!({"metadata": {"name": "sa2"}, "spec": {}})),
                Code(422),
            )],
        ),
    ]
}

pub(super) fn ends() -> Vec<Row> {
    use Expect::Code;
    const BOUND: &str =
        "apiserver/tests/api/bound_tokens.rs: a_bound_token_ends_with_what_it_is_bound_to";
    const LEEWAY: &str =
        "apiserver/src/access/tokens.rs: what_is_being_deleted_bears_its_token_for_another_minute";
    vec![
        elsewhere(
            64,
            "3607 s become a year",
            "not here: no client of this cloud is too old to read its token anew, and a token should not outlive what it says",
        ),
        row(
            65,
            "3607 s for another audience",
            vec![(
                tokens_of_admin(
                    json!({"spec": {"audiences": ["vault"], "expirationSeconds": 3607,
                "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p1"}}}),
                ),
                Code(201),
            )],
        ),
        elsewhere(66, "its pod is gone", BOUND),
        elsewhere(67, "its pod ends, 30 s ago", LEEWAY),
        elsewhere(68, "its pod ends, 61 s ago", LEEWAY),
        elsewhere(
            69,
            "its account was made anew",
            "apiserver/tests/api/rbac.rs: service_accounts_call_with_their_tokens",
        ),
        elsewhere(70, "its pod's node is gone", BOUND),
        elsewhere(71, "its node is gone", BOUND),
        elsewhere(72, "its secret is gone", BOUND),
        elsewhere(
            73,
            "expired",
            "wire/src/enroll/jwt.rs: a_token_of_an_account_is_good_for_another_minute_with_leeway",
        ),
        elsewhere(
            74,
            "for another audience",
            "cloudsim/src/pki/service_accounts.rs: a_token_is_known_again_by_whoever_signed_it",
        ),
        elsewhere(
            75,
            "in a Secret",
            "not here: no Secret is given a token that does not expire",
        ),
    ]
}
