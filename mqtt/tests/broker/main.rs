//! Tests of the broker from outside: raw bytes, rumqttc, mosquitto's programs, kills and abuse.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod bytes;
mod confirming;
mod crowd;
mod flow;
mod fuzz;
mod in_process;
mod mosquitto;
mod quota;
mod reconnects;
mod restart;
mod rumqtt;
mod slow;
mod statements;
mod support;
