//! The documented behaviour of Kubernetes' Jobs, by the pods that exist. The scripts are described at [`super::world::run`].

use serde_json::{Value, json};

use super::world::run;

/// A name, the job's spec, and a script.
type Row = (&'static str, Value, &'static str);

async fn run_all(rows: Vec<Row>) {
    for (row, spec, script) in rows {
        run(row, &spec, script).await;
    }
}

fn indexed_job(spec: Value) -> Value {
    let mut all = json!({"completionMode": "Indexed"});
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

fn on_failure() -> Value {
    json!({"spec": {"restartPolicy": "OnFailure"}})
}

/// A failure policy with one rule about exit code 42.
fn policy(action: &str) -> Value {
    json!({"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]})
}

#[tokio::test]
async fn completions_and_parallelism() {
    run_all(completions_and_parallelism_rows()).await;
}

fn completions_and_parallelism_rows() -> Vec<Row> {
    vec![
        ("by default, one", json!({}), "sync; made=1 active=1 started=true; end 0 0; sync; made=1 succeeded=1
            conditions=SuccessCriteriaMet:CompletionsReached,Complete:CompletionsReached"),
        ("five, one after the other", json!({"completions": 5, "parallelism": 1}),
            "sync; made=1; end 0 0; sync; made=2 succeeded=1; end 1 0; sync; made=3 succeeded=2; end 2 0; sync; made=4; end 3 0; sync;
            made=5 succeeded=4; end 4 0; sync; made=5 succeeded=5 active=- tracked=0 there=5 uncountedTerminatedPods={}"),
        ("three, two at once", json!({"completions": 3, "parallelism": 2}), "sync; made=2 active=2; end 0 0; sync; made=3 succeeded=1
            live=2; end 1 0; sync; made=3 succeeded=2 active=1; end 2 0; sync; made=3 succeeded=3 there=3"),
        ("without completions, all that run", json!({"parallelism": 3}), "sync; made=3; end 0 0; sync; made=3 live=2 succeeded=1
            conditions=; end 1 0; end 2 1; sync; made=3 succeeded=2 failed=1
            conditions=SuccessCriteriaMet:CompletionsReached,Complete:CompletionsReached"),
        ("without completions, failures are judged first", json!({"parallelism": 2, "backoffLimit": 0}), "sync; end 0 0; end 1 1; sync;
            conditions=FailureTarget:BackoffLimitExceeded,Failed:BackoffLimitExceeded"),
        ("none at once", json!({"parallelism": 0}), "sync; made=0 conditions="),
        ("fewer at once", json!({"completions": 9, "parallelism": 5}), "sync; made=5; ready 0; ready 1; spec {\"parallelism\": 2}; sync;
            made=5 live=2 failed=- active=2 terminating=3; gone 2; gone 3; gone 4; sync; there=2 failed=- made=5"),
        ("more at once", json!({"completions": 9, "parallelism": 1}), "sync; made=1; spec {\"parallelism\": 4}; sync; made=4 live=4"),
        ("more completions than run", json!({"completions": 2, "parallelism": 5}), "sync; made=2"),
        ("zero completions", json!({"completions": 0}), "sync; made=0 
            conditions=SuccessCriteriaMet:CompletionsReached,Complete:CompletionsReached"),
        ("another manager's", json!({"managedBy": "example.com/queue"}), "sync; made=0 started=false"),
    ]
}

#[tokio::test]
async fn failures_and_their_limit() {
    run_all(failures_and_their_limit_rows()).await;
}

fn failures_and_their_limit_rows() -> Vec<Row> {
    vec![
        ("a failed one is replaced after ten seconds", json!({}), "sync; end 0 1; sync; failed=1 made=1; wait 8; sync; made=1; wait 3; sync; made=2"),
        ("the wait doubles", json!({}), "sync; end 0 1; sync; wait 11; sync; made=2; end 1 1; sync; wait 18; sync; made=2; wait 3; sync;
            made=3 failed=2; end 2 1; sync; wait 38; sync; made=3; wait 3; sync; made=4"),
        ("up to ten minutes", json!({"backoffLimit": 99, "completions": 8, "parallelism": 8}), "sync; made=8; end 0-7 1; sync; failed=8;
            wait 598; sync; made=8; wait 3; sync; made=16"),
        ("three at once wait as after three", json!({"completions": 3, "parallelism": 3}), "sync; end 0-2 1; sync; failed=3 made=3; wait 38;
            sync; made=3; wait 3; sync; made=6"),
        ("a success ends the wait", json!({"completions": 3, "parallelism": 2}), "sync; end 0 1; wait 1; end 1 0; sync; made=4 failed=1 succeeded=1"),
        ("the seventh failure is one too many", json!({}), "sync; end 0 1; sync; wait 11; sync; end 1 1; sync; wait 21; sync; end 2 1; sync;
            wait 41; sync; end 3 1; sync; wait 81; sync; end 4 1; sync; wait 161; sync; end 5 1; sync; failed=6 conditions=; wait 321; sync;
            made=7; end 6 1; sync; made=7 failed=7 conditions=FailureTarget:BackoffLimitExceeded,Failed:BackoffLimitExceeded tracked=0"),
        ("no failure allowed", json!({"backoffLimit": 0}), "sync; end 0 1; sync; made=1 failed=1
            conditions=FailureTarget:BackoffLimitExceeded,Failed:BackoffLimitExceeded"),
        ("a very high limit", json!({"backoffLimit": 2147483647}), "sync; end 0 1; sync; made=1 failed=1 conditions="),
        ("the rest goes, and is counted", json!({"backoffLimit": 0, "completions": 3, "parallelism": 3}), "sync; end 0 1; sync; made=3
            live=0 failed=3 terminating=2 conditions=FailureTarget:BackoffLimitExceeded; gone 1; gone 2; sync; there=1 failed=3
            conditions=FailureTarget:BackoffLimitExceeded,Failed:BackoffLimitExceeded"),
        ("restarts in place count", json!({"template": on_failure()}), "sync; restart 0 5; sync; live=1; restart 0 6; sync; live=0
            conditions=FailureTarget:BackoffLimitExceeded; gone 0; sync; made=1 there=0"),
        ("no restart allowed", json!({"template": on_failure(), "backoffLimit": 0}), "sync; restart 0 0; sync; live=1; restart 0 1; sync; live=0"),
        ("its node refuses", json!({}), "sync; refuse 0 OutOfcpu; sync; failed=1 made=1; wait 11; sync; made=2"),
        ("a person deletes one", json!({}), "sync; delete 0; sync; failed=1 made=2 terminating=1 tracked=1; gone 0; sync; failed=1 there=1"),
        ("… and it is to be waited for", json!({"podReplacementPolicy": "Failed"}), "sync; delete 0; sync; failed=- made=1 terminating=1
            tracked=1; gone 0; sync; failed=1 made=2 there=1"),
        ("its node is lost", json!({"parallelism": 1}), "sync; ready 0; delete 0; sync; wait 9999; sync; made=2 live=1 terminating=1"),
        ("one collected with its node", json!({}), "sync; disrupt 0; gone 0; sync; failed=1 there=1 made=2"),
        ("one that succeeded and is deleted", json!({}), "sync; end 0 0; gone 0; sync; succeeded=1 there=0 made=1 failed=-"),
        ("many at once", json!({"completions": 700, "parallelism": 700}), "pass; made=500; sync; made=700; end 0-699 0; pass; pass; succeeded=500 conditions=SuccessCriteriaMet:CompletionsReached;
            sync; succeeded=700 tracked=0 conditions=SuccessCriteriaMet:CompletionsReached,Complete:CompletionsReached"),
    ]
}

#[tokio::test]
async fn suspension_deadlines_and_ends() {
    run_all(suspension_deadlines_and_ends_rows()).await;
}

fn suspension_deadlines_and_ends_rows() -> Vec<Row> {
    vec![
        ("suspended from the start", json!({"suspend": true}), "sync; made=0 started=false conditions=Suspended:JobSuspended; spec {\"suspend\": false};
            sync; made=1 started=true conditions=!Suspended:JobResumed"),
        ("suspended while it runs", json!({"completions": 4, "parallelism": 2}), "sync; end 0 0; sync; made=3; spec {\"suspend\": true}; sync; live=0
            active=- failed=- started=false tracked=0 conditions=Suspended:JobSuspended; gone 1; gone 2; sync; failed=- succeeded=1; spec {\"suspend\": false};
            sync; made=5 started=true"),
        ("the deadline", json!({"activeDeadlineSeconds": 60, "parallelism": 2}), "sync; wait 58; sync; live=2; wait 3; sync; live=0 failed=2
            conditions=FailureTarget:DeadlineExceeded; gone 0; gone 1; sync; conditions=FailureTarget:DeadlineExceeded,Failed:DeadlineExceeded made=2"),
        ("the clock stands while it is suspended", json!({"activeDeadlineSeconds": 60}), "sync; spec {\"suspend\": true}; sync; wait 99; sync;
            conditions=Suspended:JobSuspended; gone 0; spec {\"suspend\": false}; sync; wait 50; sync; live=1"),
        ("an ending pod withholds the end", json!({"completions": 1}), "sync; delete 0; sync; made=2; end 1 0; sync; succeeded=1
            conditions=SuccessCriteriaMet:CompletionsReached; gone 0; sync;
            conditions=SuccessCriteriaMet:CompletionsReached,Complete:CompletionsReached"),
        ("time to live", json!({"ttlSecondsAfterFinished": 30}), "sync; end 0 0; sync; succeeded=1; wait 28; sync; succeeded=1; wait 3; pass; succeeded=-"),
        ("what ended does not begin again", json!({}), "sync; end 0 0; sync; spec {\"parallelism\": 3}; sync; made=1"),
    ]
}

#[tokio::test]
async fn failure_policies() {
    run_all(failure_policies_rows()).await;
}

fn failure_policies_rows() -> Vec<Row> {
    let disrupted = |action: &str| json!({"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]});
    vec![
        ("the job fails", json!({"podFailurePolicy": policy("FailJob"), "completions": 2, "parallelism": 2}), "sync; end 0 42; sync; live=0
            conditions=FailureTarget:PodFailurePolicy; gone 1; sync; made=2 conditions=FailureTarget:PodFailurePolicy,Failed:PodFailurePolicy"),
        ("it does not count", json!({"podFailurePolicy": policy("Ignore"), "backoffLimit": 0}), "sync; end 0 42; sync; failed=- tracked=0 made=1;
            wait 11; sync; made=2; end 1 42; sync; wait 18; sync; made=2; wait 3; sync; made=3 failed=-"),
        ("it counts", json!({"podFailurePolicy": policy("Count"), "backoffLimit": 0}), "sync; end 0 42; sync; failed=1
            conditions=FailureTarget:BackoffLimitExceeded,Failed:BackoffLimitExceeded"),
        ("no rule matches", json!({"podFailurePolicy": policy("FailJob"), "backoffLimit": 0}), "sync; end 0 1; sync; failed=1
            conditions=FailureTarget:BackoffLimitExceeded,Failed:BackoffLimitExceeded"),
        ("disruptions do not count", json!({"podFailurePolicy": disrupted("Ignore"), "backoffLimit": 0}), "sync; disrupt 0; sync; failed=- conditions="),
        ("a refusal is no disruption", json!({"podFailurePolicy": disrupted("Ignore"), "backoffLimit": 0}), "sync; refuse 0 OutOfcpu; sync; failed=1
            conditions=FailureTarget:BackoffLimitExceeded,Failed:BackoffLimitExceeded"),
        ("with a policy, pods are waited for", json!({"podFailurePolicy": policy("Count")}), "sync; delete 0; sync; made=1 failed=-; gone 0; sync; made=2 failed=1"),
    ]
}

#[tokio::test]
async fn numbered_pods() {
    run_all(numbered_pods_rows()).await;
}

fn numbered_pods_rows() -> Vec<Row> {
    vec![
        ("each number once", indexed_job(json!({"completions": 5, "parallelism": 2})), "sync; made=2 indexes=0,1; end 0 0; sync; indexes=1,2
            completedIndexes=0 succeeded=1; end 1-2 0; sync; indexes=3,4 completedIndexes=0-2; end 4 0; sync; completedIndexes=0-2,4 indexes=3;
            end 3 0; sync; completedIndexes=0-4 succeeded=5 made=5
            conditions=SuccessCriteriaMet:CompletionsReached,Complete:CompletionsReached"),
        ("a failed number comes again, the lowest first", indexed_job(json!({"completions": 4, "parallelism": 2})), "sync; end 1 1; sync; failed=1 made=2;
            wait 11; sync; made=3 indexes=0,1"),
        ("fewer numbers", indexed_job(json!({"completions": 5, "parallelism": 5})), "sync; end 0 0; end 4 0; sync; completedIndexes=0,4 succeeded=2;
            spec {\"completions\": 3, \"parallelism\": 3}; sync; indexes=1,2 completedIndexes=0 succeeded=1 failed=-"),
        ("more numbers", indexed_job(json!({"completions": 2, "parallelism": 2})), "sync; spec {\"completions\": 4, \"parallelism\": 4}; sync; indexes=0,1,2,3 made=4"),
        ("a deleted number comes again", indexed_job(json!({"completions": 2, "parallelism": 2})), "sync; delete 1; sync; made=3 indexes=0,1 failed=1"),
        ("… and is waited for", indexed_job(json!({"completions": 3, "parallelism": 2, "podReplacementPolicy": "Failed"})), "sync; delete 1; sync;
            made=2 indexes=0; gone 1; sync; made=3 indexes=0,1"),
    ]
}

#[tokio::test]
async fn each_number_with_its_own_limit() {
    run_all(each_number_with_its_own_limit_rows()).await;
}

fn each_number_with_its_own_limit_rows() -> Vec<Row> {
    let own = |limit: i32, spec: Value| {
        let mut spec = indexed_job(spec);
        spec["backoffLimitPerIndex"] = limit.into();
        spec
    };
    vec![
        ("the limit of the job is out of the way", own(1, json!({"completions": 2, "parallelism": 2})), "sync; made=2 failures=0; end 0 1; sync;
            made=2 tracked=2 failed=-; wait 11; sync; made=3 failures=1 failed=1 tracked=2"),
        ("a number is given up, the others go on", own(1, json!({"completions": 2, "parallelism": 2})), "sync; end 0 1; sync; wait 11; sync; made=3; end 2 1;
            sync; failedIndexes=0 failed=2 indexes=1 conditions=; wait 99; sync; made=3; end 1 0; sync; succeeded=1 completedIndexes=1 tracked=0
            conditions=FailureTarget:FailedIndexes,Failed:FailedIndexes"),
        ("numbers wait each for itself", own(3, json!({"completions": 2, "parallelism": 2})), "sync; end 0 1; sync; wait 5; end 1 1; sync; made=2; wait 6; sync;
            made=3 indexes=0; wait 6; sync; made=4 indexes=0,1"),
        ("too many are given up", own(0, json!({"completions": 3, "parallelism": 3, "maxFailedIndexes": 1})), "sync; end 0 1; sync; failedIndexes=0 live=2;
            end 1 1; sync; failedIndexes=0,1 live=0 conditions=FailureTarget:MaxFailedIndexesExceeded; gone 2; sync;
            conditions=FailureTarget:MaxFailedIndexesExceeded,Failed:MaxFailedIndexesExceeded made=3"),
        ("the policy gives a number up", own(5, json!({"completions": 2, "parallelism": 2, "podFailurePolicy": policy("FailIndex")})), "sync; end 0 42; sync;
            failedIndexes=0 failed=1 made=2 indexes=1"),
        ("the policy ignores a failure of a number", own(0, json!({"completions": 2, "parallelism": 2, "podFailurePolicy": policy("Ignore")})), "sync; end 0 42;
            sync; failedIndexes=- made=2; wait 11; sync; made=3 failures=0 failed=-"),
    ]
}

#[tokio::test]
async fn success_policies() {
    run_all(success_policies_rows()).await;
}

fn success_policies_rows() -> Vec<Row> {
    let with = |rule: Value| {
        indexed_job(json!({"completions": 4, "parallelism": 4, "successPolicy": {"rules": [rule]}}))
    };
    vec![
        ("a leader is enough", with(json!({"succeededIndexes": "0"})), "sync; end 1 0; sync; live=3 conditions=; end 0 0; sync; live=0 failed=-
            terminating=2 conditions=SuccessCriteriaMet:SuccessPolicy; gone 2; gone 3; sync; failed=- succeeded=2 made=4 conditions=SuccessCriteriaMet:SuccessPolicy,Complete:SuccessPolicy"),
        ("so many are enough", with(json!({"succeededCount": 2})), "sync; end 3 0; sync; conditions=; end 1 0; sync; gone 0; gone 2; sync; succeeded=2 conditions=SuccessCriteriaMet:SuccessPolicy,Complete:SuccessPolicy"),
        ("so many of some", with(json!({"succeededIndexes": "0-2", "succeededCount": 2})), "sync; end 3 0; end 0 0; sync; conditions=; end 1 0; sync;
            live=0; gone 2; sync; succeeded=3 conditions=SuccessCriteriaMet:SuccessPolicy,Complete:SuccessPolicy"),
    ]
}
