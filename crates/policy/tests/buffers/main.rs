//! The tests of all policies, as one program: every test program compiles every policy for itself.

mod content;
mod driven;
mod models;
mod table;
mod workload;

mod addresses;
mod against_models;
mod channel_table;
mod equivalences;
mod gcar;
mod golden;
mod honoured;
mod look_ahead;
mod multi_channel;
mod page_vetoes;
mod registry;
mod reorder_table;
mod vetoes;
mod worked_examples;
