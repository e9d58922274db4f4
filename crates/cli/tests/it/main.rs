//! The binary from outside, and the workspace's own rules: its documents, its structure, what it depends on.

mod binary;
mod html;
mod loop_device;

mod advise;
mod array_settings;
mod arrays;
mod circles;
mod cli;
mod compare;
mod computed_if_asked_for;
mod convert;
mod dependencies;
mod devices;
mod documents;
mod exit_status;
mod findings;
mod latency_log;
mod outputs;
mod policy_pages;
mod print_scenario;
mod record;
mod report;
mod report_page;
mod reproduce;
mod resume;
mod service;
mod shared_traces;
mod sizes;
mod stand_ins;
mod sweep;
mod terminal;
mod unreadable_names;
mod volumes;
mod window;
mod workloads;
