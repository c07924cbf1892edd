//! The broker from outside: raw bytes, rumqttc, mosquitto's programs, kills and abuse.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

//abuse
//access
mod bytes;
//fuzz
mod in_process;
//mosquitto
//reconnects
//restart
//rumqtt
//slow
mod statements;
mod support;
