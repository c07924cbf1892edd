//! The built programs as processes of their own, driven with kubectl, signals, MQTT clients and the official Python client.

mod backed;
mod background;
mod bad_input;
mod by_hand;
mod conformance;
mod cri_suite;
mod demo;
mod devices;
mod drain;
mod edgecore;
mod full_disk;
mod half_open;
mod helm;
mod installer;
mod kill;
mod mosquitto;
mod output;
mod pages;
mod proxy;
mod python;
mod rollout;
mod rules;
mod scrape;
mod simulated_streams;
mod two;
mod why;
