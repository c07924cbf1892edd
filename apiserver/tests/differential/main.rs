//! What a kube-apiserver answers, request by request, and whether this API answers the same.
//!
//! `recorded/` has the requests and the answers of a kube-apiserver, without what differs from run to run. The requests of one file
//! depend on each other. Those for one kind are made from `samples.yaml`, all others are written by hand.
//! `known-differences.yaml` has the differences with their reasons. A difference without a reason fails the test, and so does a reason
//! without a difference. With `OUTRIGGER_RECORD=KUBECONFIG` the requests are sent to the API server of that kubeconfig, and its answers
//! are recorded instead: an empty one, without controllers.
// the numbers of requests and differences are printed for those who work on them
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod compare;
mod generate;
mod known;
mod merge_patch;
mod normalize;
mod openapi;
mod record;
mod replay;
#[path = "../common/requests.rs"]
mod requests;
mod server;
mod step;

use std::env;

/// The file with the kubeconfig of the API server whose answers are to be recorded.
const RECORD: &str = "OUTRIGGER_RECORD";

#[tokio::test]
async fn answers_are_those_of_a_kube_apiserver() {
    match env::var_os(RECORD).as_deref() {
        Some(kubeconfig) => record::record_all(kubeconfig.as_ref()).await,
        None => replay::compare_all().await,
    }
}
